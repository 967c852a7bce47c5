// Normalisations over batches, rows, channels and groups of channels; and dropout, which only
// training does.

#include <cmath>
#include <numeric>

#include "absl/strings/str_format.h"
#include "base/status_macros.h"
#include "model/host_tensor.h"
#include "model/onnx/onnx_node.h"
#include "model/shape_rule.h"

namespace sluice {
namespace {

MaybeValue Rooted(OnnxNode& node, ValueId variance, float epsilon) {
  SLUICE_ASSIGN_OR_RETURN(
      const ValueId raised,
      node.EmitUnary({.kind = Unary::Kind::kLinear, .alpha = 1, .beta = epsilon}, variance));
  return node.EmitUnary({.kind = Unary::Kind::kSqrt}, raised);
}

bool HasExtraOutputs(const OnnxNode& node) {
  for (int i = 1; i < node.proto().output_size(); ++i) {
    if (!node.proto().output(i).empty()) return true;
  }
  return false;
}

absl::Status CheckInference(OnnxNode& node) {
  // Up to opset 13 the outputs say which of the two is meant.
  const bool training = node.opset() >= 14 ? node.Flag("training_mode") : HasExtraOutputs(node);
  if (!training) return absl::OkStatus();
  return absl::UnimplementedError("it is in training mode, only inference is supported");
}

// The four parameters as one factor and one summand for each channel, computed here.
absl::StatusOr<std::optional<ValueId>> FoldedBatchNorm(OnnxNode& node, float epsilon) {
  const Shape x = node.shape(0);
  for (std::size_t i = 1; i < 5; ++i) {
    if (!node.IsConstant(i) || node.shape(i) != Shape{x[1]} || !IsFloat(node.at(i).type)) {
      return std::nullopt;
    }
  }
  SLUICE_ASSIGN_OR_RETURN(const auto gain, node.Numbers(1));
  SLUICE_ASSIGN_OR_RETURN(const auto bias, node.Numbers(2));
  SLUICE_ASSIGN_OR_RETURN(const auto mean, node.Numbers(3));
  SLUICE_ASSIGN_OR_RETURN(const auto variance, node.Numbers(4));
  std::vector<float> scale(gain.size()), shift(gain.size());
  for (std::size_t c = 0; c < gain.size(); ++c) {
    const double factor = gain[c] / std::sqrt(double{variance[c]} + double{epsilon});
    scale[c] = static_cast<float>(factor);
    shift[c] = static_cast<float>(bias[c] - mean[c] * factor);
  }
  const DataType type = node.at(0).type;
  const ValueId scale_id = node.AddFloats(type, {x[1]}, scale);
  const ValueId shift_id = node.AddFloats(type, {x[1]}, shift);
  SLUICE_ASSIGN_OR_RETURN(const ValueId y,
                          node.Emit(ChannelAffine{}, {node.input(0), scale_id, shift_id}));
  return y;
}

// A parameter as a tensor that broadcasts to x, of x's type: one element for each channel, or for
// each place of an image where `spatial` is 0.
MaybeValue AlongChannels(OnnxNode& node, std::size_t i, bool spatial) {
  const Shape x = node.shape(0);
  Shape wanted(x.begin() + (x.size() > 1 ? 1 : 0), x.end());
  if (x.size() == 1) wanted = {1};
  if (spatial) wanted.resize(1);
  if (node.shape(i) != wanted) {
    return absl::InvalidArgumentError(
        absl::StrFormat("input %d has shape %s for an input of %s, want %s", i,
                        FormatShape(node.shape(i)), FormatShape(x), FormatShape(wanted)));
  }
  ValueId id = *node.input(i);
  if (node.at(i).type != node.at(0).type) {
    SLUICE_ASSIGN_OR_RETURN(id, node.Emit(Cast{}, {id}, std::nullopt, node.at(0).type));
  }
  wanted.resize(x.size() > 1 ? x.size() - 1 : 1, 1);
  return node.EmitReshape(id, wanted);
}

MaybeValue BatchNorm(OnnxNode& node) {
  SLUICE_RETURN_IF_ERROR(CheckInference(node));
  const Shape x = node.shape(0);
  if (x.empty()) return absl::InvalidArgumentError("the input is a scalar");
  if (!IsFloat(node.at(0).type)) {
    return absl::InvalidArgumentError("the input is not floating point");
  }
  const float epsilon = node.Float("epsilon", 1e-5f);
  const bool spatial = node.opset() >= 9 || node.Flag("spatial", true);
  if (x.size() > 1 && spatial && node.at(0).type != DataType::kFloat64) {
    SLUICE_ASSIGN_OR_RETURN(const std::optional<ValueId> folded, FoldedBatchNorm(node, epsilon));
    if (folded) return *folded;
  }
  SLUICE_ASSIGN_OR_RETURN(const ValueId gain, AlongChannels(node, 1, spatial));
  SLUICE_ASSIGN_OR_RETURN(const ValueId bias, AlongChannels(node, 2, spatial));
  SLUICE_ASSIGN_OR_RETURN(const ValueId mean, AlongChannels(node, 3, spatial));
  SLUICE_ASSIGN_OR_RETURN(const ValueId variance, AlongChannels(node, 4, spatial));
  SLUICE_ASSIGN_OR_RETURN(const ValueId deviation, Rooted(node, variance, epsilon));
  SLUICE_ASSIGN_OR_RETURN(const ValueId factor,
                          node.EmitBinary(Binary::Kind::kDivide, gain, deviation));
  SLUICE_ASSIGN_OR_RETURN(const ValueId moved,
                          node.EmitBinary(Binary::Kind::kSubtract, *node.input(0), mean));
  SLUICE_ASSIGN_OR_RETURN(const ValueId scaled,
                          node.EmitBinary(Binary::Kind::kMultiply, moved, factor));
  return node.EmitBinary(Binary::Kind::kAdd, scaled, bias);
}

// The mean and the reciprocal deviation that training wants, as outputs `first` and the next one.
absl::Status SetStatistics(OnnxNode& node, ValueId x, std::int64_t axis, float epsilon,
                           std::size_t first) {
  const Shape shape = node.graph().value(x).shape;
  std::vector<std::int64_t> axes(shape.size() - static_cast<std::size_t>(axis));
  std::iota(axes.begin(), axes.end(), axis);
  Shape kept = shape;
  for (const std::int64_t d : axes) kept[static_cast<std::size_t>(d)] = 1;
  const Reduce mean{.kind = Reduce::Kind::kMean, .axes = axes};
  SLUICE_ASSIGN_OR_RETURN(const ValueId centre, node.Emit(mean, {x}, kept));
  SLUICE_ASSIGN_OR_RETURN(const ValueId moved, node.EmitBinary(Binary::Kind::kSubtract, x, centre));
  SLUICE_ASSIGN_OR_RETURN(const ValueId square,
                          node.EmitBinary(Binary::Kind::kMultiply, moved, moved));
  SLUICE_ASSIGN_OR_RETURN(const ValueId variance, node.Emit(mean, {square}, kept));
  SLUICE_ASSIGN_OR_RETURN(const ValueId deviation, Rooted(node, variance, epsilon));
  SLUICE_ASSIGN_OR_RETURN(const ValueId inverse,
                          node.EmitUnary({.kind = Unary::Kind::kReciprocal}, deviation));
  node.SetOutput(first, centre);
  node.SetOutput(first + 1, inverse);
  return absl::OkStatus();
}

}  // namespace

MaybeValue EmitRowNorm(OnnxNode& node, ValueId x, const RowNorm& norm) {
  const Value input = node.graph().value(x);
  const Shape row(input.shape.begin() + norm.axis, input.shape.end());
  std::vector<std::optional<ValueId>> inputs = {x};
  std::vector<std::pair<Binary::Kind, ValueId>> behind;
  for (const auto& [kind, id] : {std::pair{Binary::Kind::kMultiply, norm.scale},
                                 std::pair{Binary::Kind::kAdd, norm.shift}}) {
    inputs.emplace_back(std::nullopt);
    if (!id) continue;
    ValueId parameter = *id;
    if (node.graph().value(parameter).type != input.type) {
      SLUICE_ASSIGN_OR_RETURN(parameter, node.Emit(Cast{}, {parameter}, std::nullopt, input.type));
    }
    const Shape shape = node.graph().value(parameter).shape;
    if (behind.empty() && BroadcastShape(shape, row) == row) {
      if (ElementCount(shape) != ElementCount(row)) {
        SLUICE_ASSIGN_OR_RETURN(parameter, node.Emit(Expand{}, {parameter}, row));
      } else if (shape != row) {
        SLUICE_ASSIGN_OR_RETURN(parameter, node.EmitReshape(parameter, row));
      }
      inputs.back() = parameter;
    } else {
      behind.emplace_back(kind, parameter);
    }
  }
  while (!inputs.back()) inputs.pop_back();
  SLUICE_ASSIGN_OR_RETURN(
      ValueId y,
      node.Emit(Normalize{.axis = norm.axis, .epsilon = norm.epsilon, .centred = norm.centred},
                std::move(inputs)));
  for (const auto& [kind, parameter] : behind) {
    SLUICE_ASSIGN_OR_RETURN(y, node.EmitBinary(kind, y, parameter));
  }
  if (node.graph().value(y).shape == input.shape) return y;
  return absl::InvalidArgumentError(absl::StrFormat(
      "scale or bias do not broadcast to the input of shape %s", FormatShape(input.shape)));
}

namespace {

template <bool centred>
MaybeValue LayerNorm(OnnxNode& node) {
  const std::size_t rank = node.shape(0).size();
  SLUICE_ASSIGN_OR_RETURN(const std::int64_t axis, NormalAxis(node.Int("axis", -1), rank));
  const float epsilon = node.Float("epsilon", 1e-5f);
  if (centred && HasExtraOutputs(node)) {
    SLUICE_RETURN_IF_ERROR(SetStatistics(node, *node.input(0), axis, epsilon, 1));
  }
  return EmitRowNorm(node, *node.input(0),
                     {.axis = axis,
                      .epsilon = epsilon,
                      .centred = centred,
                      .scale = node.input(1),
                      .shift = centred ? node.input(2) : std::nullopt});
}

absl::Status NeedChannels(OnnxNode& node, std::size_t least) {
  if (node.shape(0).size() >= least) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrFormat("the input has shape %s, want %d dimensions",
                                                    FormatShape(node.shape(0)), least));
}

MaybeValue InstanceNorm(OnnxNode& node) {
  SLUICE_RETURN_IF_ERROR(NeedChannels(node, 3));
  return node.Emit(
      Normalize{
          .epsilon = node.Float("epsilon", 1e-5f), .per_channel = true, .groups = node.shape(0)[1]},
      {node.input(0), node.input(1), node.input(2)});
}

// Up to opset 20 there is one parameter for each group.
MaybeValue ForEachChannel(OnnxNode& node, std::size_t i, std::int64_t groups) {
  const std::int64_t channels = node.shape(0)[1];
  if (node.opset() >= 21 || node.shape(i) != Shape{groups}) return *node.input(i);
  SLUICE_ASSIGN_OR_RETURN(const ValueId column, node.EmitReshape(*node.input(i), {groups, 1}));
  SLUICE_ASSIGN_OR_RETURN(const ValueId wide,
                          node.Emit(Expand{}, {column}, Shape{groups, channels / groups}));
  return node.EmitReshape(wide, {channels});
}

MaybeValue GroupNorm(OnnxNode& node) {
  SLUICE_RETURN_IF_ERROR(NeedChannels(node, 3));
  const std::int64_t groups = node.Int("num_groups", 0), channels = node.shape(0)[1];
  if (groups < 1 || channels % groups != 0) {
    return absl::InvalidArgumentError(
        absl::StrFormat("num_groups is %d, want a divisor of %d channels", groups, channels));
  }
  SLUICE_ASSIGN_OR_RETURN(const ValueId scale, ForEachChannel(node, 1, groups));
  SLUICE_ASSIGN_OR_RETURN(const ValueId bias, ForEachChannel(node, 2, groups));
  return node.Emit(
      Normalize{.epsilon = node.Float("epsilon", 1e-5f), .per_channel = true, .groups = groups},
      {node.input(0), scale, bias});
}

// x divided by the norm of its vector along an axis.
MaybeValue LpNorm(OnnxNode& node) {
  Shape kept = node.shape(0);
  SLUICE_ASSIGN_OR_RETURN(const std::int64_t axis, NormalAxis(node.Int("axis", -1), kept.size()));
  const std::int64_t p = node.Int("p", 2);
  if (p != 1 && p != 2) {
    return absl::InvalidArgumentError(absl::StrFormat("p is %d, want 1 or 2", p));
  }
  kept[static_cast<std::size_t>(axis)] = 1;
  const Reduce norm{.kind = p == 1 ? Reduce::Kind::kL1 : Reduce::Kind::kL2, .axes = {axis}};
  SLUICE_ASSIGN_OR_RETURN(const ValueId length, node.Emit(norm, {node.input(0)}, kept));
  return node.EmitBinary(Binary::Kind::kDivide, *node.input(0), length);
}

// What is true everywhere, of the mask's type.
MaybeValue FullMask(OnnxNode& node) {
  const DataType type = node.opset() >= 10 ? DataType::kBool : node.at(0).type;
  const float one = 1;
  const std::int64_t truth = 1;
  const std::vector<std::byte> element = IsFloat(type) ? PackFloats(type, std::span(&one, 1))
                                                       : PackIntegers(type, std::span(&truth, 1));
  const ValueId mask = node.AddConstant(type, {}, InlineConstant(element));
  return node.Emit(Expand{}, {mask}, node.shape(0));
}

MaybeValue Dropout(OnnxNode& node) {
  if (node.input(2)) {
    // Whether it trains is an input since opset 12.
    SLUICE_ASSIGN_OR_RETURN(const std::vector<std::int64_t> training, node.Integers(2));
    if (training.empty() || training[0] != 0) {
      return absl::UnimplementedError("it is in training mode, only inference is supported");
    }
  }
  if (node.output_count() > 1 && !node.proto().output(1).empty()) {
    SLUICE_ASSIGN_OR_RETURN(const ValueId mask, FullMask(node));
    node.SetOutput(1, mask);
  }
  return *node.input(0);
}

constexpr OnnxOperator kOperators[] = {
    {"Dropout", 1, 3, Dropout},
    {"BatchNormalization", 5, 5, BatchNorm},
    {"LayerNormalization", 2, 3, LayerNorm<true>},
    // ONNX Runtime's optimiser puts these two, among others, into the standard domain.
    {"SimplifiedLayerNormalization", 2, 2, LayerNorm<false>},
    {"RMSNormalization", 2, 2, LayerNorm<false>},
    {"InstanceNormalization", 3, 3, InstanceNorm},
    {"GroupNormalization", 3, 3, GroupNorm},
    {"LpNormalization", 1, 1, LpNorm},
};

}  // namespace

std::span<const OnnxOperator> NormalizationOperators() { return kOperators; }

}  // namespace sluice
