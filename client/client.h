// client/client.h
//
// Calls a daemon that speaks the Open Inference Protocol: the C++ library behind sluicectl.

#ifndef SLUICE_CLIENT_CLIENT_H_
#define SLUICE_CLIENT_CLIENT_H_

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "base/clock.h"
#include "client/tensor.h"
#include "open_inference.grpc.pb.h"
#include "sluice.grpc.pb.h"

namespace sluice {

// Contents of PEM files.
struct TlsOptions {
  std::string ca;           // Who must have signed the daemon's certificate.
  std::string certificate;  // Ours, and its key, for a daemon that asks; both or none.
  std::string key;
  std::string name;  // What the daemon's certificate must say; empty: the host of the address.
};

struct ClientOptions {
  std::optional<Duration> timeout;     // Of each call; absent: none.
  std::optional<TlsOptions> tls = {};  // Unix sockets do without.
};

struct InferOptions {
  std::string version;               // Empty: the newest.
  std::vector<std::string> outputs;  // Empty: all.
  std::string id;
  int priority = 0;                 // 1 is highest; 0: the model's own.
  std::optional<Duration> timeout;  // Of the whole call; absent: the client's.
};

// Threads: callable from several at once; calls wait for their answer.
// Every call fails with the daemon's code and text, or UNAVAILABLE when nobody answers: then
// IsUnreachable is true of the status.
class Client {
 public:
  // "127.0.0.1:8001" or "unix:/run/sluice/sluice.sock". Connects at the first call, directly: proxy
  // settings of the environment are not for a daemon on the same machine.
  // With `tls`, a daemon whose certificate does not convince is one that does not answer.
  explicit Client(const std::string& address, const ClientOptions& options = {});

  absl::StatusOr<bool> ServerLive();
  absl::StatusOr<bool> ServerReady();
  absl::StatusOr<bool> ModelReady(std::string_view model, std::string_view version);
  absl::StatusOr<inference::ServerMetadataResponse> ServerMetadata();
  absl::StatusOr<inference::ModelMetadataResponse> ModelMetadata(std::string_view model,
                                                                 std::string_view version);
  absl::StatusOr<inference::RepositoryIndexResponse> RepositoryIndex();
  // Answered when the model is ready, or gone.
  absl::Status LoadModel(std::string_view model);
  absl::Status UnloadModel(std::string_view model);
  absl::StatusOr<v1::GetMemoryResponse> GetMemory();

  // Sends the values as they are; the daemon checks names, types and shapes.
  // Fails: also INTERNAL, an answer whose tensors and bytes do not fit each other.
  absl::StatusOr<std::vector<Tensor>> Infer(std::string_view model,
                                            const std::vector<Tensor>& inputs,
                                            const InferOptions& options);

  // Returns when the connection is lost or made, at the latest after `wait`. For callers that ask
  // again.
  void WaitForChange(Duration wait);

  const std::string& address() const { return address_; }

 private:
  absl::Status ToStatus(const grpc::Status& status) const;

  std::string address_;
  ClientOptions options_;
  std::shared_ptr<grpc::Channel> channel_;  // The stubs share it; that is gRPC's contract.
  std::unique_ptr<inference::GRPCInferenceService::Stub> inference_;
  std::unique_ptr<v1::Sluice::Stub> sluice_;
};

// True when the call failed because there was no daemon to answer it.
bool IsUnreachable(const absl::Status& status);

}  // namespace sluice

#endif  // SLUICE_CLIENT_CLIENT_H_
