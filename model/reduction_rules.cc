// The rules of operations on whole rows.

#include "base/status_macros.h"
#include "model/operation_rules.h"

namespace sluice::rules {

absl::Status CheckChoice(const ArgReduce& op, Inputs inputs, const Value& y) {
  const Shape& x = inputs[0]->shape;
  SLUICE_RETURN_IF_ERROR(CheckAxis(op.axis, x));
  const auto axis = static_cast<std::size_t>(op.axis);
  Shape kept = x, dropped = x;
  kept[axis] = 1;
  dropped.erase(dropped.begin() + op.axis);
  if (y.shape != kept && y.shape != dropped) {
    return Wrong("output has shape %s, want %s or %s", FormatShape(y.shape), FormatShape(kept),
                 FormatShape(dropped));
  }
  if (x[axis] > 0 || ElementCount(dropped) == 0) return absl::OkStatus();
  return Wrong("dimension %d of %s has no largest or smallest element", op.axis, FormatShape(x));
}
absl::Status CheckTypes(const ArgReduce&, Inputs, const Value& y) {
  return CheckType(y, DataType::kInt64);
}

MaybeShape ShapeOf(const Hardmax& op, Inputs inputs) {
  SLUICE_RETURN_IF_ERROR(CheckAxis(op.axis, inputs[0]->shape));
  return inputs[0]->shape;
}

MaybeShape ShapeOf(const CumulativeSum& op, Inputs inputs) {
  SLUICE_RETURN_IF_ERROR(CheckAxis(op.axis, inputs[0]->shape));
  return inputs[0]->shape;
}

}  // namespace sluice::rules
