// engine/cpu/node_lowering.h
//
// One function for each operation: adds the steps of a node, which must be the one that `lowering`
// is at.
//
// Fail: UNIMPLEMENTED, no kernel; the message says for what.

#ifndef SLUICE_ENGINE_CPU_NODE_LOWERING_H_
#define SLUICE_ENGINE_CPU_NODE_LOWERING_H_

#include <optional>
#include <span>

#include "absl/status/status.h"
#include "engine/cpu/lowering.h"
#include "model/operation.h"

namespace sluice {

absl::Status LowerOperation(Lowering& lowering, const Node& node, const Convolution& operation);
absl::Status LowerOperation(Lowering& lowering, const Node& node, const FullyConnected& operation);
absl::Status LowerOperation(Lowering& lowering, const Node& node, const MatMul& operation);
absl::Status LowerOperation(Lowering& lowering, const Node& node, const Pool& operation);
absl::Status LowerOperation(Lowering& lowering, const Node& node, const ChannelAffine& operation);
absl::Status LowerOperation(Lowering& lowering, const Node& node, const Unary& operation);
absl::Status LowerOperation(Lowering& lowering, const Node& node, const Binary& operation);
absl::Status LowerOperation(Lowering& lowering, const Node& node, const Concat& operation);
absl::Status LowerOperation(Lowering& lowering, const Node& node, const Reshape& operation);
absl::Status LowerOperation(Lowering& lowering, const Node& node, const Slice& operation);
absl::Status LowerOperation(Lowering& lowering, const Node& node, const Gather& operation);

// Any operation, by a kernel of our own: on blocked bytes seen as a row-major tensor when the
// inputs lie there already and the operation has that meaning, otherwise on plain tensors.
absl::Status LowerRowMajor(Lowering& lowering, const Node& node);

// The step that joins the parts of a concat of blocked channels in a buffer of their own.
absl::Status AddJoin(Lowering& lowering, const Node& concat);

template <typename Any>
absl::Status LowerOperation(Lowering& lowering, const Node& node, const Any&) {
  return LowerRowMajor(lowering, node);
}

// What happens to a node's result: y * scale + shift for each channel (dimension 1 of
// `shape`; either may be null), then the epilogues.
struct Tail {
  Shape shape = {};
  Layout layout = Layout::kPlain;
  std::optional<BufferIndex> source = {};  // Where the result lies before, when not in `buffer`.
  BufferIndex buffer{};
  const Value* scale = nullptr;
  const Value* shift = nullptr;
  std::span<const Epilogue> epilogues = {};
};
absl::Status AddTail(Lowering& lowering, const Node& node, const Tail& tail);

}  // namespace sluice

#endif  // SLUICE_ENGINE_CPU_NODE_LOWERING_H_
