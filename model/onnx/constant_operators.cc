// Operators whose result is known at import: constants and shapes.

#include <cmath>
#include <type_traits>

#include "absl/strings/str_format.h"
#include "base/status_macros.h"
#include "model/host_tensor.h"
#include "model/onnx/onnx_node.h"
#include "model/shape_rule.h"

namespace sluice {
namespace {

MaybeValue ConstantValue(OnnxNode& node) {
  if (node.Has("value")) {
    SLUICE_ASSIGN_OR_RETURN(const Value value, node.Tensor("value"));
    return node.AddConstant(value.type, value.shape, value.constant);
  }
  if (node.Has("value_int") || node.Has("value_ints")) {
    const bool scalar = node.Has("value_int");
    const std::vector<std::int64_t> integers =
        scalar ? std::vector<std::int64_t>{node.Int("value_int", 0)} : node.Ints("value_ints");
    SLUICE_RETURN_IF_ERROR(node.attribute_error());
    return node.AddConstant(DataType::kInt64, scalar ? Shape{} : Shape{std::ssize(integers)},
                            InlineConstant(PackIntegers(DataType::kInt64, integers)));
  }
  if (node.Has("value_float") || node.Has("value_floats")) {
    const bool scalar = node.Has("value_float");
    const std::vector<float> floats =
        scalar ? std::vector<float>{node.Float("value_float", 0)} : node.Floats("value_floats");
    SLUICE_RETURN_IF_ERROR(node.attribute_error());
    return node.AddFloats(DataType::kFloat32, scalar ? Shape{} : Shape{std::ssize(floats)}, floats);
  }
  return absl::UnimplementedError("its value is a string, sparse or missing");
}

MaybeValue ShapeVector(OnnxNode& node) {
  const Shape x = node.shape(0);
  const auto rank = static_cast<std::int64_t>(x.size());
  const auto clamp = [&](std::int64_t at) {
    return std::min(std::max<std::int64_t>(at < 0 ? at + rank : at, 0), rank);
  };
  const std::int64_t start = clamp(node.Int("start", 0));
  const std::int64_t end = std::max(start, clamp(node.Int("end", rank)));
  SLUICE_RETURN_IF_ERROR(node.attribute_error());
  const std::optional<DynamicDim> dynamic = node.at(0).dynamic;
  const auto axis = static_cast<std::int64_t>(dynamic ? dynamic->axis : x.size());
  if (!dynamic || axis < start || axis >= end) {
    return node.AddIntegers({x.begin() + start, x.begin() + end});
  }
  // The sizes before, the one that is computed, those behind.
  std::vector<std::optional<ValueId>> parts;
  if (start < axis) parts.emplace_back(node.AddIntegers({x.begin() + start, x.begin() + axis}));
  SLUICE_ASSIGN_OR_RETURN(const ValueId count, node.EmitReshape(dynamic->count, {1}));
  parts.emplace_back(count);
  if (axis + 1 < end) parts.emplace_back(node.AddIntegers({x.begin() + axis + 1, x.begin() + end}));
  return node.Emit(Concat{.axis = 0}, std::move(parts));
}

MaybeValue SizeScalar(OnnxNode& node) {
  if (const std::optional<DynamicDim> dynamic = node.at(0).dynamic) {
    Shape others = node.shape(0);
    others[dynamic->axis] = 1;
    const auto each = static_cast<std::int64_t>(ElementCount(others));
    const ValueId factor = node.AddConstant(
        DataType::kInt64, {},
        InlineConstant(PackIntegers(DataType::kInt64, std::span<const std::int64_t>(&each, 1))));
    return node.EmitBinary(Binary::Kind::kMultiply, dynamic->count, factor);
  }
  const auto count = static_cast<std::int64_t>(ElementCount(node.shape(0)));
  return node.AddConstant(
      DataType::kInt64, {},
      InlineConstant(PackIntegers(DataType::kInt64, std::span<const std::int64_t>(&count, 1))));
}

MaybeValue ConstantOfShape(OnnxNode& node) {
  SLUICE_ASSIGN_OR_RETURN(const Shape shape, node.Integers(0));
  if (shape.size() > 64) return absl::InvalidArgumentError("the shape has over 64 dimensions");
  for (const std::int64_t dim : shape) {
    if (dim < 0) {
      return absl::InvalidArgumentError(absl::StrFormat("got the shape %s", FormatShape(shape)));
    }
  }
  DataType type = DataType::kFloat32;
  std::vector<std::byte> element(4);
  if (node.Has("value")) {
    SLUICE_ASSIGN_OR_RETURN(const Value value, node.Tensor("value"));
    if (ElementCount(value.shape) != 1) {
      return absl::InvalidArgumentError(
          absl::StrFormat("its value has shape %s, want one element", FormatShape(value.shape)));
    }
    type = value.type;
    element.resize(static_cast<std::size_t>(SizeOf(type).count()));
    SLUICE_RETURN_IF_ERROR(value.constant->Read(Bytes(), element));
  }
  SLUICE_RETURN_IF_ERROR(node.BookGenerated(TensorBytes(type, shape)));
  return node.AddConstant(type, shape, FilledConstant(std::move(element), ElementCount(shape)));
}

template <typename T>
absl::StatusOr<std::vector<T>> Steps(T start, T limit, T delta) {
  const double count = std::ceil((static_cast<double>(limit) - static_cast<double>(start)) /
                                 static_cast<double>(delta));
  constexpr double kMost = 1 << 20;  // 8 MiB of INT64.
  if (delta == T{} || !(count <= kMost)) {
    return absl::UnimplementedError(absl::StrFormat(
        "got %d elements, at most %d are supported",
        static_cast<std::int64_t>(std::min(count, 1e18)), static_cast<std::int64_t>(kMost)));
  }
  std::vector<T> steps(static_cast<std::size_t>(std::max(count, 0.0)));
  for (std::size_t i = 0; i < steps.size(); ++i) {
    if constexpr (std::is_integral_v<T>) {  // Wraps rather than overflows.
      steps[i] = static_cast<T>(static_cast<std::uint64_t>(start) +
                                static_cast<std::uint64_t>(i) * static_cast<std::uint64_t>(delta));
    } else {
      steps[i] = start + static_cast<T>(i) * delta;
    }
  }
  return steps;
}

// An element of FP64, whole where it is a constant.
absl::StatusOr<double> DoubleAt(OnnxNode& node, std::size_t i) {
  double number = 0;
  if (node.IsConstant(i)) {
    SLUICE_RETURN_IF_ERROR(
        node.at(i).constant->Read(Bytes(), std::as_writable_bytes(std::span<double>(&number, 1))));
    return number;
  }
  SLUICE_ASSIGN_OR_RETURN(const auto numbers, node.Numbers(i));
  return static_cast<double>(numbers[0]);
}

MaybeValue Range(OnnxNode& node) {
  for (std::size_t i = 0; i < 3; ++i) {
    if (ElementCount(node.shape(i)) != 1 || node.at(i).type != node.at(0).type) {
      return absl::InvalidArgumentError("start, limit and delta must be scalars of one type");
    }
  }
  const DataType type = node.at(0).type;
  if (type == DataType::kFloat64) {
    SLUICE_ASSIGN_OR_RETURN(const double start, DoubleAt(node, 0));
    SLUICE_ASSIGN_OR_RETURN(const double limit, DoubleAt(node, 1));
    SLUICE_ASSIGN_OR_RETURN(const double delta, DoubleAt(node, 2));
    SLUICE_ASSIGN_OR_RETURN(const auto steps, Steps(start, limit, delta));
    const std::span<const std::byte> bytes = std::as_bytes(std::span(steps));
    SLUICE_RETURN_IF_ERROR(node.BookGenerated(Bytes::Of(bytes.size())));
    return node.AddConstant(type, {std::ssize(steps)},
                            InlineConstant({bytes.begin(), bytes.end()}));
  }
  if (IsFloat(type)) {
    SLUICE_ASSIGN_OR_RETURN(const auto start, node.Numbers(0));
    SLUICE_ASSIGN_OR_RETURN(const auto limit, node.Numbers(1));
    SLUICE_ASSIGN_OR_RETURN(const auto delta, node.Numbers(2));
    SLUICE_ASSIGN_OR_RETURN(const auto steps, Steps(start[0], limit[0], delta[0]));
    SLUICE_RETURN_IF_ERROR(node.BookGenerated(TensorBytes(type, Shape{std::ssize(steps)})));
    return node.AddFloats(type, {std::ssize(steps)}, steps);
  }
  SLUICE_ASSIGN_OR_RETURN(const auto start, node.Integers(0));
  SLUICE_ASSIGN_OR_RETURN(const auto limit, node.Integers(1));
  SLUICE_ASSIGN_OR_RETURN(const auto delta, node.Integers(2));
  SLUICE_ASSIGN_OR_RETURN(const auto steps, Steps(start[0], limit[0], delta[0]));
  SLUICE_RETURN_IF_ERROR(node.BookGenerated(TensorBytes(type, Shape{std::ssize(steps)})));
  return node.AddConstant(type, {std::ssize(steps)}, InlineConstant(PackIntegers(type, steps)));
}

constexpr OnnxOperator kOperators[] = {
    {"Constant", 0, 0, ConstantValue},
    {"Shape", 1, 1, ShapeVector},
    {"Size", 1, 1, SizeScalar},
    {"ConstantOfShape", 1, 1, ConstantOfShape},
    {"Range", 3, 3, Range},
};

}  // namespace

std::span<const OnnxOperator> ConstantOperators() { return kOperators; }

}  // namespace sluice
