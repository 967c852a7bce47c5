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
Arity ArityOf(const Quantize& op);
MaybeShape ShapeOf(const Quantize& op, Inputs inputs);
absl::Status CheckTypes(const Quantize& op, Inputs inputs, const Value& y);
Arity ArityOf(const Dequantize& op);
MaybeShape ShapeOf(const Dequantize& op, Inputs inputs);
absl::Status CheckTypes(const Dequantize& op, Inputs inputs, const Value& y);

// A convolution of bytes, INT8 or UINT8 each, is summed up exactly in INT32. Its inputs: x,
// weights, bias [M] (INT32), factor [M] (FP32), and the zero points of x, of the weights (one
// element or [M]) and of the output; all but the first two may be absent. Without a factor the
// output is those sums, INT32. With one they are multiplied by it and go through the epilogues
// (relu and clip alone); the output is that as FP32, or rounded (halves to even), moved by its zero
// point and saturated, as INT8 or UINT8.
absl::Status CheckTypes(const Convolution& op, Inputs inputs, const Value& y);
// A product of bytes is exact too. Its inputs: a, b, and their zero points: one element, or one for
// each row of a and each column of b. The output is INT32.
absl::Status CheckTypes(const MatMul& op, Inputs inputs, const Value& y);

Arity ArityOf(const Recurrent& op);
MaybeShape ShapeOf(const Recurrent& op, Inputs inputs);
absl::Status CheckTypes(const Recurrent& op, Inputs inputs, const Value& y);

Arity ArityOf(const Normalize& op);
MaybeShape ShapeOf(const Normalize& op, Inputs inputs);
// elementwise_rules.cc
absl::Status CheckTypes(const Unary& op, Inputs inputs, const Value& y);
absl::Status CheckTypes(const Binary& op, Inputs inputs, const Value& y);
Arity ArityOf(const Compare& op);
MaybeShape ShapeOf(const Compare& op, Inputs inputs);
absl::Status CheckTypes(const Compare& op, Inputs inputs, const Value& y);
MaybeShape ShapeOf(const Classify& op, Inputs inputs);
absl::Status CheckTypes(const Classify& op, Inputs inputs, const Value& y);
Arity ArityOf(const Select& op);
MaybeShape ShapeOf(const Select& op, Inputs inputs);
absl::Status CheckTypes(const Select& op, Inputs inputs, const Value& y);

// reduction_rules.cc
absl::Status CheckChoice(const ArgReduce& op, Inputs inputs, const Value& y);
absl::Status CheckTypes(const ArgReduce& op, Inputs inputs, const Value& y);
MaybeShape ShapeOf(const Hardmax& op, Inputs inputs);
MaybeShape ShapeOf(const CumulativeSum& op, Inputs inputs);

// movement_rules.cc
Arity ArityOf(const Pad&);
Arity ArityOf(const GatherElements&);
Arity ArityOf(const GatherNd&);
Arity ArityOf(const ScatterElements&);
Arity ArityOf(const ScatterNd&);
Arity ArityOf(const ReverseSequence&);
Arity ArityOf(const Triangle&);
Arity ArityOf(const OneHot&);
MaybeShape ShapeOf(const GatherElements& op, Inputs inputs);
MaybeShape ShapeOf(const GatherNd& op, Inputs inputs);
MaybeShape ShapeOf(const ScatterElements& op, Inputs inputs);
MaybeShape ShapeOf(const ScatterNd&, Inputs inputs);
MaybeShape ShapeOf(const ReverseSequence& op, Inputs inputs);
MaybeShape ShapeOf(const Triangle&, Inputs inputs);
absl::Status CheckChoice(const OneHot& op, Inputs inputs, const Value& y);
absl::Status CheckTypes(const GatherElements&, Inputs inputs, const Value& y);
absl::Status CheckTypes(const GatherNd&, Inputs inputs, const Value& y);
absl::Status CheckTypes(const ScatterElements& op, Inputs inputs, const Value& y);
absl::Status CheckTypes(const ScatterNd& op, Inputs inputs, const Value& y);
absl::Status CheckTypes(const ReverseSequence&, Inputs inputs, const Value& y);
absl::Status CheckTypes(const Triangle&, Inputs inputs, const Value& y);
absl::Status CheckTypes(const OneHot&, Inputs inputs, const Value& y);

// selection_rules.cc
Arity ArityOf(const Compress&);
Arity ArityOf(const NonMaxSuppression&);
MaybeShape ShapeOf(const NonZero& op, Inputs inputs);
MaybeShape ShapeOf(const Compress& op, Inputs inputs);
MaybeShape ShapeOf(const Unique& op, Inputs inputs);
absl::Status CheckChoice(const NonMaxSuppression& op, Inputs inputs, const Value& y);
absl::Status CheckChoice(const TopK& op, Inputs inputs, const Value& y);
absl::Status CheckTypes(const NonZero&, Inputs, const Value& y);
absl::Status CheckTypes(const Compress& op, Inputs inputs, const Value& y);
absl::Status CheckTypes(const Unique& op, Inputs inputs, const Value& y);
absl::Status CheckTypes(const NonMaxSuppression&, Inputs inputs, const Value& y);
absl::Status CheckTypes(const TopK& op, Inputs inputs, const Value& y);

// sampling_rules.cc
Arity ArityOf(const GridSample&);
Arity ArityOf(const RoiAlign&);
Arity ArityOf(const MaxRoiPool&);
MaybeShape ShapeOf(const PoolIndices& op, Inputs inputs);
MaybeShape ShapeOf(const GridSample&, Inputs inputs);
MaybeShape ShapeOf(const RoiAlign& op, Inputs inputs);
MaybeShape ShapeOf(const MaxRoiPool& op, Inputs inputs);
MaybeShape ShapeOf(const Determinant&, Inputs inputs);
absl::Status CheckTypes(const PoolIndices&, Inputs, const Value& y);
absl::Status CheckTypes(const GridSample&, Inputs inputs, const Value& y);
absl::Status CheckTypes(const RoiAlign&, Inputs inputs, const Value& y);
absl::Status CheckTypes(const MaxRoiPool&, Inputs inputs, const Value& y);
absl::Status CheckTypes(const Determinant&, Inputs inputs, const Value& y);

}  // namespace sluice::rules

#endif  // SLUICE_MODEL_OPERATION_RULES_H_
