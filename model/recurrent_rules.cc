// What recurrent layers ask of their inputs.

#include <algorithm>

#include "base/status_macros.h"
#include "model/operation_rules.h"

namespace sluice {

RecurrentSizes SizesOf(const Recurrent& op, std::span<const std::int64_t> products,
                       std::span<const std::int64_t> weights) {
  std::int64_t gates = 1;
  if (op.kind == Recurrent::Kind::kGru) gates = 3;
  if (op.kind == Recurrent::Kind::kLstm) gates = 4;
  return {.steps = products[0],
          .batch = products[1],
          .directions = op.direction == Recurrent::Direction::kBidirectional ? 2 : 1,
          .gates = gates,
          .hidden = weights[2]};
}

namespace rules {
namespace {

constexpr std::size_t kLengths = 3;
// A dimension, and the states of all steps together; far above what memory holds.
constexpr std::int64_t kLargest = std::int64_t{1} << 31;
constexpr std::uint64_t kMostStates = std::uint64_t{1} << 40;

absl::Status CheckShape(Inputs inputs, std::size_t i, const Shape& want) {
  if (i >= inputs.size() || inputs[i] == nullptr || inputs[i]->shape == want) {
    return absl::OkStatus();
  }
  return Wrong("input %u has shape %s, want %s", i, FormatShape(inputs[i]->shape),
               FormatShape(want));
}

// A tensor without elements may have dimensions of any size.
absl::Status CheckSizes(const RecurrentSizes& sizes) {
  const Shape states = {sizes.directions, sizes.batch, sizes.hidden};
  const Shape all = {sizes.directions, sizes.batch, sizes.hidden, sizes.steps};
  const std::int64_t largest = std::max({sizes.steps, sizes.batch, sizes.hidden});
  if (largest <= kLargest && ElementCount(states) <= kMostStates &&
      ElementCount(all) <= kMostStates) {
    return absl::OkStatus();
  }
  return Wrong("%d steps of a batch of %d with %d states are too many", sizes.steps, sizes.batch,
               sizes.hidden);
}

}  // namespace

Arity ArityOf(const Recurrent& op) {
  if (op.kind == Recurrent::Kind::kLstm) return {2, 7};
  return {2, 5};
}

MaybeShape ShapeOf(const Recurrent& op, Inputs inputs) {
  const Shape &products = inputs[0]->shape, &weights = inputs[1]->shape;
  if (products.size() != 3 || weights.size() != 3) {
    return Wrong("products and weights have shapes %s and %s, want three dimensions each",
                 FormatShape(products), FormatShape(weights));
  }
  const RecurrentSizes sizes = SizesOf(op, products, weights);
  SLUICE_RETURN_IF_ERROR(CheckSizes(sizes));
  const std::int64_t rows = sizes.gates * sizes.hidden;
  if (weights[0] != sizes.directions || weights[1] != rows) {
    return Wrong("recurrent weights have shape %s, want [%d, %d, %d]", FormatShape(weights),
                 sizes.directions, rows, sizes.hidden);
  }
  if (products[2] != sizes.directions * rows) {
    return Wrong("products have shape %s, want %d columns", FormatShape(products),
                 sizes.directions * rows);
  }
  SLUICE_RETURN_IF_ERROR(CheckShape(inputs, 2, {sizes.directions, 2 * rows}));
  SLUICE_RETURN_IF_ERROR(CheckShape(inputs, kLengths, {sizes.batch}));
  const Shape state = {sizes.directions, sizes.batch, sizes.hidden};
  SLUICE_RETURN_IF_ERROR(CheckShape(inputs, 4, state));
  SLUICE_RETURN_IF_ERROR(CheckShape(inputs, 5, state));
  SLUICE_RETURN_IF_ERROR(CheckShape(inputs, 6, {sizes.directions, 3 * sizes.hidden}));
  const std::size_t of_direction = op.kind == Recurrent::Kind::kLstm  ? 3
                                   : op.kind == Recurrent::Kind::kGru ? 2
                                                                      : 1;
  const std::size_t activations = of_direction * static_cast<std::size_t>(sizes.directions);
  if (op.activations.size() != activations) {
    return Wrong("got %u activations, want %u", op.activations.size(), activations);
  }
  return Shape{sizes.output(op.kind)};
}

absl::Status CheckTypes(const Recurrent&, Inputs inputs, const Value& y) {
  if (y.type != DataType::kFloat32 && y.type != DataType::kFloat64) {
    return Wrong("\"%s\" is %s, want FP32 or FP64", y.name, ProtocolName(y.type));
  }
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (inputs[i] == nullptr) continue;
    SLUICE_RETURN_IF_ERROR(CheckType(*inputs[i], i == kLengths ? DataType::kInt32 : y.type));
  }
  return absl::OkStatus();
}

}  // namespace rules
}  // namespace sluice
