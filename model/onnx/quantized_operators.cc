// Quantised numbers: conversions, and products of bytes.

#include <algorithm>
#include <numeric>
#include <utility>

#include "absl/strings/str_format.h"
#include "base/status_macros.h"
#include "model/host_tensor.h"
#include "model/onnx/convolution_windows.h"
#include "model/onnx/onnx_node.h"

namespace sluice {
namespace {

using Kind = Binary::Kind;

absl::StatusOr<std::int64_t> AxisOf(OnnxNode& node) {
  if (node.Int("block_size", 0) != 0) {
    return absl::UnimplementedError("scales of blocks (block_size) are not supported");
  }
  const std::size_t rank = node.shape(0).size();
  const bool whole = ElementCount(node.shape(1)) == 1;
  if (whole) return 0;
  return NormalAxis(node.Int("axis", 1), rank);
}

MaybeValue QuantizeLinear(OnnxNode& node) {
  SLUICE_ASSIGN_OR_RETURN(const std::int64_t axis, AxisOf(node));
  DataType type = node.input(2) ? node.at(2).type : DataType::kUint8;
  if (const std::int64_t stated = node.Int("output_dtype", 0); stated != 0 && !node.input(2)) {
    const std::optional<DataType> known = DataTypeFromOnnx(stated);
    if (!known) {
      return absl::UnimplementedError(absl::StrFormat("output_dtype %d is not supported", stated));
    }
    type = *known;
  }
  ValueId x = *node.input(0);
  const DataType scale = node.at(1).type;
  if (node.at(0).type != scale) {
    SLUICE_ASSIGN_OR_RETURN(x, node.Emit(Cast{}, {x}, std::nullopt, scale));
  }
  return node.Emit(Quantize{axis}, {x, node.input(1), node.input(2)}, std::nullopt, type);
}

// Small constants, such as biases, become the numbers that they stand for.
absl::StatusOr<std::optional<ValueId>> DequantizeNow(OnnxNode& node, std::int64_t axis) {
  const Value q = node.at(0), scale = node.at(1);
  if (q.constant == nullptr || scale.constant == nullptr || q.type != DataType::kInt32 ||
      scale.type != DataType::kFloat32 || (node.input(2) && !node.IsConstant(2)) ||
      TensorBytes(q.type, q.shape) > kMaxVector) {
    return std::nullopt;
  }
  SLUICE_ASSIGN_OR_RETURN(const std::vector<std::int64_t> integers, ReadIntegers(q));
  SLUICE_ASSIGN_OR_RETURN(const std::vector<float> scales, ReadFloats(scale));
  std::vector<std::int64_t> zeros = {0};
  if (node.input(2)) {
    SLUICE_ASSIGN_OR_RETURN(zeros, node.Integers(2));
  }
  const auto fits = [&](std::size_t count) {
    return count == 1 || (!q.shape.empty() && static_cast<std::int64_t>(count) ==
                                                  q.shape[static_cast<std::size_t>(axis)]);
  };
  if (!fits(scales.size()) || !fits(zeros.size())) return std::nullopt;
  std::size_t inner = integers.size(), count = 1;
  if (scales.size() > 1 || zeros.size() > 1) {
    count = static_cast<std::size_t>(q.shape[static_cast<std::size_t>(axis)]);
    inner = static_cast<std::size_t>(
        ElementCount(std::span(q.shape).subspan(static_cast<std::size_t>(axis) + 1)));
  }
  std::vector<float> numbers(integers.size());
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    const std::size_t at = i / inner % count;
    numbers[i] = static_cast<float>(integers[i] - zeros[zeros.size() == 1 ? 0 : at]) *
                 scales[scales.size() == 1 ? 0 : at];
  }
  return node.AddFloats(DataType::kFloat32, q.shape, numbers);
}

MaybeValue DequantizeLinear(OnnxNode& node) {
  SLUICE_ASSIGN_OR_RETURN(const std::int64_t axis, AxisOf(node));
  SLUICE_ASSIGN_OR_RETURN(const std::optional<ValueId> now, DequantizeNow(node, axis));
  if (now) return *now;
  return node.Emit(Dequantize{axis}, {node.input(0), node.input(1), node.input(2)}, std::nullopt,
                   node.at(1).type);
}

// Scale and zero point follow from the least and the largest element.
MaybeValue DynamicQuantizeLinear(OnnxNode& node) {
  const ValueId x = *node.input(0);
  std::vector<std::int64_t> axes(node.shape(0).size());
  std::iota(axes.begin(), axes.end(), 0);
  const std::vector<float> zero_and_range[] = {{0.0f}, {255.0f}};
  const ValueId zero = node.AddFloats(DataType::kFloat32, {}, zero_and_range[0]);
  const ValueId range = node.AddFloats(DataType::kFloat32, {}, zero_and_range[1]);
  SLUICE_ASSIGN_OR_RETURN(
      ValueId most, node.Emit(Reduce{.kind = Reduce::Kind::kMax, .axes = axes}, {x}, Shape{}));
  SLUICE_ASSIGN_OR_RETURN(most, node.EmitBinary(Kind::kMaximum, most, zero));
  SLUICE_ASSIGN_OR_RETURN(
      ValueId least, node.Emit(Reduce{.kind = Reduce::Kind::kMin, .axes = axes}, {x}, Shape{}));
  SLUICE_ASSIGN_OR_RETURN(least, node.EmitBinary(Kind::kMinimum, least, zero));
  SLUICE_ASSIGN_OR_RETURN(const ValueId span, node.EmitBinary(Kind::kSubtract, most, least));
  SLUICE_ASSIGN_OR_RETURN(const ValueId scale, node.EmitBinary(Kind::kDivide, span, range));
  SLUICE_ASSIGN_OR_RETURN(const ValueId below, node.EmitBinary(Kind::kSubtract, zero, least));
  SLUICE_ASSIGN_OR_RETURN(const ValueId zero_point,
                          node.Emit(Quantize{}, {below, scale}, std::nullopt, DataType::kUint8));
  node.SetOutput(1, scale);
  node.SetOutput(2, zero_point);
  return node.Emit(Quantize{}, {x, scale, zero_point}, std::nullopt, DataType::kUint8);
}

absl::Status NeedMatrices(OnnxNode& node, std::size_t a, std::size_t b) {
  if (node.shape(a).size() >= 2 && node.shape(b).size() >= 2) return absl::OkStatus();
  return absl::UnimplementedError(
      absl::StrFormat("operands have shapes %s and %s, have matrices and stacks of them",
                      FormatShape(node.shape(a)), FormatShape(node.shape(b))));
}

MaybeValue MatMulInteger(OnnxNode& node) {
  SLUICE_RETURN_IF_ERROR(NeedMatrices(node, 0, 1));
  return node.Emit(MatMul{}, {node.input(0), node.input(1), node.input(2), node.input(3)},
                   std::nullopt, DataType::kInt32);
}

absl::StatusOr<ValueId> AsFloat(OnnxNode& node, ValueId id) {
  return node.Emit(Cast{}, {id}, std::nullopt, DataType::kFloat32);
}

MaybeValue MatMulIntegerToFloat(OnnxNode& node) {
  SLUICE_RETURN_IF_ERROR(NeedMatrices(node, 0, 1));
  SLUICE_ASSIGN_OR_RETURN(
      const ValueId sums,
      node.Emit(MatMul{}, {node.input(0), node.input(1), node.input(4), node.input(5)},
                std::nullopt, DataType::kInt32));
  SLUICE_ASSIGN_OR_RETURN(const ValueId real, AsFloat(node, sums));
  SLUICE_ASSIGN_OR_RETURN(const ValueId scale,
                          node.EmitBinary(Kind::kMultiply, *node.input(2), *node.input(3)));
  SLUICE_ASSIGN_OR_RETURN(const ValueId y, node.EmitBinary(Kind::kMultiply, real, scale));
  return node.input(6) ? node.EmitBinary(Kind::kAdd, y, *node.input(6)) : y;
}

// a_scale * b_scale / y_scale.
absl::StatusOr<ValueId> Factor(OnnxNode& node, std::size_t a, std::size_t b, std::size_t y) {
  SLUICE_ASSIGN_OR_RETURN(const ValueId product,
                          node.EmitBinary(Kind::kMultiply, *node.input(a), *node.input(b)));
  return node.EmitBinary(Kind::kDivide, product, *node.input(y));
}

MaybeValue QLinearMatMul(OnnxNode& node) {
  SLUICE_RETURN_IF_ERROR(NeedMatrices(node, 0, 3));
  for (const std::size_t i : {1u, 6u}) {
    if (ElementCount(node.shape(i)) != 1) {
      return absl::UnimplementedError("scales of rows are not supported");
    }
  }
  SLUICE_ASSIGN_OR_RETURN(
      const ValueId sums,
      node.Emit(MatMul{}, {node.input(0), node.input(3), node.input(2), node.input(5)},
                std::nullopt, DataType::kInt32));
  SLUICE_ASSIGN_OR_RETURN(const ValueId real, AsFloat(node, sums));
  SLUICE_ASSIGN_OR_RETURN(const ValueId factor, Factor(node, 1, 4, 6));
  SLUICE_ASSIGN_OR_RETURN(const ValueId scaled, node.EmitBinary(Kind::kMultiply, real, factor));
  const ValueId one = node.AddFloats(DataType::kFloat32, {}, std::vector<float>{1.0f});
  return node.Emit(Quantize{}, {scaled, one, node.input(7)}, std::nullopt, node.at(7).type);
}

MaybeValue ConvInteger(OnnxNode& node) {
  SLUICE_ASSIGN_OR_RETURN(Convolution op, ConvolutionOf(node, 0, 1));
  return node.Emit(
      std::move(op),
      {node.input(0), node.input(1), std::nullopt, std::nullopt, node.input(2), node.input(3)},
      std::nullopt, DataType::kInt32);
}

MaybeValue QLinearConv(OnnxNode& node) {
  SLUICE_ASSIGN_OR_RETURN(Convolution op, ConvolutionOf(node, 0, 3));
  const Shape channels = {node.shape(3)[0]};
  if (ElementCount(node.shape(1)) != 1 || ElementCount(node.shape(6)) != 1) {
    return absl::InvalidArgumentError(
        absl::StrFormat("scales have shapes %s and %s, want one element",
                        FormatShape(node.shape(1)), FormatShape(node.shape(6))));
  }
  SLUICE_ASSIGN_OR_RETURN(ValueId factor, Factor(node, 1, 4, 6));
  if (ElementCount(node.graph().value(factor).shape) == 1) {
    SLUICE_ASSIGN_OR_RETURN(factor, node.EmitReshape(factor, {1}));
    SLUICE_ASSIGN_OR_RETURN(factor, node.Emit(Expand{}, {factor}, channels));
  }
  return node.Emit(std::move(op),
                   {node.input(0), node.input(3), node.input(8), factor, node.input(2),
                    node.input(5), node.input(7)},
                   std::nullopt, node.at(7).type);
}

constexpr OnnxOperator kOperators[] = {
    {"QuantizeLinear", 2, 3, QuantizeLinear},
    {"DequantizeLinear", 2, 3, DequantizeLinear},
    {"DynamicQuantizeLinear", 1, 1, DynamicQuantizeLinear},
    {"MatMulInteger", 2, 4, MatMulInteger},
    {"ConvInteger", 2, 4, ConvInteger},
    {"QLinearMatMul", 8, 8, QLinearMatMul},
    {"QLinearConv", 8, 9, QLinearConv},
};

constexpr OnnxOperator kContribOperators[] = {
    {"QuantizeLinear", 2, 3, QuantizeLinear},
    {"DequantizeLinear", 2, 3, DequantizeLinear},
    {"MatMulIntegerToFloat", 4, 7, MatMulIntegerToFloat},
};

}  // namespace

std::span<const OnnxOperator> QuantizedOperators() { return kOperators; }
std::span<const OnnxOperator> ContribQuantizedOperators() { return kContribOperators; }

}  // namespace sluice
