// Softmax and what is like it.

#include "base/status_macros.h"
#include "model/onnx/onnx_node.h"

namespace sluice {
namespace {

// An operation along one dimension; before opset 13 everything from the axis on is one.
template <typename OperationAlong>
MaybeValue Along(OnnxNode& node, const OperationAlong& operation) {
  const Shape x = node.shape(0);
  const bool flattens = node.opset() < 13;
  if (x.empty()) return absl::InvalidArgumentError("the input is a scalar");
  SLUICE_ASSIGN_OR_RETURN(const std::int64_t axis,
                          NormalAxis(node.Int("axis", flattens ? 1 : -1), x.size()));
  const std::uint64_t behind = ElementCount(std::span(x).subspan(static_cast<std::size_t>(axis)));
  const bool alone = behind == static_cast<std::uint64_t>(x[static_cast<std::size_t>(axis)]);
  if (!flattens || alone) return node.Emit(operation(axis), {node.input(0)});
  const Shape flat = {
      static_cast<std::int64_t>(ElementCount(std::span(x).first(static_cast<std::size_t>(axis)))),
      static_cast<std::int64_t>(behind)};
  SLUICE_ASSIGN_OR_RETURN(const ValueId matrix, node.EmitReshape(*node.input(0), flat));
  SLUICE_ASSIGN_OR_RETURN(const ValueId y, node.Emit(operation(1), {matrix}));
  return node.EmitReshape(y, x);
}

template <bool log>
MaybeValue SoftmaxAlong(OnnxNode& node) {
  return Along(node, [](std::int64_t axis) { return Softmax{.axis = axis, .log = log}; });
}

MaybeValue HardmaxAlong(OnnxNode& node) {
  return Along(node, [](std::int64_t axis) { return Hardmax{.axis = axis}; });
}

constexpr OnnxOperator kOperators[] = {
    {"Softmax", 1, 1, SoftmaxAlong<false>},
    {"LogSoftmax", 1, 1, SoftmaxAlong<true>},
    {"Hardmax", 1, 1, HardmaxAlong},
};

}  // namespace

std::span<const OnnxOperator> NormOperators() { return kOperators; }

}  // namespace sluice
