// Operators that treat each element by itself.

#include <cmath>
#include <limits>
#include <numeric>

#include "absl/strings/str_format.h"
#include "base/status_macros.h"
#include "model/host_tensor.h"
#include "model/onnx/onnx_node.h"

namespace sluice {
namespace {

using Kind = Unary::Kind;

template <Kind kind>
MaybeValue Plain(OnnxNode& node) {
  return node.EmitUnary({.kind = kind}, *node.input(0));
}

template <Kind kind>
MaybeValue WithAlpha(OnnxNode& node) {
  const float otherwise = kind == Kind::kLeakyRelu ? 0.01f : 1.0f;
  return node.EmitUnary({.kind = kind, .alpha = node.Float("alpha", otherwise)}, *node.input(0));
}

MaybeValue HardSigmoid(OnnxNode& node) {
  return node.EmitUnary({.kind = Kind::kHardSigmoid,
                         .alpha = node.Float("alpha", 0.2f),
                         .beta = node.Float("beta", 0.5f)},
                        *node.input(0));
}

MaybeValue HardSwish(OnnxNode& node) {
  return node.EmitUnary({.kind = Kind::kHardSwish, .alpha = 1.0f / 6.0f, .beta = 0.5f},
                        *node.input(0));
}

absl::StatusOr<float> Bound(OnnxNode& node, std::size_t i, const char* name, float otherwise) {
  if (node.opset() < 11) return node.Float(name, otherwise);
  if (!node.input(i)) return otherwise;
  SLUICE_RETURN_IF_ERROR(node.NeedConstant(i));
  const Value& bound = node.at(i);
  if (ElementCount(bound.shape) != 1) {
    return absl::InvalidArgumentError(
        absl::StrFormat("%s has shape %s, want a scalar", name, FormatShape(bound.shape)));
  }
  if (IsInteger(bound.type)) {
    SLUICE_ASSIGN_OR_RETURN(const auto integers, ReadIntegers(bound));
    return static_cast<float>(integers[0]);
  }
  SLUICE_ASSIGN_OR_RETURN(const auto floats, ReadFloats(bound));
  return floats[0];
}

MaybeValue Clip(OnnxNode& node) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  SLUICE_ASSIGN_OR_RETURN(const float low, Bound(node, 1, "min", -kInfinity));
  SLUICE_ASSIGN_OR_RETURN(const float high, Bound(node, 2, "max", kInfinity));
  if (low == 0 && high == kInfinity) return node.EmitUnary({.kind = Kind::kRelu}, *node.input(0));
  return node.EmitUnary({.kind = Kind::kClip, .alpha = low, .beta = high}, *node.input(0));
}

MaybeValue Selu(OnnxNode& node) {
  const float alpha = node.Float("alpha", 1.67326319217681884765625f);
  const float gamma = node.Float("gamma", 1.05070102214813232421875f);
  SLUICE_ASSIGN_OR_RETURN(const ValueId elu,
                          node.EmitUnary({.kind = Kind::kElu, .alpha = alpha}, *node.input(0)));
  return node.EmitUnary({.kind = Kind::kLinear, .alpha = gamma}, elu);
}

MaybeValue Softsign(OnnxNode& node) {
  SLUICE_ASSIGN_OR_RETURN(const ValueId abs, node.EmitUnary({.kind = Kind::kAbs}, *node.input(0)));
  SLUICE_ASSIGN_OR_RETURN(const ValueId below,
                          node.EmitUnary({.kind = Kind::kLinear, .alpha = 1, .beta = 1}, abs));
  return node.EmitBinary(Binary::Kind::kDivide, *node.input(0), below);
}

// x * 0.5 * (1 + erf(x / sqrt(2))), or the form with tanh.
MaybeValue Gelu(OnnxNode& node) {
  if (node.opset() < 20) return absl::UnimplementedError("the operator begins with opset 20");
  if (node.String("approximate", "none") != "none") {
    return absl::UnimplementedError("approximate is not supported");
  }
  const ValueId x = *node.input(0);
  SLUICE_ASSIGN_OR_RETURN(
      const ValueId scaled,
      node.EmitUnary({.kind = Kind::kLinear, .alpha = 0.70710678118654752f}, x));
  SLUICE_ASSIGN_OR_RETURN(const ValueId erf, node.EmitUnary({.kind = Kind::kErf}, scaled));
  SLUICE_ASSIGN_OR_RETURN(
      const ValueId half,
      node.EmitUnary({.kind = Kind::kLinear, .alpha = 0.5f, .beta = 0.5f}, erf));
  return node.EmitBinary(Binary::Kind::kMultiply, x, half);
}

MaybeValue PRelu(OnnxNode& node) {
  SLUICE_RETURN_IF_ERROR(node.NeedConstant(1));
  const ValueId x = *node.input(0);
  ValueId slope = *node.input(1);
  if (ElementCount(node.shape(1)) == 1) {
    SLUICE_ASSIGN_OR_RETURN(const auto slopes, node.Numbers(1));
    return node.EmitUnary({.kind = Kind::kLeakyRelu, .alpha = slopes[0]}, x);
  }
  // Before opset 7 a vector of slopes is one for each channel.
  if (node.opset() < 7 && node.shape(1).size() == 1) {
    Shape shape(node.shape(0).size() > 1 ? node.shape(0).size() - 1 : 1, 1);
    shape[0] = node.shape(1)[0];
    SLUICE_ASSIGN_OR_RETURN(slope, node.EmitReshape(slope, shape));
  }
  SLUICE_ASSIGN_OR_RETURN(const ValueId above, node.EmitUnary({.kind = Kind::kRelu}, x));
  SLUICE_ASSIGN_OR_RETURN(
      const ValueId below,
      node.EmitUnary({.kind = Kind::kClip, .alpha = -std::numeric_limits<float>::infinity()}, x));
  SLUICE_ASSIGN_OR_RETURN(const ValueId sloped,
                          node.EmitBinary(Binary::Kind::kMultiply, below, slope));
  return node.EmitBinary(Binary::Kind::kAdd, above, sloped);
}

// Before opset 7 the second operand is stretched only when `broadcast` says so, and its dimensions
// lie at `axis` of the first's.
MaybeValue OldOperand(OnnxNode& node) {
  const Shape a = node.shape(0), b = node.shape(1);
  if (!node.Flag("broadcast")) {
    if (a == b) return *node.input(1);
    return absl::InvalidArgumentError(absl::StrFormat(
        "shapes %s and %s differ, and broadcast is not set", FormatShape(a), FormatShape(b)));
  }
  if (!node.Has("axis")) return *node.input(1);
  SLUICE_ASSIGN_OR_RETURN(const std::int64_t axis, NormalAxis(node.Int("axis", 0), a.size()));
  const std::size_t behind = a.size() - static_cast<std::size_t>(axis);
  if (b.size() > behind) {
    return absl::InvalidArgumentError(absl::StrFormat("shape %s does not fit %s at axis %d",
                                                      FormatShape(b), FormatShape(a), axis));
  }
  Shape shape = b;
  shape.resize(behind, 1);
  return node.EmitReshape(*node.input(1), shape);
}

template <Binary::Kind kind>
MaybeValue Two(OnnxNode& node) {
  if (node.opset() >= 7) return node.EmitBinary(kind, *node.input(0), *node.input(1));
  SLUICE_ASSIGN_OR_RETURN(const ValueId b, OldOperand(node));
  return node.EmitBinary(kind, *node.input(0), b);
}

MaybeValue Pow(OnnxNode& node) {
  if (node.opset() < 7) return Two<Binary::Kind::kPower>(node);
  const ValueId x = *node.input(0);
  ValueId exponent = *node.input(1);
  if (node.at(1).type != node.at(0).type) {
    SLUICE_ASSIGN_OR_RETURN(exponent, node.Emit(Cast{}, {exponent}, std::nullopt, node.at(0).type));
  }
  const Value& power = node.graph().value(exponent);
  if (power.constant != nullptr && ElementCount(power.shape) == 1 && IsFloat(power.type) &&
      power.shape.size() <= node.shape(0).size()) {
    SLUICE_ASSIGN_OR_RETURN(const auto powers, ReadFloats(power));
    if (powers[0] == 2) return node.EmitBinary(Binary::Kind::kMultiply, x, x);
    if (powers[0] == 0.5f) return node.EmitUnary({.kind = Kind::kSqrt}, x);
    if (powers[0] == 1) return x;
  }
  return node.EmitBinary(Binary::Kind::kPower, x, exponent);
}

template <Binary::Kind kind>
MaybeValue Several(OnnxNode& node) {
  ValueId result = *node.input(0);
  for (std::size_t i = 1; i < node.input_count(); ++i) {
    if (!node.input(i)) return absl::InvalidArgumentError(absl::StrFormat("input %d is absent", i));
    SLUICE_ASSIGN_OR_RETURN(result, node.EmitBinary(kind, result, *node.input(i)));
  }
  return result;
}

MaybeValue Mean(OnnxNode& node) {
  SLUICE_ASSIGN_OR_RETURN(const ValueId sum, Several<Binary::Kind::kAdd>(node));
  const auto count = static_cast<float>(node.input_count());
  return node.EmitUnary({.kind = Kind::kLinear, .alpha = 1.0f / count}, sum);
}

MaybeValue CastTo(OnnxNode& node) {
  if (node.opset() < 6) return absl::UnimplementedError("before opset 6 the type is a string");
  const std::int64_t to = node.Int("to", 0);
  const std::optional<DataType> type = DataTypeFromOnnx(to);
  if (!type) {
    return absl::UnimplementedError(absl::StrFormat("element type %d is not supported", to));
  }
  if (*type == node.at(0).type) return *node.input(0);
  return node.Emit(Cast{}, {*node.input(0)}, std::nullopt, *type);
}

constexpr OnnxOperator kOperators[] = {
    {"Relu", 1, 1, Plain<Kind::kRelu>},
    {"LeakyRelu", 1, 1, WithAlpha<Kind::kLeakyRelu>},
    {"Elu", 1, 1, WithAlpha<Kind::kElu>},
    {"Clip", 1, 3, Clip},
    {"Sigmoid", 1, 1, Plain<Kind::kSigmoid>},
    {"HardSigmoid", 1, 1, HardSigmoid},
    {"HardSwish", 1, 1, HardSwish},
    {"Tanh", 1, 1, Plain<Kind::kTanh>},
    {"Exp", 1, 1, Plain<Kind::kExp>},
    {"Log", 1, 1, Plain<Kind::kLog>},
    {"Sqrt", 1, 1, Plain<Kind::kSqrt>},
    {"Abs", 1, 1, Plain<Kind::kAbs>},
    {"Neg", 1, 1, Plain<Kind::kNegate>},
    {"Erf", 1, 1, Plain<Kind::kErf>},
    {"Softplus", 1, 1, Plain<Kind::kSoftplus>},
    {"Mish", 1, 1, Plain<Kind::kMish>},
    {"Reciprocal", 1, 1, Plain<Kind::kReciprocal>},
    {"Floor", 1, 1, Plain<Kind::kFloor>},
    {"Ceil", 1, 1, Plain<Kind::kCeil>},
    {"Selu", 1, 1, Selu},
    {"Softsign", 1, 1, Softsign},
    {"Gelu", 1, 1, Gelu},
    {"PRelu", 2, 2, PRelu},
    {"Add", 2, 2, Two<Binary::Kind::kAdd>},
    {"Sub", 2, 2, Two<Binary::Kind::kSubtract>},
    {"Mul", 2, 2, Two<Binary::Kind::kMultiply>},
    {"Div", 2, 2, Two<Binary::Kind::kDivide>},
    {"Pow", 2, 2, Pow},
    {"Max", 1, SIZE_MAX, Several<Binary::Kind::kMaximum>},
    {"Min", 1, SIZE_MAX, Several<Binary::Kind::kMinimum>},
    {"Sum", 1, SIZE_MAX, Several<Binary::Kind::kAdd>},
    {"Mean", 1, SIZE_MAX, Mean},
    {"Cast", 1, 1, CastTo},
};

}  // namespace

std::span<const OnnxOperator> ElementwiseOperators() { return kOperators; }

}  // namespace sluice
