// What Normalize asks of its inputs.

#include "base/status_macros.h"
#include "model/operation_rules.h"

namespace sluice::rules {

Arity ArityOf(const Normalize&) { return {1, 3}; }

MaybeShape ShapeOf(const Normalize& op, Inputs inputs) {
  const Shape& x = inputs[0]->shape;
  Shape parameters;
  if (op.per_channel) {
    if (x.size() < 2 || op.groups < 1 || x[1] % op.groups != 0) {
      return Wrong("input has shape %s, want channels that make %d groups", FormatShape(x),
                   op.groups);
    }
    parameters = {x[1]};
  } else {
    SLUICE_RETURN_IF_ERROR(CheckAxis(op.axis, x));
    parameters.assign(x.begin() + op.axis, x.end());
  }
  for (std::size_t i = 1; i < inputs.size(); ++i) {
    if (inputs[i] == nullptr || inputs[i]->shape == parameters) continue;
    return Wrong("input %u has shape %s, want %s", i, FormatShape(inputs[i]->shape),
                 FormatShape(parameters));
  }
  if (!(op.epsilon >= 0)) return Wrong("got epsilon %g, want none below 0", op.epsilon);
  return x;
}

}  // namespace sluice::rules
