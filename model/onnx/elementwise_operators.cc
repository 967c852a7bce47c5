// Operators that treat each element by itself.

#include <limits>

#include "absl/strings/str_format.h"
#include "base/status_macros.h"
#include "model/host_tensor.h"
#include "model/onnx/onnx_node.h"

namespace sluice {
namespace {

using Kind = Unary::Kind;

constexpr float kInfinity = std::numeric_limits<float>::infinity();

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
  if (ElementCount(node.shape(i)) != 1) {
    return absl::InvalidArgumentError(
        absl::StrFormat("%s has shape %s, want a scalar", name, FormatShape(node.shape(i))));
  }
  SLUICE_ASSIGN_OR_RETURN(const auto floats, node.Numbers(i));
  return floats[0];
}

// Bounds that are computed, or of a type that a float does not hold.
MaybeValue ClipBetween(OnnxNode& node) {
  ValueId y = *node.input(0);
  for (const std::size_t i : {std::size_t{1}, std::size_t{2}}) {
    if (!node.input(i)) continue;
    if (ElementCount(node.shape(i)) != 1) {
      return absl::InvalidArgumentError(
          absl::StrFormat("input %d has shape %s, want a scalar", i, FormatShape(node.shape(i))));
    }
    SLUICE_ASSIGN_OR_RETURN(const ValueId bound, node.EmitReshape(*node.input(i), {}));
    const auto kind = i == 1 ? Binary::Kind::kMaximum : Binary::Kind::kMinimum;
    SLUICE_ASSIGN_OR_RETURN(y, node.EmitBinary(kind, y, bound));
  }
  return y;
}

MaybeValue Clip(OnnxNode& node) {
  const auto computed = [&](std::size_t i) { return node.input(i) && !node.IsConstant(i); };
  if (node.opset() >= 11 && (node.at(0).type != DataType::kFloat32 || computed(1) || computed(2))) {
    return ClipBetween(node);
  }
  SLUICE_ASSIGN_OR_RETURN(const float low, Bound(node, 1, "min", -kInfinity));
  SLUICE_ASSIGN_OR_RETURN(const float high, Bound(node, 2, "max", kInfinity));
  if (low == 0 && high == kInfinity) return node.EmitUnary({.kind = Kind::kRelu}, *node.input(0));
  return node.EmitUnary({.kind = Kind::kClip, .alpha = low, .beta = high}, *node.input(0));
}

// max(x, 0) + min(alpha * (exp(x / alpha) - 1), 0)
MaybeValue Celu(OnnxNode& node) {
  const float alpha = node.Float("alpha", 1);
  if (!(alpha > 0)) {
    return absl::UnimplementedError(absl::StrFormat("alpha is %g, want a positive one", alpha));
  }
  const ValueId x = *node.input(0);
  if (alpha == 1) return node.EmitUnary({.kind = Kind::kElu, .alpha = 1}, x);
  SLUICE_ASSIGN_OR_RETURN(const ValueId scaled,
                          node.EmitUnary({.kind = Kind::kLinear, .alpha = 1 / alpha}, x));
  SLUICE_ASSIGN_OR_RETURN(const ValueId elu,
                          node.EmitUnary({.kind = Kind::kElu, .alpha = 1}, scaled));
  return node.EmitUnary({.kind = Kind::kLinear, .alpha = alpha}, elu);
}

MaybeValue Shrink(OnnxNode& node) {
  return node.EmitUnary(
      {.kind = Kind::kShrink, .alpha = node.Float("lambd", 0.5f), .beta = node.Float("bias", 0)},
      *node.input(0));
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

MaybeValue Gelu(OnnxNode& node) {
  if (node.opset() < 20) return absl::UnimplementedError("the operator begins with opset 20");
  const std::string form = node.String("approximate", "none");
  if (form != "none" && form != "tanh") {
    return absl::InvalidArgumentError(
        absl::StrFormat("approximate is \"%s\", want none or tanh", form));
  }
  return node.EmitUnary({.kind = form == "tanh" ? Kind::kGeluTanh : Kind::kGelu}, *node.input(0));
}

MaybeValue PRelu(OnnxNode& node) {
  const ValueId x = *node.input(0);
  const DataType type = node.at(0).type;
  ValueId slope = *node.input(1);
  if (ElementCount(node.shape(1)) == 1 && node.IsConstant(1) && type == DataType::kFloat32) {
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
  ValueId below{};
  if (IsFloat(type)) {
    SLUICE_ASSIGN_OR_RETURN(below, node.EmitUnary({.kind = Kind::kClip, .alpha = -kInfinity}, x));
  } else {
    const std::int64_t nothing[] = {0};
    const ValueId zero = node.AddConstant(type, {}, InlineConstant(PackIntegers(type, nothing)));
    SLUICE_ASSIGN_OR_RETURN(below, node.EmitBinary(Binary::Kind::kMinimum, x, zero));
  }
  SLUICE_ASSIGN_OR_RETURN(const ValueId sloped,
                          node.EmitBinary(Binary::Kind::kMultiply, below, slope));
  return node.EmitBinary(Binary::Kind::kAdd, above, sloped);
}

// The type that a value has in the file: what 16-bit floats were widened from.
DataType TypeInFile(OnnxNode& node, ValueId id) {
  const Value& value = node.graph().value(id);
  if (value.type != DataType::kFloat32) return value.type;
  if (value.constant != nullptr) return value.constant->widened_from().value_or(value.type);
  const Node* producer = node.Producer(id);
  if (producer == nullptr || !std::holds_alternative<Cast>(producer->operation)) return value.type;
  const DataType before = node.graph().value(*producer->inputs[0]).type;
  return IsShortFloat(before) ? before : value.type;
}

// Rounds to a 16-bit type, where it is one, and goes on in FP32.
MaybeValue EmitCast(OnnxNode& node, DataType type) {
  const ValueId x = *node.input(0);
  if (type == node.at(0).type || type == TypeInFile(node, x)) return x;
  SLUICE_ASSIGN_OR_RETURN(const ValueId y, node.Emit(Cast{}, {x}, std::nullopt, type));
  if (!IsShortFloat(type)) return y;
  return node.Emit(Cast{}, {y}, std::nullopt, DataType::kFloat32);
}

// The format's number of a type that files from before opset 6 name.
std::int64_t TypeNumber(OnnxNode& node) {
  if (node.opset() >= 6) return node.Int("to", 0);
  onnx::TensorProto::DataType type = onnx::TensorProto::UNDEFINED;
  return onnx::TensorProto::DataType_Parse(node.String("to", ""), &type) ? type : 0;
}

MaybeValue CastTo(OnnxNode& node) {
  const std::int64_t to = TypeNumber(node);
  SLUICE_RETURN_IF_ERROR(node.attribute_error());
  const std::optional<DataType> type = DataTypeFromOnnx(to);
  if (!type) {
    return absl::UnimplementedError(absl::StrFormat("element type %d is not supported", to));
  }
  return EmitCast(node, *type);
}

MaybeValue CastLike(OnnxNode& node) { return EmitCast(node, TypeInFile(node, *node.input(1))); }

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
    {"Sin", 1, 1, Plain<Kind::kSin>},
    {"Cos", 1, 1, Plain<Kind::kCos>},
    {"Tan", 1, 1, Plain<Kind::kTan>},
    {"Asin", 1, 1, Plain<Kind::kAsin>},
    {"Acos", 1, 1, Plain<Kind::kAcos>},
    {"Atan", 1, 1, Plain<Kind::kAtan>},
    {"Sinh", 1, 1, Plain<Kind::kSinh>},
    {"Cosh", 1, 1, Plain<Kind::kCosh>},
    {"Asinh", 1, 1, Plain<Kind::kAsinh>},
    {"Acosh", 1, 1, Plain<Kind::kAcosh>},
    {"Atanh", 1, 1, Plain<Kind::kAtanh>},
    {"Round", 1, 1, Plain<Kind::kRound>},
    {"Sign", 1, 1, Plain<Kind::kSign>},
    {"ThresholdedRelu", 1, 1, WithAlpha<Kind::kThresholdedRelu>},
    {"Shrink", 1, 1, Shrink},
    {"Celu", 1, 1, Celu},
    {"Cast", 1, 1, CastTo},
    {"CastLike", 2, 2, CastLike},
};

}  // namespace

std::span<const OnnxOperator> ElementwiseOperators() { return kOperators; }

}  // namespace sluice
