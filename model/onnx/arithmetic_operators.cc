// Operators of two or more operands that broadcast: arithmetic and bits.

#include "absl/strings/str_format.h"
#include "base/status_macros.h"
#include "model/host_tensor.h"
#include "model/onnx/onnx_node.h"

namespace sluice {

MaybeValue SecondOperand(OnnxNode& node) {
  if (node.opset() >= 7) return *node.input(1);
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

namespace {

template <Binary::Kind kind>
MaybeValue Two(OnnxNode& node) {
  SLUICE_ASSIGN_OR_RETURN(const ValueId b, SecondOperand(node));
  return node.EmitBinary(kind, *node.input(0), b);
}

MaybeValue Pow(OnnxNode& node) {
  if (node.opset() < 7) return Two<Binary::Kind::kPower>(node);
  const ValueId x = *node.input(0);
  const DataType type = node.at(0).type;
  ValueId exponent = *node.input(1);
  if (IsFloat(type) && node.at(1).type != type) {
    SLUICE_ASSIGN_OR_RETURN(exponent, node.Emit(Cast{}, {exponent}, std::nullopt, type));
  }
  const Value& power = node.graph().value(exponent);
  if (power.constant != nullptr && ElementCount(power.shape) == 1 && IsFloat(type) &&
      power.shape.size() <= node.shape(0).size()) {
    SLUICE_ASSIGN_OR_RETURN(const auto powers, ReadFloats(power));
    if (powers[0] == 2) return node.EmitBinary(Binary::Kind::kMultiply, x, x);
    if (powers[0] == 0.5f) return node.EmitUnary({.kind = Unary::Kind::kSqrt}, x);
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
  return node.EmitUnary({.kind = Unary::Kind::kLinear, .alpha = 1.0f / count}, sum);
}

MaybeValue Mod(OnnxNode& node) {
  const bool like_c = node.Flag("fmod");
  if (IsFloat(node.at(0).type) && !like_c) {
    return absl::InvalidArgumentError("fmod is 0, want 1 for floating point numbers");
  }
  return node.EmitBinary(like_c ? Binary::Kind::kRemainder : Binary::Kind::kModulo, *node.input(0),
                         *node.input(1));
}

MaybeValue BitShift(OnnxNode& node) {
  const std::string direction = node.String("direction", "");
  if (direction != "LEFT" && direction != "RIGHT") {
    return absl::InvalidArgumentError(
        absl::StrFormat("direction is \"%s\", want LEFT or RIGHT", direction));
  }
  return node.EmitBinary(direction == "LEFT" ? Binary::Kind::kShiftLeft : Binary::Kind::kShiftRight,
                         *node.input(0), *node.input(1));
}

constexpr OnnxOperator kOperators[] = {
    {"Add", 2, 2, Two<Binary::Kind::kAdd>},
    {"Sub", 2, 2, Two<Binary::Kind::kSubtract>},
    {"Mul", 2, 2, Two<Binary::Kind::kMultiply>},
    {"Div", 2, 2, Two<Binary::Kind::kDivide>},
    {"Pow", 2, 2, Pow},
    {"Mod", 2, 2, Mod},
    {"Max", 1, SIZE_MAX, Several<Binary::Kind::kMaximum>},
    {"Min", 1, SIZE_MAX, Several<Binary::Kind::kMinimum>},
    {"Sum", 1, SIZE_MAX, Several<Binary::Kind::kAdd>},
    {"Mean", 1, SIZE_MAX, Mean},
    {"BitShift", 2, 2, BitShift},
    {"BitwiseAnd", 2, 2, Two<Binary::Kind::kAnd>},
    {"BitwiseOr", 2, 2, Two<Binary::Kind::kOr>},
    {"BitwiseXor", 2, 2, Two<Binary::Kind::kXor>},
};

}  // namespace

std::span<const OnnxOperator> ArithmeticOperators() { return kOperators; }

}  // namespace sluice
