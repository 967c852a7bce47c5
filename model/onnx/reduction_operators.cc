// Reductions, where the largest lies, and running sums.

#include <limits>
#include <numeric>

#include "absl/strings/str_format.h"
#include "base/status_macros.h"
#include "model/host_tensor.h"
#include "model/onnx/onnx_node.h"

namespace sluice {
namespace {

struct Reduction {
  std::vector<std::int64_t> axes;
  Shape shape;  // Of the result.
  Shape kept;   // With reduced dimensions of 1.
};

// nullopt: nothing is reduced. `since`: the opset in which the axes became an input.
absl::StatusOr<std::optional<Reduction>> ReductionOf(OnnxNode& node, std::int64_t since) {
  const Shape x = node.shape(0);
  SLUICE_ASSIGN_OR_RETURN(const auto given, node.IntsOrInput("axes", 1, since));
  if ((!given || given->empty()) && node.Flag("noop_with_empty_axes")) return std::nullopt;
  Reduction reduction{.axes = std::vector<std::int64_t>(x.size()), .shape = {}, .kept = x};
  std::iota(reduction.axes.begin(), reduction.axes.end(), 0);
  if (given && !given->empty()) {
    SLUICE_ASSIGN_OR_RETURN(reduction.axes, NormalAxes(*given, x.size()));
  }
  for (const std::int64_t axis : reduction.axes) reduction.kept[static_cast<std::size_t>(axis)] = 1;
  if (node.Flag("keepdims", true)) {
    reduction.shape = reduction.kept;
    return reduction;
  }
  for (std::size_t d = 0, i = 0; d < x.size(); ++d) {
    const bool reduced =
        i < reduction.axes.size() && reduction.axes[i] == static_cast<std::int64_t>(d);
    if (reduced) {
      ++i;
    } else {
      reduction.shape.push_back(x[d]);
    }
  }
  return reduction;
}

MaybeValue EmitReduce(OnnxNode& node, Reduce::Kind kind, ValueId x, const Reduction& reduction) {
  return node.Emit(Reduce{.kind = kind, .axes = reduction.axes}, {x}, reduction.shape);
}

MaybeValue EmitCast(OnnxNode& node, ValueId x, DataType type) {
  return node.Emit(Cast{}, {x}, std::nullopt, type);
}

template <Reduce::Kind kind>
MaybeValue ReduceOver(OnnxNode& node) {
  SLUICE_ASSIGN_OR_RETURN(const auto reduction,
                          ReductionOf(node, kind == Reduce::Kind::kSum ? 13 : 18));
  if (!reduction) return *node.input(0);
  if (node.at(0).type != DataType::kBool) {
    return EmitReduce(node, kind, *node.input(0), *reduction);
  }
  SLUICE_ASSIGN_OR_RETURN(const ValueId x, EmitCast(node, *node.input(0), DataType::kUint8));
  SLUICE_ASSIGN_OR_RETURN(const ValueId y, EmitReduce(node, kind, x, *reduction));
  return EmitCast(node, y, DataType::kBool);
}

MaybeValue SumOfSquares(OnnxNode& node, ValueId x, const Reduction& reduction) {
  SLUICE_ASSIGN_OR_RETURN(const ValueId square, node.EmitBinary(Binary::Kind::kMultiply, x, x));
  return EmitReduce(node, Reduce::Kind::kSum, square, reduction);
}

MaybeValue LogOfSum(OnnxNode& node, ValueId x, const Reduction& reduction) {
  SLUICE_ASSIGN_OR_RETURN(const ValueId sum, EmitReduce(node, Reduce::Kind::kSum, x, reduction));
  return node.EmitUnary({.kind = Unary::Kind::kLog}, sum);
}

// log(sum(exp(x - m))) + m for m = max(x), kept finite so that infinities pass.
MaybeValue LogOfSumOfExp(OnnxNode& node, ValueId x, const Reduction& reduction) {
  constexpr float kLargest = std::numeric_limits<float>::max();
  Reduction keeping = reduction;
  keeping.shape = reduction.kept;
  SLUICE_ASSIGN_OR_RETURN(ValueId most, EmitReduce(node, Reduce::Kind::kMax, x, keeping));
  SLUICE_ASSIGN_OR_RETURN(
      most,
      node.EmitUnary({.kind = Unary::Kind::kClip, .alpha = -kLargest, .beta = kLargest}, most));
  SLUICE_ASSIGN_OR_RETURN(const ValueId moved, node.EmitBinary(Binary::Kind::kSubtract, x, most));
  SLUICE_ASSIGN_OR_RETURN(const ValueId power, node.EmitUnary({.kind = Unary::Kind::kExp}, moved));
  SLUICE_ASSIGN_OR_RETURN(const ValueId log, LogOfSum(node, power, reduction));
  SLUICE_ASSIGN_OR_RETURN(most, node.EmitReshape(most, reduction.shape));
  return node.EmitBinary(Binary::Kind::kAdd, log, most);
}

// Integers are converted to FP64 and back where `compute` needs functions that they lack.
template <MaybeValue (*compute)(OnnxNode& node, ValueId x, const Reduction& reduction), bool floats>
MaybeValue Composed(OnnxNode& node) {
  SLUICE_ASSIGN_OR_RETURN(const auto reduction, ReductionOf(node, 18));
  if (!reduction) return *node.input(0);
  const DataType type = node.at(0).type;
  if (!floats || IsFloat(type)) return compute(node, *node.input(0), *reduction);
  SLUICE_ASSIGN_OR_RETURN(const ValueId x, EmitCast(node, *node.input(0), DataType::kFloat64));
  SLUICE_ASSIGN_OR_RETURN(const ValueId y, compute(node, x, *reduction));
  return EmitCast(node, y, type);
}

template <ArgReduce::Kind kind>
MaybeValue ArgOver(OnnxNode& node) {
  Shape shape = node.shape(0);
  SLUICE_ASSIGN_OR_RETURN(const std::int64_t axis, NormalAxis(node.Int("axis", 0), shape.size()));
  if (node.Flag("keepdims", true)) {
    shape[static_cast<std::size_t>(axis)] = 1;
  } else {
    shape.erase(shape.begin() + axis);
  }
  return node.Emit(ArgReduce{.kind = kind, .axis = axis, .last = node.Flag("select_last_index")},
                   {node.input(0)}, shape, DataType::kInt64);
}

MaybeValue CumSum(OnnxNode& node) {
  SLUICE_ASSIGN_OR_RETURN(const auto given, node.Integers(1));
  if (given.size() != 1) {
    return absl::InvalidArgumentError(
        absl::StrFormat("axis has %u elements, want one", given.size()));
  }
  SLUICE_ASSIGN_OR_RETURN(const std::int64_t axis, NormalAxis(given[0], node.shape(0).size()));
  return node.Emit(
      CumulativeSum{
          .axis = axis, .exclusive = node.Flag("exclusive"), .reverse = node.Flag("reverse")},
      {node.input(0)});
}

// (x - mean) / (deviation + 1e-9)
MaybeValue MeanVariance(OnnxNode& node) {
  const ValueId x = *node.input(0);
  std::vector<std::int64_t> axes = {0, 2, 3};
  if (node.Has("axes")) axes = node.Ints("axes");
  Reduction over{.axes = {}, .shape = node.shape(0), .kept = {}};
  SLUICE_ASSIGN_OR_RETURN(over.axes, NormalAxes(axes, over.shape.size()));
  for (const std::int64_t axis : over.axes) over.shape[static_cast<std::size_t>(axis)] = 1;
  SLUICE_ASSIGN_OR_RETURN(const ValueId mean, EmitReduce(node, Reduce::Kind::kMean, x, over));
  SLUICE_ASSIGN_OR_RETURN(const ValueId moved, node.EmitBinary(Binary::Kind::kSubtract, x, mean));
  SLUICE_ASSIGN_OR_RETURN(const ValueId square,
                          node.EmitBinary(Binary::Kind::kMultiply, moved, moved));
  SLUICE_ASSIGN_OR_RETURN(const ValueId variance,
                          EmitReduce(node, Reduce::Kind::kMean, square, over));
  SLUICE_ASSIGN_OR_RETURN(const ValueId deviation,
                          node.EmitUnary({.kind = Unary::Kind::kSqrt}, variance));
  SLUICE_ASSIGN_OR_RETURN(
      const ValueId raised,
      node.EmitUnary({.kind = Unary::Kind::kLinear, .alpha = 1, .beta = 1e-9f}, deviation));
  return node.EmitBinary(Binary::Kind::kDivide, moved, raised);
}

constexpr OnnxOperator kOperators[] = {
    {"ReduceSum", 1, 2, ReduceOver<Reduce::Kind::kSum>},
    {"ReduceMean", 1, 2, ReduceOver<Reduce::Kind::kMean>},
    {"ReduceMax", 1, 2, ReduceOver<Reduce::Kind::kMax>},
    {"ReduceMin", 1, 2, ReduceOver<Reduce::Kind::kMin>},
    {"ReduceProd", 1, 2, ReduceOver<Reduce::Kind::kProduct>},
    {"ReduceL1", 1, 2, ReduceOver<Reduce::Kind::kL1>},
    {"ReduceL2", 1, 2, ReduceOver<Reduce::Kind::kL2>},
    {"ReduceSumSquare", 1, 2, Composed<SumOfSquares, false>},
    {"ReduceLogSum", 1, 2, Composed<LogOfSum, true>},
    {"ReduceLogSumExp", 1, 2, Composed<LogOfSumOfExp, true>},
    {"ArgMax", 1, 1, ArgOver<ArgReduce::Kind::kMax>},
    {"ArgMin", 1, 1, ArgOver<ArgReduce::Kind::kMin>},
    {"CumSum", 2, 2, CumSum},
    {"MeanVarianceNormalization", 1, 1, MeanVariance},
};

}  // namespace

std::span<const OnnxOperator> ReductionOperators() { return kOperators; }

}  // namespace sluice
