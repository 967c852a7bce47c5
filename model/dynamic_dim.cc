#include "model/dynamic_dim.h"

#include <algorithm>
#include <variant>

#include "absl/strings/str_format.h"
#include "base/status_macros.h"

namespace sluice {
namespace {

using Inputs = std::span<const Value* const>;
// Where the dimension is in the output; nullopt where it cannot pass.
using Place = std::optional<std::size_t>;

// The output's place of dimension `axis` of input `i`.
struct Passage {
  Inputs inputs;
  std::size_t i, axis;
  const Shape& y;
  const Shape& x = inputs[i]->shape;

  template <typename Op>
  Place operator()(const Op&) const {
    return std::nullopt;
  }

  Place operator()(const Unary&) const { return axis; }
  Place operator()(const Cast&) const { return axis; }
  Place operator()(const Classify&) const { return axis; }
  Place operator()(const Binary&) const { return Broadcast(); }
  Place operator()(const Compare&) const { return Broadcast(); }
  Place operator()(const Select&) const { return Broadcast(); }
  // A dimension of at most one entry may be repeated, which would need its real size.
  Place Broadcast() const {
    const std::size_t to = axis + (y.size() - x.size());
    return y[to] == x[axis] && AllLong(to) ? Place(to) : std::nullopt;
  }
  // No static operand has more than one entry there and so a size of its own.
  bool AllLong(std::size_t to) const {
    return std::ranges::all_of(inputs, [&](const Value* input) {
      if (input == nullptr || input->dynamic) return true;
      const std::size_t lead = y.size() - input->shape.size();
      return to < lead || input->shape[to - lead] == 1;
    });
  }

  Place operator()(const Transpose& op) const {
    return static_cast<std::size_t>(std::ranges::find(op.perm, static_cast<std::int64_t>(axis)) -
                                    op.perm.begin());
  }

  // Dimensions before and behind may be joined or split, that one stays.
  Place operator()(const Reshape&) const {
    if (x == y) return axis;
    if (x[axis] <= 1) return std::nullopt;
    const std::uint64_t before = ElementCount(std::span(x).first(axis));
    for (std::size_t to = 0; to < y.size(); ++to) {
      if (y[to] == x[axis] && ElementCount(std::span(y).first(to)) == before) return to;
    }
    return std::nullopt;
  }

  Place operator()(const Slice& op) const {
    return KeptWhole(op.starts[axis] == 0 && op.steps[axis] == 1);
  }
  Place operator()(const Pad& op) const {
    return KeptWhole(i == 0 && op.begin[axis] == 0 && op.end[axis] == 0);
  }
  Place operator()(const Expand&) const {
    const std::size_t to = axis + (y.size() - x.size());
    return y[to] == x[axis] ? Place(to) : std::nullopt;
  }
  Place KeptWhole(bool kept) const {
    return kept && y[axis] == x[axis] ? Place(axis) : std::nullopt;
  }

  // The other parts must have the same entries, all of which the caller checks.
  Place operator()(const Concat& op) const {
    const bool all =
        std::ranges::all_of(inputs, [](const Value* part) { return part->dynamic.has_value(); });
    return all ? Other(op.axis) : std::nullopt;
  }

  Place operator()(const Gather& op) const {
    const auto along = static_cast<std::size_t>(op.axis);
    if (i == 1) return along + axis;
    if (axis == along) return std::nullopt;
    return axis < along ? axis : axis + inputs[1]->shape.size() - 1;
  }
  Place operator()(const GatherElements&) const { return i == 1 ? Place(axis) : std::nullopt; }
  Place operator()(const GatherNd& op) const {
    const bool rows =
        i == 1 && axis >= static_cast<std::size_t>(op.batch_dims) && axis + 1 < x.size();
    return rows ? Place(axis) : std::nullopt;
  }
  Place operator()(const OneHot& op) const {
    if (i != 0) return std::nullopt;
    return axis < static_cast<std::size_t>(op.axis) ? axis : axis + 1;
  }
  Place operator()(const Triangle&) const {
    return i == 0 && axis + 2 < x.size() ? Place(axis) : std::nullopt;
  }

