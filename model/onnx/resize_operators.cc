// Resize and its forerunner Upsample.

#include <algorithm>
#include <cmath>
#include <numeric>

#include "absl/strings/str_format.h"
#include "base/status_macros.h"
#include "model/host_tensor.h"
#include "model/onnx/onnx_node.h"

namespace sluice {
namespace {

absl::StatusOr<Resize::Mode> ReadMode(OnnxNode& node) {
  const std::string mode = node.String("mode", "nearest");
  if (mode == "nearest") return Resize::Mode::kNearest;
  if (mode == "linear" || mode == "bilinear") return Resize::Mode::kLinear;
  if (mode == "cubic") return Resize::Mode::kCubic;
  return absl::UnimplementedError(absl::StrFormat("mode \"%s\" is not supported", mode));
}

absl::StatusOr<Resize::Rounding> ReadRounding(OnnxNode& node) {
  const std::string mode = node.String("nearest_mode", "round_prefer_floor");
  if (mode == "round_prefer_floor") return Resize::Rounding::kRoundPreferFloor;
  if (mode == "round_prefer_ceil") return Resize::Rounding::kRoundPreferCeil;
  if (mode == "floor") return Resize::Rounding::kFloor;
  if (mode == "ceil") return Resize::Rounding::kCeil;
  return absl::UnimplementedError(absl::StrFormat("nearest_mode \"%s\" is not supported", mode));
}

absl::StatusOr<Resize::Coordinates> ReadCoordinates(OnnxNode& node) {
  const std::string mode = node.String("coordinate_transformation_mode", "half_pixel");
  if (mode == "half_pixel") return Resize::Coordinates::kHalfPixel;
  if (mode == "half_pixel_symmetric") return Resize::Coordinates::kHalfPixelSymmetric;
  if (mode == "pytorch_half_pixel") return Resize::Coordinates::kPytorchHalfPixel;
  if (mode == "align_corners") return Resize::Coordinates::kAlignCorners;
  if (mode == "asymmetric") return Resize::Coordinates::kAsymmetric;
  if (mode == "tf_half_pixel_for_nn") return Resize::Coordinates::kTfHalfPixel;
  if (mode == "tf_crop_and_resize") return Resize::Coordinates::kTfCropAndResize;
  return absl::UnimplementedError(
      absl::StrFormat("coordinate_transformation_mode \"%s\" is not supported", mode));
}

MaybeValue EmitResize(OnnxNode& node, Resize op, Shape shape) {
  const Shape x = node.shape(0);
  if (shape == x && op.coordinates != Resize::Coordinates::kTfCropAndResize &&
      std::ranges::all_of(op.scales, [](float s) { return s == 1; })) {
    return *node.input(0);
  }
  return node.Emit(std::move(op), {node.input(0)}, std::move(shape));
}

absl::StatusOr<Shape> Scaled(const Shape& x, const std::vector<float>& scales) {
  if (scales.size() != x.size()) {
    return absl::InvalidArgumentError(
        absl::StrFormat("got %d scales for an input of shape %s", scales.size(), FormatShape(x)));
  }
  Shape shape;
  for (std::size_t d = 0; d < x.size(); ++d) {
    const double size = std::floor(static_cast<double>(x[d]) * static_cast<double>(scales[d]));
    if (!(scales[d] > 0) || !(size >= 1) || !(size < 1e12)) {
      return absl::InvalidArgumentError(
          absl::StrFormat("scale %g of dimension %d of %s", scales[d], d, FormatShape(x)));
    }
    shape.push_back(static_cast<std::int64_t>(size));
  }
  return shape;
}

// Upsample (to opset 9) and Resize of opset 10.
MaybeValue FromScales(OnnxNode& node, std::vector<float> scales) {
  SLUICE_ASSIGN_OR_RETURN(const Resize::Mode mode, ReadMode(node));
  SLUICE_ASSIGN_OR_RETURN(Shape shape, Scaled(node.shape(0), scales));
  return EmitResize(node,
                    {.mode = mode,
                     .coordinates = Resize::Coordinates::kAsymmetric,
                     .rounding = Resize::Rounding::kFloor,
                     .scales = std::move(scales)},
                    std::move(shape));
}

MaybeValue Upsample(OnnxNode& node) {
  if (node.opset() >= 9) {
    if (!node.input(1)) return absl::InvalidArgumentError("the scales are missing");
    SLUICE_ASSIGN_OR_RETURN(auto scales, node.Numbers(1));
    return FromScales(node, std::move(scales));
  }
  // Opset 1 had an experimental form that listed them, and one that named two.
  if (node.opset() >= 7 || node.Has("scales")) return FromScales(node, node.Floats("scales"));
  return FromScales(node, {1, 1, node.Float("height_scale", 0), node.Float("width_scale", 0)});
}

// The sizes or scales of some dimensions, spread over all.
template <typename T>
absl::StatusOr<std::vector<T>> Spread(const std::vector<T>& some,
                                      const std::vector<std::int64_t>& axes, std::vector<T> all) {
  if (some.size() != axes.size()) {
    return absl::InvalidArgumentError(
        absl::StrFormat("got %d sizes or scales, want %d", some.size(), axes.size()));
  }
  for (std::size_t i = 0; i < axes.size(); ++i) all[static_cast<std::size_t>(axes[i])] = some[i];
  return all;
}

// keep_aspect_ratio_policy: one scale for all of the axes, sizes rounded to nearest.
absl::Status KeepAspect(OnnxNode& node, const std::vector<std::int64_t>& axes, Shape& shape,
                        std::vector<float>& scales) {
  const std::string policy = node.String("keep_aspect_ratio_policy", "stretch");
  if (policy == "stretch") return absl::OkStatus();
  if (policy != "not_larger" && policy != "not_smaller") {
    return absl::InvalidArgumentError(
        absl::StrFormat("keep_aspect_ratio_policy is \"%s\"", policy));
  }
  std::optional<float> common;
  for (const std::int64_t axis : axes) {
    const float scale = scales[static_cast<std::size_t>(axis)];
    common = !common                  ? scale
             : policy == "not_larger" ? std::min(*common, scale)
                                      : std::max(*common, scale);
  }
  for (const std::int64_t axis : axes) {
    const auto d = static_cast<std::size_t>(axis);
    scales[d] = *common;
    shape[d] = std::llround(static_cast<double>(node.shape(0)[d]) * static_cast<double>(*common));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<std::int64_t>> ReadAxes(OnnxNode& node) {
  const std::size_t rank = node.shape(0).size();
  std::vector<std::int64_t> axes = node.Ints("axes");
  if (axes.empty()) {
    axes.resize(rank);
    std::iota(axes.begin(), axes.end(), 0);
  }
  for (std::int64_t& axis : axes) {
    SLUICE_ASSIGN_OR_RETURN(axis, NormalAxis(axis, rank));
  }
  return axes;
}

absl::Status ReadTarget(OnnxNode& node, const std::vector<std::int64_t>& axes, Shape& shape,
                        std::vector<float>& scales) {
  const Shape x = node.shape(0);
  const bool by_scales = node.input(2) && ElementCount(node.shape(2)) > 0;
  if (by_scales == (node.input(3) && ElementCount(node.shape(3)) > 0)) {
    return absl::InvalidArgumentError("want either scales or sizes");
  }
  if (by_scales) {
    SLUICE_ASSIGN_OR_RETURN(const auto some, node.Numbers(2));
    SLUICE_ASSIGN_OR_RETURN(scales, Spread(some, axes, std::vector<float>(x.size(), 1)));
    SLUICE_ASSIGN_OR_RETURN(shape, Scaled(x, scales));
    return absl::OkStatus();
  }
  SLUICE_ASSIGN_OR_RETURN(const auto some, node.Integers(3));
  SLUICE_ASSIGN_OR_RETURN(shape, Spread<std::int64_t>(some, axes, x));
  for (std::size_t d = 0; d < x.size(); ++d) {
    if (shape[d] < 1 || x[d] < 1) {
      return absl::InvalidArgumentError(
          absl::StrFormat("sizes %s from %s", FormatShape(shape), FormatShape(x)));
    }
    scales.push_back(static_cast<float>(shape[d]) / static_cast<float>(x[d]));
  }
  return KeepAspect(node, axes, shape, scales);
}

// The part of each dimension that tf_crop_and_resize shows: starts, then ends.
absl::Status ReadCrop(OnnxNode& node, const std::vector<std::int64_t>& axes, Resize& op) {
  if (op.coordinates != Resize::Coordinates::kTfCropAndResize) return absl::OkStatus();
  if (!node.input(1)) return absl::InvalidArgumentError("the region to crop is missing");
  SLUICE_ASSIGN_OR_RETURN(const auto region, node.Numbers(1));
  if (region.size() != 2 * axes.size()) {
    return absl::InvalidArgumentError(
        absl::StrFormat("got a region of %d numbers, want two for each of %d dimensions",
                        region.size(), axes.size()));
  }
  const std::size_t rank = node.shape(0).size();
  const auto half = region.begin() + static_cast<std::ptrdiff_t>(axes.size());
  SLUICE_ASSIGN_OR_RETURN(op.crop_begin, Spread(std::vector<float>(region.begin(), half), axes,
                                                std::vector<float>(rank, 0)));
  SLUICE_ASSIGN_OR_RETURN(op.crop_end, Spread(std::vector<float>(half, region.end()), axes,
                                              std::vector<float>(rank, 1)));
  return absl::OkStatus();
}

MaybeValue ResizeTo(OnnxNode& node) {
  if (node.opset() < 11) {
    if (!node.input(1)) return absl::InvalidArgumentError("the scales are missing");
    SLUICE_ASSIGN_OR_RETURN(auto scales, node.Numbers(1));
    return FromScales(node, std::move(scales));
  }
  Shape shape;
  Resize op;
  SLUICE_ASSIGN_OR_RETURN(const std::vector<std::int64_t> axes, ReadAxes(node));
  SLUICE_RETURN_IF_ERROR(ReadTarget(node, axes, shape, op.scales));
  SLUICE_ASSIGN_OR_RETURN(op.mode, ReadMode(node));
  SLUICE_ASSIGN_OR_RETURN(op.rounding, ReadRounding(node));
  SLUICE_ASSIGN_OR_RETURN(op.coordinates, ReadCoordinates(node));
  SLUICE_RETURN_IF_ERROR(ReadCrop(node, axes, op));
  op.cubic_coefficient = node.Float("cubic_coeff_a", -0.75f);
  op.exclude_outside = node.Flag("exclude_outside");
  op.extrapolation = node.Float("extrapolation_value", 0);
  const bool shrinks = std::ranges::any_of(op.scales, [](float s) { return s < 1; });
  op.antialias = node.Flag("antialias") && shrinks && op.mode != Resize::Mode::kNearest;
  return EmitResize(node, std::move(op), std::move(shape));
}

constexpr OnnxOperator kOperators[] = {
    {"Resize", 1, 4, ResizeTo},
    {"Upsample", 1, 2, Upsample},
};

}  // namespace

std::span<const OnnxOperator> ResizeOperators() { return kOperators; }

}  // namespace sluice
