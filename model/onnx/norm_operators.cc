// Softmax and reductions.

#include <numeric>

#include "absl/strings/str_format.h"
#include "base/status_macros.h"
#include "model/onnx/onnx_node.h"

namespace sluice {
namespace {

template <bool log>
MaybeValue SoftmaxOver(OnnxNode& node) {
  const Shape x = node.shape(0);
  const bool flattens = node.opset() < 13;
  if (x.empty()) return absl::InvalidArgumentError("the input is a scalar");
  SLUICE_ASSIGN_OR_RETURN(const std::int64_t axis,
                          NormalAxis(node.Int("axis", flattens ? 1 : -1), x.size()));
  const std::uint64_t behind = ElementCount(std::span(x).subspan(static_cast<std::size_t>(axis)));
  const bool alone = behind == static_cast<std::uint64_t>(x[static_cast<std::size_t>(axis)]);
  if (!flattens || alone) return node.Emit(Softmax{.axis = axis, .log = log}, {node.input(0)});
  // Before opset 13 everything from the axis on is one dimension.
  const Shape flat = {
      static_cast<std::int64_t>(ElementCount(std::span(x).first(static_cast<std::size_t>(axis)))),
      static_cast<std::int64_t>(behind)};
  SLUICE_ASSIGN_OR_RETURN(const ValueId matrix, node.EmitReshape(*node.input(0), flat));
  SLUICE_ASSIGN_OR_RETURN(const ValueId y, node.Emit(Softmax{.axis = 1, .log = log}, {matrix}));
  return node.EmitReshape(y, x);
}

// Opsets in which the axes became an input.
template <Reduce::Kind kind>
MaybeValue ReduceOver(OnnxNode& node) {
  const Shape x = node.shape(0);
  const std::int64_t since = kind == Reduce::Kind::kSum ? 13 : 18;
  SLUICE_ASSIGN_OR_RETURN(const auto given, node.IntsOrInput("axes", 1, since));
  if ((!given || given->empty()) && node.Flag("noop_with_empty_axes")) return *node.input(0);
  std::vector<std::int64_t> axes(x.size());
  std::iota(axes.begin(), axes.end(), 0);
  if (given && !given->empty()) {
    SLUICE_ASSIGN_OR_RETURN(axes, NormalAxes(*given, x.size()));
  }
  const bool keep = node.Flag("keepdims", true);
  Shape shape;
  for (std::size_t d = 0, i = 0; d < x.size(); ++d) {
    const bool reduced = i < axes.size() && axes[i] == static_cast<std::int64_t>(d);
    if (reduced) ++i;
    if (!reduced || keep) shape.push_back(reduced ? 1 : x[d]);
  }
  return node.Emit(Reduce{.kind = kind, .axes = std::move(axes)}, {node.input(0)}, shape);
}

constexpr OnnxOperator kOperators[] = {
    {"Softmax", 1, 1, SoftmaxOver<false>},
    {"LogSoftmax", 1, 1, SoftmaxOver<true>},
    {"ReduceSum", 1, 2, ReduceOver<Reduce::Kind::kSum>},
    {"ReduceMean", 1, 2, ReduceOver<Reduce::Kind::kMean>},
    {"ReduceMax", 1, 2, ReduceOver<Reduce::Kind::kMax>},
    {"ReduceMin", 1, 2, ReduceOver<Reduce::Kind::kMin>},
    {"ReduceProd", 1, 2, ReduceOver<Reduce::Kind::kProduct>},
    {"ReduceL2", 1, 2, ReduceOver<Reduce::Kind::kL2>},
};

}  // namespace

std::span<const OnnxOperator> NormOperators() { return kOperators; }

}  // namespace sluice
