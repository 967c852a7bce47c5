// Rules of operations that choose elements, and of those whose size depends on the data.

#include <algorithm>

#include "base/status_macros.h"
#include "model/operation_rules.h"

namespace sluice::rules {
namespace {

// Saturates: what is too large is refused before anything is allocated.
std::int64_t Count(const Shape& shape) {
  return static_cast<std::int64_t>(
      std::min<std::uint64_t>(ElementCount(shape), std::uint64_t{1} << 62));
}

absl::Status CheckOptionalScalar(Inputs inputs, std::size_t i, DataType type) {
  if (i >= inputs.size() || inputs[i] == nullptr) return absl::OkStatus();
  SLUICE_RETURN_IF_ERROR(CheckType(*inputs[i], type));
  if (ElementCount(inputs[i]->shape) == 1) return absl::OkStatus();
  return Wrong("input %u has shape %s, want one element", i, FormatShape(inputs[i]->shape));
}

}  // namespace

Arity ArityOf(const Compress&) { return {2, 2}; }
Arity ArityOf(const NonMaxSuppression&) { return {2, 5}; }

MaybeShape ShapeOf(const NonZero& op, Inputs inputs) {
  const Shape& x = inputs[0]->shape;
  if (op.count) return Shape{};
  return Shape{std::ssize(x), Count(x)};
}

MaybeShape ShapeOf(const Compress& op, Inputs inputs) {
  const Shape& x = inputs[0]->shape;
  if (op.axis) SLUICE_RETURN_IF_ERROR(CheckAxis(*op.axis, x));
  if (inputs[1]->shape.size() != 1) {
    return Wrong("condition has shape %s, want a vector", FormatShape(inputs[1]->shape));
  }
  if (op.count) return Shape{};
  const std::int64_t length = op.axis ? x[static_cast<std::size_t>(*op.axis)] : Count(x);
  const std::int64_t most = std::min(inputs[1]->shape[0], length);
  if (!op.axis) return Shape{most};
  Shape y = x;
  y[static_cast<std::size_t>(*op.axis)] = most;
  return y;
}

MaybeShape ShapeOf(const Unique& op, Inputs inputs) {
  const Shape& x = inputs[0]->shape;
  if (op.axis) SLUICE_RETURN_IF_ERROR(CheckAxis(*op.axis, x));
  if (op.output == Unique::Output::kCount) return Shape{};
  if (op.axis && op.output == Unique::Output::kValues) return x;
  return Shape{op.axis ? x[static_cast<std::size_t>(*op.axis)] : Count(x)};
}

absl::Status CheckChoice(const NonMaxSuppression& op, Inputs inputs, const Value& y) {
  const Shape &boxes = inputs[0]->shape, &scores = inputs[1]->shape;
  if (boxes.size() != 3 || boxes[2] != 4 || scores.size() != 3 || scores[0] != boxes[0] ||
      scores[2] != boxes[1]) {
    return Wrong("boxes of shape %s and scores of shape %s, want [N, B, 4] and [N, C, B]",
                 FormatShape(boxes), FormatShape(scores));
  }
  const bool fits = op.count ? y.shape.empty() : y.shape.size() == 2 && y.shape[1] == 3;
  if (fits) return absl::OkStatus();
  return Wrong("output has shape %s", FormatShape(y.shape));
}

absl::Status CheckChoice(const TopK& op, Inputs inputs, const Value& y) {
  const Shape& x = inputs[0]->shape;
  SLUICE_RETURN_IF_ERROR(CheckAxis(op.axis, x));
  const auto axis = static_cast<std::size_t>(op.axis);
  Shape wanted = x;
  if (y.shape.size() == x.size() && y.shape[axis] <= x[axis]) wanted[axis] = y.shape[axis];
  if (y.shape == wanted) return absl::OkStatus();
  return Wrong("the top of %s along %d is not %s", FormatShape(x), op.axis, FormatShape(y.shape));
}

absl::Status CheckTypes(const NonZero&, Inputs, const Value& y) {
  return CheckType(y, DataType::kInt64);
}

absl::Status CheckTypes(const Compress& op, Inputs inputs, const Value& y) {
  SLUICE_RETURN_IF_ERROR(CheckType(*inputs[1], DataType::kBool));
  if (op.count) return CheckType(y, DataType::kInt64);
  return CheckOneType(inputs, y, 0, 1);
}

absl::Status CheckTypes(const Unique& op, Inputs inputs, const Value& y) {
  if (op.output != Unique::Output::kValues) return CheckType(y, DataType::kInt64);
  return CheckOneType(inputs, y);
}

absl::Status CheckTypes(const NonMaxSuppression&, Inputs inputs, const Value& y) {
  SLUICE_RETURN_IF_ERROR(CheckType(*inputs[0], DataType::kFloat32));
  SLUICE_RETURN_IF_ERROR(CheckType(*inputs[1], DataType::kFloat32));
  SLUICE_RETURN_IF_ERROR(CheckOptionalScalar(inputs, 2, DataType::kInt64));
  SLUICE_RETURN_IF_ERROR(CheckOptionalScalar(inputs, 3, DataType::kFloat32));
  SLUICE_RETURN_IF_ERROR(CheckOptionalScalar(inputs, 4, DataType::kFloat32));
  return CheckType(y, DataType::kInt64);
}

absl::Status CheckTypes(const TopK& op, Inputs inputs, const Value& y) {
  if (op.indices) return CheckType(y, DataType::kInt64);
  return CheckOneType(inputs, y);
}

}  // namespace sluice::rules
