// Slices: another name for bytes of the source where they are one run of those, copies elsewhere.

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "base/status_macros.h"
#include "engine/cpu/node_lowering.h"

namespace sluice {
namespace {

// Where the slice begins in the bytes of its source, when it is a run of them: whole below some
// dimension, and one element of each above it.
std::optional<Bytes> RunIn(const Value& source, const Value& result, const Slice& slice,
                           Layout layout) {
  Shape from = source.shape, to = result.shape;
  std::vector<std::int64_t> starts = slice.starts;
  std::int64_t unit = static_cast<std::int64_t>(SizeOf(source.type).count());
  if (layout == Layout::kBlocked) {
    const std::int64_t block = ChannelBlock();
    const bool to_last = starts[1] + to[1] == from[1];
    if (starts[1] % block != 0 || (to[1] % block != 0 && !to_last)) return std::nullopt;
    for (Shape* shape : {&from, &to}) *shape = FullBlocks(*shape);
    from[1] /= block;
    to[1] /= block;
    starts[1] /= block;
    unit *= block;
  }
  std::int64_t offset = 0;
  bool whole = true;  // In all dimensions so far, from the innermost.
  for (std::size_t d = from.size(); d-- > 0;) {
    if (to[d] != 1 && (slice.steps[d] != 1 || !whole)) return std::nullopt;
    offset += starts[d] * unit;
    unit *= from[d];
    whole = whole && to[d] == from[d];
  }
  return Bytes::Of(static_cast<std::uint64_t>(offset));
}

// A name keeps all of the source alive: worth it when that lives as long anyway, or when half of it
// is sliced off.
bool WorthAName(const Lowering& lowering, ValueId source, ValueId result) {
  if (lowering.LastUseOf(result) <= lowering.LastUseOf(source)) return true;
  Bytes sliced;
  for (const Node& node : lowering.graph().nodes) {
    if (!std::holds_alternative<Slice>(node.operation) || node.inputs[0] != source) continue;
    sliced += StorageBytes(lowering.value(node.output), Layout::kPlain);
  }
  return sliced * 2 >= StorageBytes(lowering.value(source), Layout::kPlain);
}

}  // namespace

absl::Status LowerOperation(Lowering& lowering, const Node& node, const Slice& operation) {
  const ValueId input = *node.inputs[0];
  const Value& source = lowering.value(input);
  const Value& result = lowering.value(node.output);
  const Layout layout = lowering.Has(input, Layout::kBlocked) ? Layout::kBlocked : Layout::kPlain;
  if (source.constant != nullptr || ElementCount(result.shape) == 0 ||
      lowering.IsJoined(node.output) || !WorthAName(lowering, input, node.output) ||
      (layout == Layout::kBlocked && !CanBlock(result.type, result.shape))) {
    return LowerRowMajor(lowering, node);
  }
  const std::optional<Bytes> offset = RunIn(source, result, operation, layout);
  if (!offset) return LowerRowMajor(lowering, node);
  SLUICE_ASSIGN_OR_RETURN(const BufferIndex whole, lowering.Read(input, layout));
  lowering.WriteInto(node.output, layout,
                     lowering.NewPart(result.name, whole, *offset, StorageBytes(result, layout)));
  return absl::OkStatus();
}

}  // namespace sluice
