// client/client.h
//
// Calls a daemon that speaks the Open Inference Protocol: the C++ library behind sluicectl.

#ifndef SLUICE_CLIENT_CLIENT_H_
#define SLUICE_CLIENT_CLIENT_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "base/clock.h"
#include "open_inference.grpc.pb.h"
#include "sluice.grpc.pb.h"

namespace sluice {

// A tensor as it travels: row-major, little endian.
struct Tensor {
  std::string name;
  std::string datatype;  // "FP32", "INT64", ...
  std::vector<std::int64_t> shape;
  std::string data;
};

struct InferOptions {
  std::string version;                   // Empty: the newest.
  std::vector<std::string> outputs;      // Empty: all.
  std::string id;
  int priority = 0;
  std::optional<Duration> timeout;       // Of the whole call.
};

// Threads: callable from several at once; calls wait for their answer.
// Every call fails with the daemon's code and text, or UNAVAILABLE when nobody answers.
class Client {
 public:
  // "127.0.0.1:8001" or "unix:/run/sluice/sluice.sock". Connects at the first call.
  explicit Client(const std::string& address);

  absl::StatusOr<bool> ServerLive();
  absl::StatusOr<bool> ServerReady();
  absl::StatusOr<bool> ModelReady(std::string_view model, std::string_view version);
  absl::StatusOr<inference::ServerMetadataResponse> ServerMetadata();
  absl::StatusOr<inference::ModelMetadataResponse> ModelMetadata(std::string_view model,
                                                                 std::string_view version);
  absl::StatusOr<inference::RepositoryIndexResponse> RepositoryIndex();
  absl::StatusOr<v1::GetMemoryResponse> GetMemory();
  absl::StatusOr<std::vector<Tensor>> Infer(std::string_view model,
                                            const std::vector<Tensor>& inputs,
                                            const InferOptions& options);

 private:
  std::unique_ptr<inference::GRPCInferenceService::Stub> inference_;
  std::unique_ptr<v1::Sluice::Stub> sluice_;
};

}  // namespace sluice

#endif  // SLUICE_CLIENT_CLIENT_H_
