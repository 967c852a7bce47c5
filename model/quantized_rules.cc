// What operations on quantised numbers ask of their inputs.

#include "base/status_macros.h"
#include "model/operation_rules.h"

namespace sluice::rules {
namespace {

bool IsByte(DataType type) { return type == DataType::kInt8 || type == DataType::kUint8; }

bool IsQuantized(DataType type) {
  return IsByte(type) || type == DataType::kInt16 || type == DataType::kUint16 ||
         type == DataType::kInt32;
}

bool IsReal(DataType type) {
  return type == DataType::kFloat32 || type == DataType::kFloat16 || type == DataType::kBfloat16;
}

// One element, or one for each entry of the axis.
MaybeShape CheckParameters(std::int64_t axis, Inputs inputs) {
  const Shape& x = inputs[0]->shape;
  for (std::size_t i = 1; i < inputs.size(); ++i) {
    if (inputs[i] == nullptr || ElementCount(inputs[i]->shape) == 1) continue;
    SLUICE_RETURN_IF_ERROR(CheckAxis(axis, x));
    if (inputs[i]->shape == Shape{x[static_cast<std::size_t>(axis)]}) continue;
    return Wrong("input %u has shape %s, want one element or [%d], as dimension %d of %s", i,
                 FormatShape(inputs[i]->shape), x[static_cast<std::size_t>(axis)], axis,
                 FormatShape(x));
  }
  return x;
}

absl::Status CheckConversion(const Value& real, const Value& scale, const Value& quantized,
                             const Value* zero) {
  if (!IsReal(scale.type) || real.type != scale.type || !IsQuantized(quantized.type)) {
    return Wrong("conversion between %s and %s by a scale of %s", ProtocolName(real.type),
                 ProtocolName(quantized.type), ProtocolName(scale.type));
  }
  return zero == nullptr ? absl::OkStatus() : CheckType(*zero, quantized.type);
}

// The zero point of input `of`: one element, or one for each of `count` channels.
absl::Status CheckZero(Inputs inputs, std::size_t i, std::size_t of, std::int64_t count) {
  if (i >= inputs.size() || inputs[i] == nullptr) return absl::OkStatus();
  SLUICE_RETURN_IF_ERROR(CheckType(*inputs[i], inputs[of]->type));
  if (ElementCount(inputs[i]->shape) == 1 || inputs[i]->shape == Shape{count}) {
    return absl::OkStatus();
  }
  return Wrong("zero point %u has shape %s, want one element or [%d]", i,
               FormatShape(inputs[i]->shape), count);
}

absl::Status CheckBytes(const Value& value) {
  if (IsByte(value.type)) return absl::OkStatus();
  return Wrong("\"%s\" is %s, want INT8 or UINT8", value.name, ProtocolName(value.type));
}

}  // namespace

Arity ArityOf(const Quantize&) { return {2, 3}; }
Arity ArityOf(const Dequantize&) { return {2, 3}; }

MaybeShape ShapeOf(const Quantize& op, Inputs inputs) { return CheckParameters(op.axis, inputs); }
MaybeShape ShapeOf(const Dequantize& op, Inputs inputs) { return CheckParameters(op.axis, inputs); }

absl::Status CheckTypes(const Quantize&, Inputs inputs, const Value& y) {
  return CheckConversion(*inputs[0], *inputs[1], y, inputs.size() > 2 ? inputs[2] : nullptr);
}

absl::Status CheckTypes(const Dequantize&, Inputs inputs, const Value& y) {
  return CheckConversion(y, *inputs[1], *inputs[0], inputs.size() > 2 ? inputs[2] : nullptr);
}

absl::Status CheckTypes(const Convolution& op, Inputs inputs, const Value& y) {
  if (!IsByte(inputs[0]->type)) {
    if (inputs.size() > 4 && op.epilogues.empty()) {
      return Wrong("got %u inputs, want 2 to 4", inputs.size());
    }
    return CheckOneType(inputs, y);
  }
  if (op.transposed) return Wrong("a transposed convolution of %s", ProtocolName(inputs[0]->type));
  SLUICE_RETURN_IF_ERROR(CheckBytes(*inputs[1]));
  const auto present = [&](std::size_t i) { return i < inputs.size() && inputs[i] != nullptr; };
  if (present(2)) SLUICE_RETURN_IF_ERROR(CheckType(*inputs[2], DataType::kInt32));
  if (present(3)) SLUICE_RETURN_IF_ERROR(CheckType(*inputs[3], DataType::kFloat32));
  SLUICE_RETURN_IF_ERROR(CheckZero(inputs, 4, 0, 1));
  SLUICE_RETURN_IF_ERROR(CheckZero(inputs, 5, 1, inputs[1]->shape[0]));
  if (!present(3)) return CheckType(y, DataType::kInt32);
  if (y.type == DataType::kFloat32) return absl::OkStatus();
  SLUICE_RETURN_IF_ERROR(CheckBytes(y));
  if (!present(6)) return absl::OkStatus();
  if (ElementCount(inputs[6]->shape) != 1) {
    return Wrong("the output's zero point has shape %s, want one element",
                 FormatShape(inputs[6]->shape));
  }
  return CheckType(*inputs[6], y.type);
}

absl::Status CheckTypes(const MatMul& op, Inputs inputs, const Value& y) {
  if (!IsByte(inputs[0]->type)) {
    if (inputs.size() > 2) return Wrong("got %u inputs, want 2", inputs.size());
    return CheckOneType(inputs, y);
  }
  SLUICE_RETURN_IF_ERROR(CheckBytes(*inputs[1]));
  SLUICE_RETURN_IF_ERROR(CheckType(y, DataType::kInt32));
  if (op.alpha != 1 || !op.perm_a.empty() || !op.perm_b.empty() || !op.perm_y.empty()) {
    return Wrong("a product of bytes takes neither a factor (%g) nor permuted operands", op.alpha);
  }
  const std::size_t rank = y.shape.size();
  SLUICE_RETURN_IF_ERROR(CheckZero(inputs, 2, 0, y.shape[rank - 2]));
  return CheckZero(inputs, 3, 1, y.shape[rank - 1]);
}

}  // namespace sluice::rules
