#include "server/answer_buffer.h"

#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/wire_format_lite.h>
#include <grpcpp/support/slice.h>

#include <cstdint>
#include <new>

#include "base/bytes.h"
#include "engine/dynamic_output.h"

namespace sluice {
namespace {

constexpr auto kAlignment = std::align_val_t{kBufferAlignment.count()};

// What precedes a tensor of `size` bytes in field 6, raw_output_contents.
grpc::Slice TensorPrefix(std::size_t size) {
  using google::protobuf::internal::WireFormatLite;
  std::uint8_t bytes[16];
  std::uint8_t* end = google::protobuf::io::CodedOutputStream::WriteTagToArray(
      WireFormatLite::MakeTag(inference::ModelInferResponse::kRawOutputContentsFieldNumber,
                              WireFormatLite::WIRETYPE_LENGTH_DELIMITED),
      bytes);
  end = google::protobuf::io::CodedOutputStream::WriteVarint64ToArray(size, end);
  return {bytes, static_cast<std::size_t>(end - bytes)};
}

// The transport keeps the tensors until it has sent them.
grpc::Slice Share(std::span<std::byte> tensor, const std::shared_ptr<AnswerBuffer>& owner) {
  auto* held = new std::shared_ptr<AnswerBuffer>(owner);
  return {tensor.data(), tensor.size(),
          [](void* user_data) { delete static_cast<std::shared_ptr<AnswerBuffer>*>(user_data); },
          held};
}

}  // namespace

void AnswerBuffer::Free::operator()(std::byte* block) const {
  ::operator delete(block, kAlignment);
}

AnswerBuffer::AnswerBuffer(const ModelInterface& model, std::span<const std::size_t> outputs)
    : counts_(model.outputs.size(), 0) {
  Bytes total;
  for (const std::size_t index : outputs) {
    const PortInfo& port = model.outputs[index];
    total += AlignUp(TensorBytes(port.type, port.shape), kBufferAlignment);
  }
  block_.reset(static_cast<std::byte*>(::operator new(total.count(), kAlignment)));
  std::byte* next = block_.get();
  for (const std::size_t index : outputs) {
    const PortInfo& port = model.outputs[index];
    const Bytes size = TensorBytes(port.type, port.shape);
    tensors_.emplace_back(next, size.count());
    next += AlignUp(size, kBufferAlignment).count();
  }
}

void AnswerBuffer::CutToCounts(const ModelInterface& model, std::span<const std::size_t> outputs) {
  for (std::size_t k = 0; k < outputs.size(); ++k) {
    const PortInfo& port = model.outputs[outputs[k]];
    if (!port.dynamic) continue;
    const Shape real = RealShape(port, counts_[outputs[k]]);
    tensors_[k] = tensors_[k].first(TensorBytes(port.type, real).count());
  }
}

grpc::ByteBuffer SerializeAnswer(const inference::ModelInferResponse& header,
                                 const std::shared_ptr<AnswerBuffer>& tensors) {
  std::vector<grpc::Slice> slices;
  slices.reserve(1 + 2 * tensors->tensors().size());
  slices.emplace_back(header.SerializeAsString());
  for (const std::span<std::byte> tensor : tensors->tensors()) {
    slices.push_back(TensorPrefix(tensor.size()));
    if (!tensor.empty()) slices.push_back(Share(tensor, tensors));
  }
  return {slices.data(), slices.size()};
}

}  // namespace sluice
