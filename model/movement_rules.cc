// Rules of operations that move elements by index.

#include <algorithm>

#include "base/status_macros.h"
#include "model/operation_rules.h"

namespace sluice::rules {
namespace {

constexpr std::size_t kMostDims = 32;  // More are nonsense; kernels keep one number for each.

absl::Status CheckRank(const Shape& shape) {
  if (shape.size() <= kMostDims) return absl::OkStatus();
  return Wrong("got %u dimensions, want at most %u", shape.size(), kMostDims);
}

// The elements of one tensor lie within another but for dimension `axis`.
absl::Status CheckWithin(const Shape& part, const Shape& whole, std::int64_t axis) {
  bool within = part.size() == whole.size();
  for (std::size_t d = 0; within && d < part.size(); ++d) {
    within = static_cast<std::int64_t>(d) == axis || part[d] <= whole[d];
  }
  if (within) return absl::OkStatus();
  return Wrong("indices of shape %s do not lie within %s but for dimension %d", FormatShape(part),
               FormatShape(whole), axis);
}

// What a position of GatherNd or ScatterNd names: x's dimensions behind `batch_dims` and it.
absl::StatusOr<Shape> NamedSlices(const Shape& x, const Shape& indices, std::int64_t batch_dims) {
  SLUICE_RETURN_IF_ERROR(CheckRank(x));
  SLUICE_RETURN_IF_ERROR(CheckRank(indices));
  const auto batch = static_cast<std::size_t>(batch_dims);
  bool fits = batch_dims >= 0 && batch < indices.size() && batch < x.size() &&
              indices.back() >= 0 && indices.back() <= std::ssize(x) - batch_dims;
  for (std::size_t d = 0; fits && d < batch; ++d) fits = x[d] == indices[d];
  if (!fits) {
    return Wrong("indices of shape %s with %d batch dimensions do not index %s",
                 FormatShape(indices), batch_dims, FormatShape(x));
  }
  Shape named(indices.begin(), indices.end() - 1);
  named.insert(named.end(), x.begin() + batch_dims + indices.back(), x.end());
  return named;
}

bool IsVectorOf(const Value& value, std::int64_t count) { return value.shape == Shape{count}; }

}  // namespace

Arity ArityOf(const Pad&) { return {1, 2}; }
Arity ArityOf(const GatherElements&) { return {2, 2}; }
Arity ArityOf(const GatherNd&) { return {2, 2}; }
Arity ArityOf(const ScatterElements&) { return {3, 3}; }
Arity ArityOf(const ScatterNd&) { return {3, 3}; }
Arity ArityOf(const ReverseSequence&) { return {2, 2}; }
Arity ArityOf(const Triangle&) { return {1, 2}; }
Arity ArityOf(const OneHot&) { return {2, 2}; }

MaybeShape ShapeOf(const GatherElements& op, Inputs inputs) {
  SLUICE_RETURN_IF_ERROR(CheckAxis(op.axis, inputs[0]->shape));
  SLUICE_RETURN_IF_ERROR(CheckRank(inputs[0]->shape));
  SLUICE_RETURN_IF_ERROR(CheckWithin(inputs[1]->shape, inputs[0]->shape, op.axis));
  return inputs[1]->shape;
}

MaybeShape ShapeOf(const GatherNd& op, Inputs inputs) {
  SLUICE_ASSIGN_OR_RETURN(Shape shape,
                          NamedSlices(inputs[0]->shape, inputs[1]->shape, op.batch_dims));
  return shape;
}

MaybeShape ShapeOf(const ScatterElements& op, Inputs inputs) {
  SLUICE_RETURN_IF_ERROR(CheckAxis(op.axis, inputs[0]->shape));
  SLUICE_RETURN_IF_ERROR(CheckRank(inputs[0]->shape));
  SLUICE_RETURN_IF_ERROR(CheckWithin(inputs[1]->shape, inputs[0]->shape, op.axis));
  if (inputs[1]->shape != inputs[2]->shape) {
    return Wrong("indices have shape %s, updates %s", FormatShape(inputs[1]->shape),
                 FormatShape(inputs[2]->shape));
  }
  return inputs[0]->shape;
}

MaybeShape ShapeOf(const ScatterNd&, Inputs inputs) {
  SLUICE_ASSIGN_OR_RETURN(const Shape named, NamedSlices(inputs[0]->shape, inputs[1]->shape, 0));
  if (inputs[2]->shape != named) {
    return Wrong("updates have shape %s, want %s", FormatShape(inputs[2]->shape),
                 FormatShape(named));
  }
  return inputs[0]->shape;
}

MaybeShape ShapeOf(const ReverseSequence& op, Inputs inputs) {
  const Shape& x = inputs[0]->shape;
  SLUICE_RETURN_IF_ERROR(CheckAxis(op.batch_axis, x));
  SLUICE_RETURN_IF_ERROR(CheckAxis(op.time_axis, x));
  if (op.batch_axis == op.time_axis ||
      !IsVectorOf(*inputs[1], x[static_cast<std::size_t>(op.batch_axis)])) {
    return Wrong("lengths of shape %s for %s with batches along %d and time along %d",
                 FormatShape(inputs[1]->shape), FormatShape(x), op.batch_axis, op.time_axis);
  }
  return x;
}

MaybeShape ShapeOf(const Triangle&, Inputs inputs) {
  if (inputs[0]->shape.size() < 2) {
    return Wrong("input has shape %s, want matrices", FormatShape(inputs[0]->shape));
  }
  if (inputs.size() > 1 && inputs[1] != nullptr && ElementCount(inputs[1]->shape) != 1) {
    return Wrong("k has shape %s, want one element", FormatShape(inputs[1]->shape));
  }
  return inputs[0]->shape;
}

absl::Status CheckChoice(const OneHot& op, Inputs inputs, const Value& y) {
  SLUICE_RETURN_IF_ERROR(CheckAxis(op.axis, y.shape));
  Shape without = y.shape;
  without.erase(without.begin() + op.axis);
  if (without == inputs[0]->shape && IsVectorOf(*inputs[1], 2)) return absl::OkStatus();
  return Wrong("indices of shape %s and values of shape %s do not make %s along %d",
               FormatShape(inputs[0]->shape), FormatShape(inputs[1]->shape), FormatShape(y.shape),
               op.axis);
}

absl::Status CheckTypes(const GatherElements&, Inputs inputs, const Value& y) {
  SLUICE_RETURN_IF_ERROR(CheckIndexType(*inputs[1]));
  return CheckOneType(inputs, y, 0, 1);
}

absl::Status CheckTypes(const GatherNd&, Inputs inputs, const Value& y) {
  SLUICE_RETURN_IF_ERROR(CheckIndexType(*inputs[1]));
  return CheckOneType(inputs, y, 0, 1);
}

namespace {

absl::Status CheckScatter(ScatterReduction reduction, Inputs inputs, const Value& y) {
  SLUICE_RETURN_IF_ERROR(CheckIndexType(*inputs[1]));
  SLUICE_RETURN_IF_ERROR(CheckOneType(inputs, y, 0, 1));
  SLUICE_RETURN_IF_ERROR(CheckOneType(inputs, y, 2));
  if (reduction == ScatterReduction::kNone || y.type != DataType::kBool) return absl::OkStatus();
  return Wrong("booleans are not reduced");
}

}  // namespace

absl::Status CheckTypes(const ScatterElements& op, Inputs inputs, const Value& y) {
  return CheckScatter(op.reduction, inputs, y);
}

absl::Status CheckTypes(const ScatterNd& op, Inputs inputs, const Value& y) {
  return CheckScatter(op.reduction, inputs, y);
}

absl::Status CheckTypes(const ReverseSequence&, Inputs inputs, const Value& y) {
  SLUICE_RETURN_IF_ERROR(CheckType(*inputs[1], DataType::kInt64));
  return CheckOneType(inputs, y, 0, 1);
}

absl::Status CheckTypes(const Triangle&, Inputs inputs, const Value& y) {
  if (inputs.size() > 1 && inputs[1] != nullptr) {
    SLUICE_RETURN_IF_ERROR(CheckType(*inputs[1], DataType::kInt64));
  }
  return CheckOneType(inputs, y, 0, 1);
}

absl::Status CheckTypes(const OneHot&, Inputs inputs, const Value& y) {
  if (inputs[0]->type == DataType::kBool) return Wrong("indices are booleans");
  return CheckOneType(inputs, y, 1);
}

}  // namespace sluice::rules
