// Operators that add elements around a tensor or cut some off, and those that trade channels for
// pixels.

#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>

#include "absl/strings/str_format.h"
#include "base/status_macros.h"
#include "model/host_tensor.h"
#include "model/onnx/onnx_node.h"

namespace sluice {
namespace {

// The constant of a pad: a number of the operation where a float holds it, otherwise an input.
absl::Status ReadConstant(OnnxNode& node, Pad& pad, std::optional<ValueId>& constant) {
  if (node.opset() < 11) {
    pad.value = node.Float("value", 0);
    return absl::OkStatus();
  }
  if (!node.input(2)) return absl::OkStatus();
  if (ElementCount(node.shape(2)) != 1) {
    return absl::InvalidArgumentError("the value of a pad is not a scalar");
  }
  constant = node.input(2);
  if (!node.IsConstant(2)) return absl::OkStatus();
  if (node.at(2).type == DataType::kFloat32) {
    SLUICE_ASSIGN_OR_RETURN(const auto value, node.Numbers(2));
    pad.value = value[0];
    constant.reset();
  } else if (IsInteger(node.at(2).type)) {
    SLUICE_ASSIGN_OR_RETURN(const auto value, node.Integers(2));
    if (value[0] == 0) constant.reset();
  }
  return absl::OkStatus();
}

// Pads in the order of the dimensions; with axes the others get none.
absl::Status ReadPads(OnnxNode& node, std::vector<std::int64_t>& begin,
                      std::vector<std::int64_t>& end) {
  const std::size_t rank = node.shape(0).size();
  SLUICE_ASSIGN_OR_RETURN(const auto pads,
                          node.IntsOrInput(node.opset() < 2 ? "paddings" : "pads", 1, 11));
  std::vector<std::int64_t> axes(rank);
  std::iota(axes.begin(), axes.end(), 0);
  if (node.opset() >= 18 && node.input(3)) {
    SLUICE_ASSIGN_OR_RETURN(axes, node.Integers(3));
  }
  if (!pads || pads->size() != 2 * axes.size()) {
    return absl::InvalidArgumentError(absl::StrFormat(
        "got %d pads, want two for each of %d dimensions", pads ? pads->size() : 0, axes.size()));
  }
  begin.assign(rank, 0);
  end.assign(rank, 0);
  for (std::size_t i = 0; i < axes.size(); ++i) {
    SLUICE_ASSIGN_OR_RETURN(const std::int64_t axis, NormalAxis(axes[i], rank));
    begin[static_cast<std::size_t>(axis)] = (*pads)[i];
    end[static_cast<std::size_t>(axis)] = (*pads)[axes.size() + i];
  }
  return absl::OkStatus();
}

Slice WholeOf(const Shape& x) {
  return {.starts = std::vector<std::int64_t>(x.size(), 0),
          .steps = std::vector<std::int64_t>(x.size(), 1)};
}

// Negative pads cut elements off; that is a slice before the rest.
MaybeValue CutNegative(OnnxNode& node, Pad& pad) {
  const Shape x = node.shape(0);
  Shape shape = x;
  Slice slice = WholeOf(x);
  for (std::size_t d = 0; d < x.size(); ++d) {
    const std::int64_t front = std::min<std::int64_t>(0, pad.begin[d]);
    const std::int64_t back = std::min<std::int64_t>(0, pad.end[d]);
    if (front < -x[d] || back < -x[d] || x[d] + front + back < 0) {
      return absl::InvalidArgumentError(absl::StrFormat("pads %s and %s cut more than %s has",
                                                        FormatShape(pad.begin),
                                                        FormatShape(pad.end), FormatShape(x)));
    }
    slice.starts[d] = -front;
    shape[d] = x[d] + front + back;
    pad.begin[d] -= front;
    pad.end[d] -= back;
  }
  if (shape == x) return *node.input(0);
  return node.Emit(std::move(slice), {node.input(0)}, std::move(shape));
}

MaybeValue PadAround(OnnxNode& node) {
  const std::string mode = node.String("mode", "constant");
  Pad pad;
  if (mode == "reflect") {
    pad.mode = Pad::Mode::kReflect;
  } else if (mode == "edge") {
    pad.mode = Pad::Mode::kEdge;
  } else if (mode == "wrap" && node.opset() >= 19) {
    pad.mode = Pad::Mode::kWrap;
  } else if (mode != "constant") {
    return absl::InvalidArgumentError(absl::StrFormat(
        "mode is \"%s\", want constant, reflect, edge or, from opset 19 on, wrap", mode));
  }
  SLUICE_RETURN_IF_ERROR(ReadPads(node, pad.begin, pad.end));
  std::optional<ValueId> constant;
  if (pad.mode == Pad::Mode::kConstant) SLUICE_RETURN_IF_ERROR(ReadConstant(node, pad, constant));
  SLUICE_ASSIGN_OR_RETURN(const ValueId x, CutNegative(node, pad));
  const auto none = [](std::int64_t n) { return n == 0; };
  if (std::ranges::all_of(pad.begin, none) && std::ranges::all_of(pad.end, none)) return x;
  std::vector<std::optional<ValueId>> inputs = {x};
  if (constant) inputs.push_back(constant);
  return node.Emit(std::move(pad), std::move(inputs));
}

// Crops around the centre where a size is smaller, pads with zeros where it is larger.
MaybeValue CenterCropPad(OnnxNode& node) {
  const Shape x = node.shape(0);
  SLUICE_ASSIGN_OR_RETURN(const auto sizes, node.Integers(1));
  std::vector<std::int64_t> axes = node.Ints("axes");
  if (axes.empty()) {
    axes.resize(x.size());
    std::iota(axes.begin(), axes.end(), 0);
  }
  if (sizes.size() != axes.size()) {
    return absl::InvalidArgumentError(
        absl::StrFormat("got %d sizes for %d axes", sizes.size(), axes.size()));
  }
  Slice slice = WholeOf(x);
  Pad pad{.begin = std::vector<std::int64_t>(x.size(), 0),
          .end = std::vector<std::int64_t>(x.size(), 0)};
  Shape cropped = x;
  for (std::size_t i = 0; i < axes.size(); ++i) {
    SLUICE_ASSIGN_OR_RETURN(const std::int64_t axis, NormalAxis(axes[i], x.size()));
    const auto d = static_cast<std::size_t>(axis);
    if (sizes[i] < 0) return absl::InvalidArgumentError(absl::StrFormat("size %d", sizes[i]));
    if (sizes[i] < x[d]) {
      slice.starts[d] = (x[d] - sizes[i]) / 2;
      cropped[d] = sizes[i];
    } else {
      pad.begin[d] = (sizes[i] - x[d]) / 2;
      pad.end[d] = sizes[i] - x[d] - pad.begin[d];
    }
  }
  ValueId y = *node.input(0);
  if (cropped != x) {
    SLUICE_ASSIGN_OR_RETURN(y, node.Emit(std::move(slice), {y}, cropped));
  }
  return node.Emit(std::move(pad), {y});
}

absl::StatusOr<std::int64_t> BlockSize(OnnxNode& node) {
  const std::int64_t block = node.Int("blocksize", 0);
  if (block > 0 && block < 65536 && node.shape(0).size() == 4) return block;
  return absl::InvalidArgumentError(
      absl::StrFormat("blocksize %d of an input of shape %s", block, FormatShape(node.shape(0))));
}

MaybeValue DepthToSpace(OnnxNode& node) {
  SLUICE_ASSIGN_OR_RETURN(const std::int64_t b, BlockSize(node));
  const Shape x = node.shape(0);
  if (x[1] % (b * b) != 0) return absl::InvalidArgumentError("the channels do not divide");
  const std::int64_t c = x[1] / (b * b);
  const std::string mode = node.String("mode", "DCR");
  if (mode != "DCR" && mode != "CRD") {
    return absl::InvalidArgumentError(absl::StrFormat("mode is \"%s\", want DCR or CRD", mode));
  }
  const bool depth_first = mode == "DCR";
  const Shape six =
      depth_first ? Shape{x[0], b, b, c, x[2], x[3]} : Shape{x[0], c, b, b, x[2], x[3]};
  SLUICE_ASSIGN_OR_RETURN(ValueId y, node.EmitReshape(*node.input(0), six));
  const std::vector<std::int64_t> perm = depth_first ? std::vector<std::int64_t>{0, 3, 4, 1, 5, 2}
                                                     : std::vector<std::int64_t>{0, 1, 4, 2, 5, 3};
  SLUICE_ASSIGN_OR_RETURN(y, node.Emit(Transpose{perm}, {y}));
  return node.EmitReshape(y, {x[0], c, x[2] * b, x[3] * b});
}

MaybeValue SpaceToDepth(OnnxNode& node) {
  SLUICE_ASSIGN_OR_RETURN(const std::int64_t b, BlockSize(node));
  const Shape x = node.shape(0);
  if (x[2] % b != 0 || x[3] % b != 0) return absl::InvalidArgumentError("the sizes do not divide");
  SLUICE_ASSIGN_OR_RETURN(ValueId y,
                          node.EmitReshape(*node.input(0), {x[0], x[1], x[2] / b, b, x[3] / b, b}));
  SLUICE_ASSIGN_OR_RETURN(y, node.Emit(Transpose{{0, 3, 5, 1, 2, 4}}, {y}));
  return node.EmitReshape(y, {x[0], x[1] * b * b, x[2] / b, x[3] / b});
}

constexpr OnnxOperator kOperators[] = {
    {"Pad", 1, 4, PadAround},
    {"CenterCropPad", 2, 2, CenterCropPad},
    {"DepthToSpace", 1, 1, DepthToSpace},
    {"SpaceToDepth", 1, 1, SpaceToDepth},
};

}  // namespace

std::span<const OnnxOperator> PadOperators() { return kOperators; }

}  // namespace sluice
