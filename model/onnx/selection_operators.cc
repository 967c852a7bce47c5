// Operators that choose elements, and those whose results have a size that the data decides.

#include <algorithm>
#include <limits>

#include "absl/strings/str_format.h"
#include "base/status_macros.h"
#include "model/host_tensor.h"
#include "model/onnx/onnx_node.h"

namespace sluice {
namespace {

absl::StatusOr<std::int64_t> ReadK(OnnxNode& node) {
  std::int64_t k = -1;
  if (node.opset() >= 10) {
    if (!node.input(1)) return absl::InvalidArgumentError("k is missing");
    SLUICE_ASSIGN_OR_RETURN(const auto given, node.Integers(1));
    if (given.size() == 1) k = given[0];
  } else {
    k = node.Int("k", -1);
  }
  if (k >= 0) return k;
  return absl::InvalidArgumentError("k is missing or below 0");
}

MaybeValue Top(OnnxNode& node) {
  SLUICE_ASSIGN_OR_RETURN(const std::int64_t k, ReadK(node));
  Shape shape = node.shape(0);
  TopK top{.largest = node.opset() < 11 || node.Flag("largest", true)};
  SLUICE_ASSIGN_OR_RETURN(top.axis, NormalAxis(node.Int("axis", -1), shape.size()));
  std::int64_t& along = shape[static_cast<std::size_t>(top.axis)];
  if (k > along) {
    return absl::InvalidArgumentError(absl::StrFormat(
        "k is %d, dimension %d of %s has fewer entries", k, top.axis, FormatShape(node.shape(0))));
  }
  along = k;
  SLUICE_ASSIGN_OR_RETURN(const ValueId values, node.Emit(top, {node.input(0)}, shape));
  top.indices = true;
  SLUICE_ASSIGN_OR_RETURN(const ValueId indices,
                          node.Emit(top, {node.input(0)}, shape, DataType::kInt64));
  node.SetOutput(1, indices);
  return values;
}

// A result with room for the largest, and the node that counts what is in it.
MaybeValue Counted(OnnxNode& node, ValueId y, std::size_t axis, ValueId count) {
  node.graph().value(y).dynamic = DynamicDim{axis, count};
  return y;
}

MaybeValue EmitCount(OnnxNode& node, Operation operation,
                     std::vector<std::optional<ValueId>> inputs) {
  return node.Emit(std::move(operation), std::move(inputs), Shape{}, DataType::kInt64);
}

// Of a constant the size is known, and the result is one too.
absl::StatusOr<std::optional<ValueId>> NonZeroOfConstant(OnnxNode& node) {
  const Value x = node.at(0);
  if (x.constant == nullptr || x.constant->size() > kMaxFolded) return std::nullopt;
  std::vector<bool> set;
  if (IsFloat(x.type)) {
    SLUICE_ASSIGN_OR_RETURN(const auto elements, ReadFloats(x));
    for (const float element : elements) set.push_back(element != 0);
  } else {
    SLUICE_ASSIGN_OR_RETURN(const auto elements, ReadIntegers(x));
    for (const std::int64_t element : elements) set.push_back(element != 0);
  }
  const auto count = std::ranges::count(set, true);
  std::vector<std::int64_t> places;
  places.reserve(x.shape.size() * static_cast<std::size_t>(count));
  for (std::size_t d = 0; d < x.shape.size(); ++d) {
    const auto inner = static_cast<std::int64_t>(ElementCount(std::span(x.shape).subspan(d + 1)));
    for (std::size_t i = 0; i < set.size(); ++i) {
      if (set[i]) places.push_back(static_cast<std::int64_t>(i) / inner % x.shape[d]);
    }
  }
  return node.AddConstant(DataType::kInt64, {std::ssize(x.shape), count},
                          InlineConstant(PackIntegers(DataType::kInt64, places)));
}

MaybeValue NonZeroPlaces(OnnxNode& node) {
  SLUICE_ASSIGN_OR_RETURN(const std::optional<ValueId> known, NonZeroOfConstant(node));
  if (known) return *known;
  SLUICE_ASSIGN_OR_RETURN(const ValueId y,
                          node.Emit(NonZero{}, {node.input(0)}, std::nullopt, DataType::kInt64));
  SLUICE_ASSIGN_OR_RETURN(const ValueId count,
                          EmitCount(node, NonZero{.count = true}, {node.input(0)}));
  return Counted(node, y, 1, count);
}

// A condition that is known is a list of indices.
MaybeValue CompressByConstant(OnnxNode& node, std::optional<std::int64_t> axis) {
  SLUICE_ASSIGN_OR_RETURN(const auto condition, node.Integers(1));
  ValueId x = *node.input(0);
  if (!axis) {
    SLUICE_ASSIGN_OR_RETURN(
        x, node.EmitReshape(x, {static_cast<std::int64_t>(ElementCount(node.shape(0)))}));
  }
  const std::int64_t length =
      node.graph().value(x).shape[static_cast<std::size_t>(axis.value_or(0))];
  std::vector<std::int64_t> kept;
  for (std::int64_t i = 0; i < std::min(length, std::ssize(condition)); ++i) {
    if (condition[static_cast<std::size_t>(i)] != 0) kept.push_back(i);
  }
  return node.Emit(Gather{.axis = axis.value_or(0)}, {x, node.AddIntegers(std::move(kept))});
}

MaybeValue CompressSlices(OnnxNode& node) {
  Compress op;
  if (node.Has("axis")) {
    SLUICE_ASSIGN_OR_RETURN(op.axis, NormalAxis(node.Int("axis", 0), node.shape(0).size()));
  }
  if (node.shape(1).size() != 1) {
    return absl::InvalidArgumentError(
        absl::StrFormat("condition has shape %s, want a vector", FormatShape(node.shape(1))));
  }
  if (node.IsConstant(1)) return CompressByConstant(node, op.axis);
  SLUICE_ASSIGN_OR_RETURN(const ValueId y, node.Emit(op, {node.input(0), node.input(1)}));
  op.count = true;
  SLUICE_ASSIGN_OR_RETURN(const ValueId count, EmitCount(node, op, {node.input(0), node.input(1)}));
  return Counted(node, y, static_cast<std::size_t>(op.axis.value_or(0)), count);
}

MaybeValue UniqueSlices(OnnxNode& node) {
  Unique op{.sorted = node.Flag("sorted", true)};
  if (node.Has("axis")) {
    SLUICE_ASSIGN_OR_RETURN(op.axis, NormalAxis(node.Int("axis", 0), node.shape(0).size()));
  }
  const auto with = [&op](Unique::Output output) {
    Unique unique = op;
    unique.output = output;
    return unique;
  };
  SLUICE_ASSIGN_OR_RETURN(const ValueId count,
                          EmitCount(node, with(Unique::Output::kCount), {node.input(0)}));
  SLUICE_ASSIGN_OR_RETURN(const ValueId values, node.Emit(op, {node.input(0)}));
  constexpr Unique::Output kExtra[] = {Unique::Output::kFirst, Unique::Output::kInverse,
                                       Unique::Output::kCounts};
  for (std::size_t i = 0; i < std::size(kExtra); ++i) {
    SLUICE_ASSIGN_OR_RETURN(
        ValueId extra, node.Emit(with(kExtra[i]), {node.input(0)}, std::nullopt, DataType::kInt64));
    if (kExtra[i] != Unique::Output::kInverse) {
      SLUICE_ASSIGN_OR_RETURN(extra, Counted(node, extra, 0, count));
    }
    node.SetOutput(i + 1, extra);
  }
  return Counted(node, values, static_cast<std::size_t>(op.axis.value_or(0)), count);
}

// The most boxes that can be chosen, saturated.
std::int64_t MostBoxes(std::int64_t each, std::int64_t classes, std::int64_t batches) {
  std::int64_t most = 0;
  if (__builtin_mul_overflow(each, classes, &most) ||
      __builtin_mul_overflow(most, batches, &most)) {
    return std::int64_t{1} << 48;
  }
  return most;
}

MaybeValue SuppressBoxes(OnnxNode& node) {
  const Shape boxes = node.shape(0), scores = node.shape(1);
  if (boxes.size() != 3 || scores.size() != 3) {
    return absl::InvalidArgumentError(absl::StrFormat("boxes %s and scores %s, want 3 dimensions",
                                                      FormatShape(boxes), FormatShape(scores)));
  }
  std::int64_t each = boxes[1];
  if (!node.input(2)) {
    each = 0;  // The default is none at all.
  } else if (node.IsConstant(2)) {
    SLUICE_ASSIGN_OR_RETURN(const auto most, node.Integers(2));
    if (most.size() != 1) return absl::InvalidArgumentError("the most boxes are not a scalar");
    each = std::clamp<std::int64_t>(most[0], 0, each);
  }
  const Shape shape = {MostBoxes(each, scores[1], scores[0]), 3};
  std::vector<std::optional<ValueId>> inputs;
  inputs.reserve(node.input_count());
  for (std::size_t i = 0; i < node.input_count(); ++i) inputs.push_back(node.input(i));
  NonMaxSuppression op{.centred = node.Flag("center_point_box")};
  SLUICE_ASSIGN_OR_RETURN(const ValueId y, node.Emit(op, inputs, shape, DataType::kInt64));
  op.count = true;
  SLUICE_ASSIGN_OR_RETURN(const ValueId count, EmitCount(node, op, inputs));
  return Counted(node, y, 0, count);
}

constexpr OnnxOperator kOperators[] = {
    {"TopK", 1, 2, Top},
    {"NonZero", 1, 1, NonZeroPlaces},
    {"Compress", 2, 2, CompressSlices},
    {"Unique", 1, 1, UniqueSlices},
    {"NonMaxSuppression", 2, 5, SuppressBoxes},
};

}  // namespace

std::span<const OnnxOperator> SelectionOperators() { return kOperators; }

}  // namespace sluice
