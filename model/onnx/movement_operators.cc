// Operators that move elements and change none.

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "absl/strings/str_format.h"
#include "base/status_macros.h"
#include "model/host_tensor.h"
#include "model/onnx/onnx_node.h"
#include "model/shape_rule.h"

namespace sluice {
namespace {

MaybeValue Same(OnnxNode& node) { return *node.input(0); }

MaybeValue ConcatParts(OnnxNode& node) {
  const Shape first = node.shape(0);
  if (node.opset() >= 4 && !node.Has("axis")) {
    return absl::InvalidArgumentError("attribute \"axis\" is missing");
  }
  SLUICE_ASSIGN_OR_RETURN(const std::int64_t axis, NormalAxis(node.Int("axis", 1), first.size()));
  std::vector<std::optional<ValueId>> parts;
  for (std::size_t i = 0; i < node.input_count(); ++i) {
    if (!node.input(i)) return absl::InvalidArgumentError(absl::StrFormat("input %d is absent", i));
    parts.push_back(node.input(i));
  }
  return node.Emit(Concat{.axis = axis}, std::move(parts));
}

absl::StatusOr<std::vector<std::int64_t>> SplitLengths(OnnxNode& node, std::int64_t length) {
  // Opset 1 had both an attribute and an input.
  const bool by_input = node.opset() >= 13 || (node.opset() < 2 && node.input(1));
  SLUICE_ASSIGN_OR_RETURN(const auto given, node.IntsOrInput("split", 1, by_input ? 0 : 99));
  const auto parts = static_cast<std::int64_t>(node.output_count());
  if (given && !given->empty()) {
    std::int64_t total = 0;
    for (const std::int64_t part : *given) {
      if (part < 0 || __builtin_add_overflow(total, part, &total)) total = -1;
      if (total < 0) break;
    }
    if (total == length && std::ssize(*given) == parts) return *given;
    return absl::InvalidArgumentError(absl::StrFormat("split %s does not make %d parts of %d",
                                                      FormatShape(*given), parts, length));
  }
  if (node.opset() >= 18 && node.Has("num_outputs") && node.Int("num_outputs", 0) != parts) {
    return absl::InvalidArgumentError(
        absl::StrFormat("num_outputs is %d, the node has %d", node.Int("num_outputs", 0), parts));
  }
  if (node.opset() < 18 && length % parts != 0) {
    return absl::InvalidArgumentError(
        absl::StrFormat("a dimension of %d does not split into %d equal parts", length, parts));
  }
  const std::int64_t each = (length + parts - 1) / parts;
  std::vector<std::int64_t> lengths;
  for (std::int64_t left = length; std::ssize(lengths) < parts; left -= lengths.back()) {
    lengths.push_back(std::min(each, left));
  }
  return lengths;
}

MaybeValue Split(OnnxNode& node) {
  const Shape x = node.shape(0);
  SLUICE_ASSIGN_OR_RETURN(const std::int64_t axis, NormalAxis(node.Int("axis", 0), x.size()));
  const auto along = static_cast<std::size_t>(axis);
  SLUICE_ASSIGN_OR_RETURN(const auto lengths, SplitLengths(node, x[along]));
  ValueId first{};
  Slice slice{.starts = std::vector<std::int64_t>(x.size(), 0),
              .steps = std::vector<std::int64_t>(x.size(), 1)};
  for (std::size_t i = 0; i < lengths.size(); ++i) {
    Shape shape = x;
    shape[along] = lengths[i];
    SLUICE_ASSIGN_OR_RETURN(const ValueId part, node.Emit(slice, {node.input(0)}, shape));
    slice.starts[along] += lengths[i];
    if (i == 0) {
      first = part;
    } else {
      node.SetOutput(i, part);
    }
  }
  return first;
}

MaybeValue Permute(OnnxNode& node) {
  std::vector<std::int64_t> perm = node.Ints("perm");
  if (!node.Has("perm")) {
    perm.resize(node.shape(0).size());
    std::iota(perm.rbegin(), perm.rend(), 0);
  }
  return node.Emit(Transpose{std::move(perm)}, {node.input(0)});
}

MaybeValue ReshapeTo(OnnxNode& node) {
  const Shape x = node.shape(0);
  SLUICE_ASSIGN_OR_RETURN(const auto given, node.IntsOrInput("shape", 1, 5));
  if (!given) return absl::InvalidArgumentError("the shape is missing");
  Shape shape = *given;
  std::optional<std::size_t> free;
  for (std::size_t d = 0; d < shape.size(); ++d) {
    if (shape[d] == 0 && !node.Flag("allowzero")) {
      if (d >= x.size()) {
        return absl::InvalidArgumentError(absl::StrFormat("shape %s copies dimension %d of %s",
                                                          FormatShape(shape), d, FormatShape(x)));
      }
      shape[d] = x[d];
    } else if (shape[d] == -1 && !free) {
      free = d;
      shape[d] = 1;
    } else if (shape[d] < 0) {
      return absl::InvalidArgumentError(
          absl::StrFormat("shape %s has a dimension below 0", FormatShape(*given)));
    }
  }
  if (free) {
    const std::uint64_t others = ElementCount(shape);
    if (others == 0 || ElementCount(x) % others != 0) {
      return absl::InvalidArgumentError(
          absl::StrFormat("%s cannot take the shape %s", FormatShape(x), FormatShape(*given)));
    }
    shape[*free] = static_cast<std::int64_t>(ElementCount(x) / others);
  }
  return node.EmitReshape(*node.input(0), std::move(shape));
}

MaybeValue Flatten(OnnxNode& node) {
  const Shape x = node.shape(0);
  std::int64_t axis = node.Int("axis", 1);
  if (axis != std::ssize(x)) {  // The rank itself is allowed: everything lies before it.
    SLUICE_ASSIGN_OR_RETURN(axis, NormalAxis(axis, x.size()));
  }
  const auto at = static_cast<std::size_t>(axis);
  return node.EmitReshape(*node.input(0),
                          {static_cast<std::int64_t>(ElementCount(std::span(x).first(at))),
                           static_cast<std::int64_t>(ElementCount(std::span(x).subspan(at)))});
}

MaybeValue Squeeze(OnnxNode& node) {
  const Shape x = node.shape(0);
  SLUICE_ASSIGN_OR_RETURN(const auto given, node.IntsOrInput("axes", 1, 13));
  std::vector<std::int64_t> axes;
  if (given) {
    SLUICE_ASSIGN_OR_RETURN(axes, NormalAxes(*given, x.size()));
  }
  Shape shape;
  for (std::size_t d = 0; d < x.size(); ++d) {
    const bool goes =
        given ? std::ranges::binary_search(axes, static_cast<std::int64_t>(d)) : x[d] == 1;
    if (goes && x[d] != 1) {
      return absl::InvalidArgumentError(
          absl::StrFormat("dimension %d of %s is not 1", d, FormatShape(x)));
    }
    if (!goes) shape.push_back(x[d]);
  }
  return node.EmitReshape(*node.input(0), std::move(shape));
}

MaybeValue Unsqueeze(OnnxNode& node) {
  const Shape x = node.shape(0);
  SLUICE_ASSIGN_OR_RETURN(const auto given, node.IntsOrInput("axes", 1, 13));
  if (!given) return absl::InvalidArgumentError("the axes are missing");
  const std::size_t rank = x.size() + given->size();
  SLUICE_ASSIGN_OR_RETURN(const auto axes, NormalAxes(*given, rank));
  Shape shape;
  for (std::size_t d = 0, from = 0; d < rank; ++d) {
    const bool added = std::ranges::binary_search(axes, static_cast<std::int64_t>(d));
    shape.push_back(added ? 1 : x[from++]);
  }
  return node.EmitReshape(*node.input(0), std::move(shape));
}

struct SliceSpec {
  std::vector<std::int64_t> starts, ends;
  std::optional<std::vector<std::int64_t>> axes, steps;
};

absl::StatusOr<SliceSpec> ReadSlice(OnnxNode& node) {
  SliceSpec spec;
  SLUICE_ASSIGN_OR_RETURN(const auto starts, node.IntsOrInput("starts", 1, 10));
  SLUICE_ASSIGN_OR_RETURN(const auto ends, node.IntsOrInput("ends", 2, 10));
  SLUICE_ASSIGN_OR_RETURN(spec.axes, node.IntsOrInput("axes", 3, 10));
  if (node.opset() >= 10) {
    SLUICE_ASSIGN_OR_RETURN(spec.steps, node.IntsOrInput("steps", 4, 10));
  }
  if (!starts || !ends) return absl::InvalidArgumentError("starts or ends are missing");
  spec.starts = *starts;
  spec.ends = *ends;
  const std::size_t count = spec.starts.size();
  if (spec.ends.size() != count || (spec.axes && spec.axes->size() != count) ||
      (spec.steps && spec.steps->size() != count)) {
    return absl::InvalidArgumentError("starts, ends, axes and steps have different lengths");
  }
  return spec;
}

MaybeValue SliceRange(OnnxNode& node) {
  const Shape x = node.shape(0);
  SLUICE_ASSIGN_OR_RETURN(const SliceSpec spec, ReadSlice(node));
  Slice slice{.starts = std::vector<std::int64_t>(x.size(), 0),
              .steps = std::vector<std::int64_t>(x.size(), 1)};
  Shape shape = x;
  std::vector<bool> seen(x.size(), false);
  for (std::size_t i = 0; i < spec.starts.size(); ++i) {
    SLUICE_ASSIGN_OR_RETURN(
        const std::int64_t axis,
        NormalAxis(spec.axes ? (*spec.axes)[i] : static_cast<std::int64_t>(i), x.size()));
    const auto d = static_cast<std::size_t>(axis);
    const std::int64_t step = spec.steps ? (*spec.steps)[i] : 1;
    if (step == 0 || step == std::numeric_limits<std::int64_t>::min() || seen[d]) {
      return absl::InvalidArgumentError("a step is zero or an axis is named twice");
    }
    seen[d] = true;
    std::int64_t start = spec.starts[i], end = spec.ends[i];
    if (start < 0) start += x[d];
    if (end < 0) end += x[d];
    // Clamped as the format says; a negative step may end before the first element.
    start =
        std::clamp<std::int64_t>(start, 0, step > 0 ? x[d] : std::max<std::int64_t>(x[d] - 1, 0));
    end = std::clamp<std::int64_t>(end, step > 0 ? 0 : -1, step > 0 ? x[d] : x[d] - 1);
    const std::int64_t reach = step > 0 ? end - start : start - end;
    const std::int64_t stride = step > 0 ? step : -step;
    slice.starts[d] = start;
    slice.steps[d] = step;
    shape[d] = x[d] == 0 || reach <= 0 ? 0 : (reach - 1) / stride + 1;
  }
  return node.Emit(std::move(slice), {node.input(0)}, std::move(shape));
}

// Indices that ascend evenly are a slice, which needs no table; nullopt when they do not.
absl::StatusOr<std::optional<ValueId>> GatherAsSlice(OnnxNode& node, std::size_t axis) {
  const Shape x = node.shape(0), picked = node.shape(1);
  if (node.IsConstant(0) || !node.IsConstant(1) || picked.size() > 1 || ElementCount(picked) == 0 ||
      ElementCount(picked) > 4096) {
    return std::nullopt;
  }
  SLUICE_ASSIGN_OR_RETURN(std::vector<std::int64_t> picks, node.Integers(1));
  for (std::int64_t& pick : picks) {
    if (pick < -x[axis] || pick >= x[axis]) {
      return absl::InvalidArgumentError(
          absl::StrFormat("index %d is not in a dimension of %d", pick, x[axis]));
    }
    if (pick < 0) pick += x[axis];
  }
  const std::int64_t step = picks.size() > 1 ? picks[1] - picks[0] : 1;
  for (std::size_t i = 1; i < picks.size(); ++i) {
    if (step == 0 || picks[i] - picks[i - 1] != step) return std::nullopt;
  }
  Slice slice{.starts = std::vector<std::int64_t>(x.size(), 0),
              .steps = std::vector<std::int64_t>(x.size(), 1)};
  slice.starts[axis] = picks[0];
  slice.steps[axis] = step;
  Shape shape = x;
  shape[axis] = std::ssize(picks);
  SLUICE_ASSIGN_OR_RETURN(ValueId y, node.Emit(std::move(slice), {node.input(0)}, shape));
  if (picked.empty()) {
    shape.erase(shape.begin() + static_cast<std::ptrdiff_t>(axis));
    SLUICE_ASSIGN_OR_RETURN(y, node.EmitReshape(y, shape));
  }
  return y;
}

MaybeValue GatherRows(OnnxNode& node) {
  SLUICE_ASSIGN_OR_RETURN(const std::int64_t axis,
                          NormalAxis(node.Int("axis", 0), node.shape(0).size()));
  SLUICE_ASSIGN_OR_RETURN(const std::optional<ValueId> slice,
                          GatherAsSlice(node, static_cast<std::size_t>(axis)));
  if (slice) return *slice;
  return node.Emit(Gather{.axis = axis}, {node.input(0), node.input(1)});
}

MaybeValue ExpandTo(OnnxNode& node) {
  SLUICE_ASSIGN_OR_RETURN(const auto target, node.Integers(1));
  const std::optional<Shape> shape = BroadcastShape(node.shape(0), target);
  if (!shape || std::ranges::any_of(target, [](std::int64_t n) { return n < 0; })) {
    return absl::InvalidArgumentError(absl::StrFormat(
        "%s does not expand to %s", FormatShape(node.shape(0)), FormatShape(target)));
  }
  if (*shape == node.shape(0)) return *node.input(0);
  return node.Emit(Expand{}, {node.input(0)}, *shape);
}

// The repeats of each dimension: a vector, or before opset 6 one number for one axis.
absl::StatusOr<std::vector<std::int64_t>> Repeats(OnnxNode& node) {
  if (node.opset() >= 6) return node.Integers(1);
  const Shape x = node.shape(0);
  std::int64_t numbers[2] = {};  // How often, and along which axis.
  for (const std::size_t i : {std::size_t{1}, std::size_t{2}}) {
    if (!node.input(i) || ElementCount(node.shape(i)) != 1) {
      return absl::InvalidArgumentError("tiles and axis must have one element each");
    }
    if (IsFloat(node.at(i).type)) {
      SLUICE_ASSIGN_OR_RETURN(const auto floats, node.Numbers(i));
      numbers[i - 1] = std::fabs(floats[0]) < 1e9f ? static_cast<std::int64_t>(floats[0]) : -1;
    } else {
      SLUICE_ASSIGN_OR_RETURN(const auto integers, node.Integers(i));
      numbers[i - 1] = integers[0];
    }
  }
  SLUICE_ASSIGN_OR_RETURN(const std::int64_t axis, NormalAxis(numbers[1], x.size()));
  std::vector<std::int64_t> repeats(x.size(), 1);
  repeats[static_cast<std::size_t>(axis)] = numbers[0];
  return repeats;
}

// Every dimension that repeats gets one of size 1 before it, which expands.
MaybeValue Tile(OnnxNode& node) {
  const Shape x = node.shape(0);
  SLUICE_ASSIGN_OR_RETURN(const auto repeats, Repeats(node));
  if (repeats.size() != x.size()) {
    return absl::InvalidArgumentError(
        absl::StrFormat("got %d repeats for shape %s", repeats.size(), FormatShape(x)));
  }
  Shape split, expanded, joined;
  for (std::size_t d = 0; d < x.size(); ++d) {
    std::int64_t size = 0;
    if (repeats[d] < 0 || __builtin_mul_overflow(x[d], repeats[d], &size)) {
      return absl::InvalidArgumentError(
          absl::StrFormat("repeats %s of shape %s", FormatShape(repeats), FormatShape(x)));
    }
    joined.push_back(size);
    if (repeats[d] != 1 && x[d] != 1) {
      split.push_back(1);
      expanded.push_back(repeats[d]);
    }
    split.push_back(x[d]);
    expanded.push_back(x[d] == 1 ? repeats[d] : x[d]);
  }
  if (joined == x) return *node.input(0);
  SLUICE_ASSIGN_OR_RETURN(ValueId y, node.EmitReshape(*node.input(0), split));
  SLUICE_ASSIGN_OR_RETURN(y, node.Emit(Expand{}, {y}, expanded));
  return node.EmitReshape(y, joined);
}

constexpr OnnxOperator kOperators[] = {
    {"Identity", 1, 1, Same},     {"Concat", 1, SIZE_MAX, ConcatParts}, {"Split", 1, 2, Split},
    {"Transpose", 1, 1, Permute}, {"Reshape", 1, 2, ReshapeTo},         {"Flatten", 1, 1, Flatten},
    {"Squeeze", 1, 2, Squeeze},   {"Unsqueeze", 1, 2, Unsqueeze},       {"Slice", 1, 5, SliceRange},
    {"Gather", 2, 2, GatherRows}, {"Expand", 2, 2, ExpandTo},           {"Tile", 2, 3, Tile},
};

}  // namespace

std::span<const OnnxOperator> MovementOperators() { return kOperators; }

}  // namespace sluice
