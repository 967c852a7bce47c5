// server/infer_codec.h
//
// Between an inference request on the wire and the tensors of a model: the message is checked
// against the model's description, then borrowed from where it can be and converted where it must.
//
// Threads: pure functions, callable from anywhere.

#ifndef SLUICE_SERVER_INFER_CODEC_H_
#define SLUICE_SERVER_INFER_CODEC_H_

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "base/bytes.h"
#include "engine/program.h"
#include "open_inference.pb.h"

namespace sluice {

// A model as its clients see it. Borrowed.
struct ModelInterface {
  std::string_view name;
  std::span<const PortInfo> inputs, outputs;
};

struct DecodedRequest {
  // In the model's order, each exactly its size; they borrow from the message or from `converted`.
  std::vector<std::span<const std::byte>> inputs;
  std::vector<std::vector<std::byte>> converted;  // Tensors that came in typed fields.
  std::vector<std::size_t> outputs;               // Of the model, in the order of the answer.
  int priority = 0;                               // 1 is highest; 0: the model's own.
  std::optional<std::chrono::microseconds> timeout;
};

// Fails: INVALID_ARGUMENT, names what was found, what was wanted and which tensor; UNIMPLEMENTED,
//        shared memory, classification and sequences, which Sluice does not have.
absl::StatusOr<DecodedRequest> DecodeRequest(const inference::ModelInferRequest& request,
                                             const ModelInterface& model);

// Everything of the answer but the values of its tensors: names, types, shapes, id and version.
// `outputs` as in DecodedRequest; `counts`, one for each output of the model, are the sizes that
// were computed.
inference::ModelInferResponse AnswerHeader(const inference::ModelInferRequest& request,
                                           std::string_view model_version,
                                           const ModelInterface& model,
                                           std::span<const std::size_t> outputs,
                                           std::span<const std::int64_t> counts = {});

// Bytes of memory that the answer's tensors take, each aligned to kBufferAlignment.
Bytes AnswerBytes(const ModelInterface& model);

// Text of a peer inside an error: quoted, control characters escaped, cut after 64 bytes.
std::string Quoted(std::string_view text);

}  // namespace sluice

#endif  // SLUICE_SERVER_INFER_CODEC_H_
