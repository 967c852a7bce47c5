#include "engine/cpu/blocked_view.h"

#include <algorithm>

namespace sluice {
namespace {

bool FillsBlocks(const Value& value) {
  return CanBlock(value.type, value.shape) && value.shape[1] % ChannelBlock() == 0;
}

// The operation's attributes for the view; nothing when it has no such meaning.
std::optional<Operation> ViewOperation(const Binary& op, const Graph&, const Node&) { return op; }

std::optional<Operation> ViewOperation(const Concat& op, const Graph&, const Node&) { return op; }

std::optional<Operation> ViewOperation(const Slice& op, const Graph&, const Node&) {
  if (op.starts[1] % ChannelBlock() != 0 || op.steps[1] != 1) return std::nullopt;
  Slice view = op;
  view.starts[1] /= ChannelBlock();
  view.starts.push_back(0);
  view.steps.push_back(1);
  return view;
}

std::optional<Operation> ViewOperation(const Pad& op, const Graph&, const Node& node) {
  if (node.inputs.size() > 1) return std::nullopt;  // A computed constant.
  const bool whole_blocks = op.begin[1] % ChannelBlock() == 0 && op.end[1] % ChannelBlock() == 0;
  const bool by_value = op.mode == Pad::Mode::kConstant;
  if (!whole_blocks || (!by_value && (op.begin[1] != 0 || op.end[1] != 0))) return std::nullopt;
  Pad view = op;
  view.begin[1] /= ChannelBlock();
  view.end[1] /= ChannelBlock();
  view.begin.push_back(0);
  view.end.push_back(0);
  return view;
}

std::optional<Operation> ViewOperation(const Resize& op, const Graph& graph, const Node& node) {
  const Shape& from = graph.value(*node.inputs[0]).shape;
  const Shape& to = graph.value(node.output).shape;
  if (op.scales.size() != from.size() || op.scales[1] != 1 || from[1] != to[1] ||
      op.coordinates == Resize::Coordinates::kTfCropAndResize) {
    return std::nullopt;
  }
  Resize view = op;
  view.scales.push_back(1);
  return view;
}

std::optional<Operation> ViewOperation(const Reduce& op, const Graph& graph, const Node& node) {
  const Shape& from = graph.value(*node.inputs[0]).shape;
  const Shape& to = graph.value(node.output).shape;
  const bool spatial = std::ranges::all_of(op.axes, [](std::int64_t axis) { return axis >= 2; });
  if (!spatial || from.size() != to.size()) return std::nullopt;
  return op;
}

template <typename Any>
std::optional<Operation> ViewOperation(const Any&, const Graph&, const Node&) {
  return std::nullopt;
}

// How an input is read: blocked when its channels fill blocks; one value for all channels lies
// plain, with a block of one.
struct ViewedValue {
  Layout layout;
  Shape shape;
};
std::optional<ViewedValue> ViewValue(const Value& value, std::size_t rank, bool broadcasts) {
  if (FillsBlocks(value) && value.shape.size() == rank) {
    return ViewedValue{Layout::kBlocked, BlockedView(value.shape)};
  }
  if (!broadcasts || value.shape.size() > rank) return std::nullopt;
  Shape aligned(rank - value.shape.size(), 1);
  aligned.insert(aligned.end(), value.shape.begin(), value.shape.end());
  if (aligned[1] != 1) return std::nullopt;
  aligned.push_back(1);
  return ViewedValue{Layout::kPlain, aligned};
}

}  // namespace

std::optional<BlockedNode> ViewInBlocks(const Graph& graph, const Node& node) {
  const Value& result = graph.value(node.output);
  if (!FillsBlocks(result)) return std::nullopt;
  const std::size_t rank = result.shape.size();
  std::optional<Operation> operation =
      std::visit([&](const auto& op) { return ViewOperation(op, graph, node); }, node.operation);
  if (!operation) return std::nullopt;

  BlockedNode view;
  view.node = {node.name, node.source_op, *operation, {}, {}};
  const bool broadcasts = std::holds_alternative<Binary>(node.operation);
  for (const std::optional<ValueId>& input : node.inputs) {
    if (!input) return std::nullopt;
    Value value = graph.value(*input);
    const std::optional<ViewedValue> viewed = ViewValue(value, rank, broadcasts);
    if (!viewed) return std::nullopt;
    value.shape = viewed->shape;
    if (viewed->layout == Layout::kBlocked) value.constant = nullptr;
    view.inputs.push_back(viewed->layout);
    view.node.inputs.push_back(view.graph.Add(std::move(value)));
  }
  view.node.output = view.graph.Add({result.name, result.type, BlockedView(result.shape), nullptr});
  return view;
}

}  // namespace sluice