  // Row by row.
  Place Other(std::int64_t along) const {
    return axis != static_cast<std::size_t>(along) ? Place(axis) : std::nullopt;
  }
  Place operator()(const Softmax& op) const { return Other(op.axis); }
  Place operator()(const Hardmax& op) const { return Other(op.axis); }
  Place operator()(const CumulativeSum& op) const { return Other(op.axis); }
  Place operator()(const TopK& op) const { return Other(op.axis); }
  Place operator()(const ArgReduce& op) const { return Reduced(std::span(&op.axis, 1)); }
  Place operator()(const Reduce& op) const { return Reduced(op.axes); }
  Place Reduced(std::span<const std::int64_t> axes) const {
    if (std::ranges::find(axes, static_cast<std::int64_t>(axis)) != axes.end()) return std::nullopt;
    if (y.size() == x.size()) return axis;
    const auto dropped = std::ranges::count_if(
        axes, [&](std::int64_t each) { return each < static_cast<std::int64_t>(axis); });
    return axis - static_cast<std::size_t>(dropped);
  }
  Place operator()(const Normalize& op) const {
    if (i != 0) return std::nullopt;
    return op.per_channel                             ? Batch()
           : axis < static_cast<std::size_t>(op.axis) ? Place(axis)
                                                      : std::nullopt;
  }

  // The rows of a product.
  Place operator()(const FullyConnected&) const {
    return i == 0 && axis + 1 < x.size() ? Place(axis) : std::nullopt;
  }
  Place operator()(const MatMul& op) const {
    const std::size_t row = x.size() - (op.transposed_a ? 1 : 2);
    return i == 0 && axis == row ? Place(y.size() - 2) : std::nullopt;
  }

  // Image by image.
  Place Batch() const { return i == 0 && axis == 0 ? Place(axis) : std::nullopt; }
  Place operator()(const Convolution&) const { return Batch(); }
  Place operator()(const Pool&) const { return Batch(); }
  Place operator()(const Lrn&) const { return Batch(); }
  Place operator()(const ChannelAffine&) const { return Batch(); }
  Place operator()(const Resize& op) const { return KeptWhole(op.scales[axis] == 1); }
  Place operator()(const RoiAlign&) const {
    return i > 0 && axis == 0 ? Place(axis) : std::nullopt;
  }
  Place operator()(const MaxRoiPool&) const {
    return i > 0 && axis == 0 ? Place(axis) : std::nullopt;
  }
  Place operator()(const GridSample&) const { return std::nullopt; }
  Place operator()(const Quantize& op) const { return i == 0 ? Scaled(op.axis) : std::nullopt; }
  Place operator()(const Dequantize& op) const { return i == 0 ? Scaled(op.axis) : std::nullopt; }
  Place Scaled(std::int64_t along) const {
    return ElementCount(inputs[1]->shape) == 1 ? Place(axis) : Other(along);
  }
};

}  // namespace

absl::StatusOr<std::optional<DynamicDim>> DynamicDimOf(const Operation& operation, Inputs inputs,
                                                       const Shape& y) {
  std::optional<DynamicDim> dynamic;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (inputs[i] == nullptr || !inputs[i]->dynamic) continue;
    const DynamicDim& own = *inputs[i]->dynamic;
    const Place place = std::visit(Passage{inputs, i, own.axis, y}, operation);
    const bool agrees = !dynamic || (place == dynamic->axis && own.count == dynamic->count);
    if (!place || !agrees) {
      return absl::UnimplementedError(absl::StrFormat(
          "dimension %u of \"%s\" has a size that is computed, at most %d: %s does not pass it on",
          own.axis, inputs[i]->name, inputs[i]->shape[own.axis], Name(operation)));
    }
    dynamic = DynamicDim{*place, own.count};
  }
  return dynamic;
}

}  // namespace sluice
