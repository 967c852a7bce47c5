// server/answer_buffer.h
//
// The tensors of one answer, in memory that the executor writes and the wire sends without a copy.
//
//   message on the wire:  | header | tag, length | tensor 0 | tag, length | tensor 1 | ...
//   owned by              |  slice |    slice    |       one AnswerBuffer, shared        |

#ifndef SLUICE_SERVER_ANSWER_BUFFER_H_
#define SLUICE_SERVER_ANSWER_BUFFER_H_

#include <grpcpp/support/byte_buffer.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "open_inference.pb.h"
#include "server/infer_codec.h"

namespace sluice {

class AnswerBuffer {
 public:
  // Room for the named outputs of the model, in that order, each aligned to kBufferAlignment.
  // Requires: the bytes have been admitted to the budget.
  AnswerBuffer(const ModelInterface& model, std::span<const std::size_t> outputs);

  // tensors()[k] is outputs[k]; its contents are not set.
  std::span<const std::span<std::byte>> tensors() const { return tensors_; }

  // For InferenceCall::counts: one for each output of the model.
  std::span<std::int64_t> counts() { return counts_; }
  // Leaves of tensors whose size is computed what the counts say. Requires: as constructed with.
  void CutToCounts(const ModelInterface& model, std::span<const std::size_t> outputs);

 private:
  struct Free {
    void operator()(std::byte* block) const;
  };
  std::unique_ptr<std::byte, Free> block_;
  std::vector<std::span<std::byte>> tensors_;
  std::vector<std::int64_t> counts_;
};

// The whole answer as a message on the wire; it shares the ownership of `tensors`.
grpc::ByteBuffer SerializeAnswer(const inference::ModelInferResponse& header,
                                 const std::shared_ptr<AnswerBuffer>& tensors);

}  // namespace sluice

#endif  // SLUICE_SERVER_ANSWER_BUFFER_H_
