// Normalisation, softmax and reductions.

#include <cmath>
#include <numeric>

#include "absl/strings/str_format.h"
#include "base/status_macros.h"
#include "model/host_tensor.h"
#include "model/onnx/onnx_node.h"

namespace sluice {
namespace {

MaybeValue BatchNorm(OnnxNode& node) {
  if (node.Flag("training_mode")) return absl::UnimplementedError("training_mode is set");
  const Shape x = node.shape(0);
  for (std::size_t i = 1; i < 5; ++i) {
    if (x.size() < 2 || node.shape(i) != Shape{x[1]}) {
      return node.Flag("spatial", true) ? absl::InvalidArgumentError(absl::StrFormat(
                                              "input %d has shape %s for an input of %s", i,
                                              FormatShape(node.shape(i)), FormatShape(x)))
                                        : absl::UnimplementedError("spatial is 0");
    }
  }
  SLUICE_ASSIGN_OR_RETURN(const auto gain, node.Numbers(1));
  SLUICE_ASSIGN_OR_RETURN(const auto bias, node.Numbers(2));
  SLUICE_ASSIGN_OR_RETURN(const auto mean, node.Numbers(3));
  SLUICE_ASSIGN_OR_RETURN(const auto variance, node.Numbers(4));
  const double epsilon = node.Float("epsilon", 1e-5f);
  std::vector<float> scale(gain.size()), shift(gain.size());
  for (std::size_t c = 0; c < gain.size(); ++c) {
    const double factor = gain[c] / std::sqrt(double{variance[c]} + epsilon);
    scale[c] = static_cast<float>(factor);
    shift[c] = static_cast<float>(bias[c] - mean[c] * factor);
  }
  const DataType type = node.at(0).type;
  if (!IsFloat(type)) return absl::InvalidArgumentError("the input is not floating point");
  const ValueId scale_id = node.AddFloats(type, {x[1]}, scale);
  const ValueId shift_id = node.AddFloats(type, {x[1]}, shift);
  return node.Emit(ChannelAffine{}, {node.input(0), scale_id, shift_id});
}

// x centred and divided by its standard deviation over `axes`.
MaybeValue Standardise(OnnxNode& node, const std::vector<std::int64_t>& axes, float epsilon) {
  const ValueId x = *node.input(0);
  Shape kept = node.shape(0);
  for (const std::int64_t axis : axes) kept[static_cast<std::size_t>(axis)] = 1;
  const Reduce mean{.kind = Reduce::Kind::kMean, .axes = axes};
  SLUICE_ASSIGN_OR_RETURN(const ValueId centre, node.Emit(mean, {x}, kept));
  SLUICE_ASSIGN_OR_RETURN(const ValueId moved, node.EmitBinary(Binary::Kind::kSubtract, x, centre));
  SLUICE_ASSIGN_OR_RETURN(const ValueId square,
                          node.EmitBinary(Binary::Kind::kMultiply, moved, moved));
  SLUICE_ASSIGN_OR_RETURN(const ValueId variance, node.Emit(mean, {square}, kept));
  SLUICE_ASSIGN_OR_RETURN(
      const ValueId raised,
      node.EmitUnary({.kind = Unary::Kind::kLinear, .alpha = 1, .beta = epsilon}, variance));
  SLUICE_ASSIGN_OR_RETURN(const ValueId deviation,
                          node.EmitUnary({.kind = Unary::Kind::kSqrt}, raised));
  return node.EmitBinary(Binary::Kind::kDivide, moved, deviation);
}

MaybeValue LayerNorm(OnnxNode& node) {
  const std::size_t rank = node.shape(0).size();
  SLUICE_ASSIGN_OR_RETURN(const std::int64_t axis, NormalAxis(node.Int("axis", -1), rank));
  std::vector<std::int64_t> axes(rank - static_cast<std::size_t>(axis));
  std::iota(axes.begin(), axes.end(), axis);
  SLUICE_ASSIGN_OR_RETURN(ValueId y, Standardise(node, axes, node.Float("epsilon", 1e-5f)));
  SLUICE_ASSIGN_OR_RETURN(y, node.EmitBinary(Binary::Kind::kMultiply, y, *node.input(1)));
  if (!node.input(2)) return y;
  return node.EmitBinary(Binary::Kind::kAdd, y, *node.input(2));
}

MaybeValue InstanceNorm(OnnxNode& node) {
  const std::size_t rank = node.shape(0).size();
  if (rank < 3) return absl::InvalidArgumentError("the input has no spatial dimensions");
  SLUICE_RETURN_IF_ERROR(node.NeedConstant(1));
  SLUICE_RETURN_IF_ERROR(node.NeedConstant(2));
  std::vector<std::int64_t> axes(rank - 2);
  std::iota(axes.begin(), axes.end(), 2);
  SLUICE_ASSIGN_OR_RETURN(const ValueId y, Standardise(node, axes, node.Float("epsilon", 1e-5f)));
  return node.Emit(ChannelAffine{}, {y, node.input(1), node.input(2)});
}

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
    {"BatchNormalization", 5, 5, BatchNorm},
    {"LayerNormalization", 2, 3, LayerNorm},
    {"InstanceNormalization", 3, 3, InstanceNorm},
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
