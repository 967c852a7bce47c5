// model/operation_rules.h
//
// The rules of single operations, by family: shape_rule.cc asks them. An operation without an
// overload of its own takes the template: one input, a shape that the operation leaves open, and
// one type for all.

#ifndef SLUICE_MODEL_OPERATION_RULES_H_
#define SLUICE_MODEL_OPERATION_RULES_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_format.h"
#include "model/graph.h"

namespace sluice::rules {

// Of a node; absent ones are null.
using Inputs = std::span<const Value* const>;
using MaybeShape = absl::StatusOr<std::optional<Shape>>;

template <typename... Args>
absl::Status Wrong(const absl::FormatSpec<Args...>& format, const Args&... args) {
  return absl::InvalidArgumentError(absl::StrFormat(format, args...));
}

struct Arity {
  std::size_t least = 1, most = 1;
};

// How many inputs there are; the first `least` must be present.
template <typename Op>
Arity ArityOf(const Op&) {
  return {};
}

// The output's shape; nullopt where the operation leaves a choice, which CheckChoice then checks.
// The arity is right. Fails: INVALID_ARGUMENT, inputs that the operation cannot take.
template <typename Op>
MaybeShape ShapeOf(const Op&, Inputs) {
  return std::nullopt;
}

template <typename Op>
absl::Status CheckChoice(const Op&, Inputs, const Value&) {
  return absl::OkStatus();
}

// One type for all inputs from `first` to `last`, and `y`.
absl::Status CheckOneType(Inputs inputs, const Value& y, std::size_t first = 0,
                          std::size_t last = SIZE_MAX);
absl::Status CheckType(const Value& value, DataType wanted);
// kInt32 or kInt64.
absl::Status CheckIndexType(const Value& value);
absl::Status CheckAxis(std::int64_t axis, const Shape& shape);

template <typename Op>
absl::Status CheckTypes(const Op&, Inputs inputs, const Value& y) {
  return CheckOneType(inputs, y);
}

// Definitions: X_rules.cc of the family.
Arity ArityOf(const Normalize& op);
MaybeShape ShapeOf(const Normalize& op, Inputs inputs);

}  // namespace sluice::rules

#endif  // SLUICE_MODEL_OPERATION_RULES_H_
