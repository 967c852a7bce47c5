// Operators that sample images, and their like.

#include <algorithm>
#include <vector>

#include "absl/strings/str_format.h"
#include "base/status_macros.h"
#include "model/host_tensor.h"
#include "model/onnx/onnx_node.h"

namespace sluice {
namespace {

MaybeValue SampleGrid(OnnxNode& node) {
  GridSample op{.align_corners = node.Flag("align_corners")};
  const std::string mode = node.String("mode", node.opset() < 20 ? "bilinear" : "linear");
  if (mode == "nearest") {
    op.mode = GridSample::Mode::kNearest;
  } else if (mode == "bicubic" || mode == "cubic") {
    op.mode = GridSample::Mode::kCubic;
  } else if (mode != "bilinear" && mode != "linear") {
    return absl::InvalidArgumentError(
        absl::StrFormat("mode is \"%s\", want nearest, linear or cubic", mode));
  }
  const std::string padding = node.String("padding_mode", "zeros");
  if (padding == "border") {
    op.padding = GridSample::Padding::kBorder;
  } else if (padding == "reflection") {
    op.padding = GridSample::Padding::kReflection;
  } else if (padding != "zeros") {
    return absl::InvalidArgumentError(
        absl::StrFormat("padding_mode is \"%s\", want zeros, border or reflection", padding));
  }
  ValueId grid = *node.input(1);
  if (node.at(1).type != node.at(0).type) {
    SLUICE_ASSIGN_OR_RETURN(grid, node.Emit(Cast{}, {grid}, std::nullopt, node.at(0).type));
  }
  return node.Emit(op, {node.input(0), grid});
}

MaybeValue AlignRois(OnnxNode& node) {
  RoiAlign op{.height = node.Int("output_height", 1),
              .width = node.Int("output_width", 1),
              .sampling_ratio = node.Int("sampling_ratio", 0),
              .spatial_scale = node.Float("spatial_scale", 1)};
  const std::string mode = node.String("mode", "avg");
  if (mode == "max") {
    op.kind = RoiAlign::Kind::kMax;
  } else if (mode != "avg") {
    return absl::InvalidArgumentError(absl::StrFormat("mode is \"%s\", want avg or max", mode));
  }
  // Opset 16 moved the samples by half a pixel, unless it is told not to.
  const std::string coordinates = node.String(
      "coordinate_transformation_mode", node.opset() < 16 ? "output_half_pixel" : "half_pixel");
  if (coordinates != "half_pixel" && coordinates != "output_half_pixel") {
    return absl::InvalidArgumentError(
        absl::StrFormat("coordinate_transformation_mode is \"%s\"", coordinates));
  }
  op.half_pixel = coordinates == "half_pixel";
  return node.Emit(op, {node.input(0), node.input(1), node.input(2)});
}

MaybeValue PoolRois(OnnxNode& node) {
  const std::vector<std::int64_t> sizes = node.Ints("pooled_shape");
  if (sizes.size() != 2) {
    return absl::InvalidArgumentError(
        absl::StrFormat("pooled_shape is %s, want two sizes", FormatShape(sizes)));
  }
  return node.Emit(
      MaxRoiPool{
          .height = sizes[0], .width = sizes[1], .spatial_scale = node.Float("spatial_scale", 1)},
      {node.input(0), node.input(1)});
}

MaybeValue DeterminantOf(OnnxNode& node) { return node.Emit(Determinant{}, {node.input(0)}); }

// A table that is made here and held in memory.
absl::Status BookTable(OnnxNode& node, Bytes size) {
  constexpr Bytes kMost = Bytes::Of(64 << 20);
  if (size <= kMost) return node.BookGenerated(size);
  return absl::ResourceExhaustedError(absl::StrFormat(
      "its table of positions takes %s, the limit is %s", FormatBytes(size), FormatBytes(kMost)));
}

// Normalised coordinates of `size` pixels: their centres, or from edge to edge.
std::vector<float> Positions(std::int64_t size, bool align_corners) {
  std::vector<float> positions;
  positions.reserve(static_cast<std::size_t>(size));
  for (std::int64_t i = 0; i < size; ++i) {
    const double at = static_cast<double>(i), n = static_cast<double>(size);
    positions.push_back(static_cast<float>(align_corners ? (size > 1 ? -1 + 2 * at / (n - 1) : 0)
                                                         : (2 * at + 1) / n - 1));
  }
  return positions;
}

// A grid for GridSample: theta, [N, 2, 3] or [N, 3, 4], times every position and a one.
MaybeValue AffineGrid(OnnxNode& node) {
  SLUICE_ASSIGN_OR_RETURN(const Shape size, node.Integers(1));
  const std::size_t spatial = size.size() < 2 ? 0 : size.size() - 2;
  const Shape theta = node.shape(0);
  const auto rank = static_cast<std::int64_t>(spatial);
  std::uint64_t count = 1;
  for (std::size_t d = 2; d < size.size(); ++d) {
    if (size[d] < 1 || size[d] > 65536) {
      return absl::InvalidArgumentError(absl::StrFormat("size is %s", FormatShape(size)));
    }
    count *= static_cast<std::uint64_t>(size[d]);
  }
  if ((spatial != 2 && spatial != 3) || theta != Shape{size[0], rank, rank + 1}) {
    return absl::InvalidArgumentError(absl::StrFormat("theta has shape %s for a size of %s",
                                                      FormatShape(theta), FormatShape(size)));
  }
  const Shape base_shape = {static_cast<std::int64_t>(count), rank + 1};
  SLUICE_RETURN_IF_ERROR(BookTable(node, TensorBytes(DataType::kFloat64, base_shape)));
  std::vector<float> base;
  base.reserve(count * (spatial + 1));
  std::vector<std::vector<float>> positions;
  positions.reserve(spatial);
  for (std::size_t d = 0; d < spatial; ++d) {
    positions.push_back(Positions(size[2 + d], node.Flag("align_corners")));
  }
  for (std::uint64_t i = 0; i < count; ++i) {
    std::uint64_t rest = i;
    for (std::size_t d = spatial; d-- > 0;) {  // The innermost first, as the grid has them.
      base.push_back(positions[d][rest % positions[d].size()]);
      rest /= positions[d].size();
    }
    base.push_back(1);
  }
  const ValueId grid = node.AddFloats(node.at(0).type, base_shape, base);
  SLUICE_ASSIGN_OR_RETURN(ValueId y,
                          node.Emit(MatMul{.transposed_b = true}, {grid, node.input(0)}));
  Shape shape = {size[0]};
  shape.insert(shape.end(), size.begin() + 2, size.end());
  shape.push_back(rank);
  return node.EmitReshape(y, std::move(shape));
}

struct ColumnSpec {
  Shape image, block, strides, dilations, begin, end, padded, count;
};

absl::StatusOr<ColumnSpec> ReadColumns(OnnxNode& node) {
  ColumnSpec spec;
  SLUICE_ASSIGN_OR_RETURN(spec.image, node.Integers(1));
  SLUICE_ASSIGN_OR_RETURN(spec.block, node.Integers(2));
  const std::size_t spatial = spec.image.size();
  spec.strides = node.Ints("strides");
  spec.dilations = node.Ints("dilations");
  std::vector<std::int64_t> pads = node.Ints("pads");
  if (spec.strides.empty()) spec.strides.assign(spatial, 1);
  if (spec.dilations.empty()) spec.dilations.assign(spatial, 1);
  if (pads.empty()) pads.assign(2 * spatial, 0);
  bool sane = spatial > 0 && spec.block.size() == spatial && spec.strides.size() == spatial &&
              spec.dilations.size() == spatial && pads.size() == 2 * spatial;
  for (std::size_t d = 0; sane && d < spatial; ++d) {
    const auto within = [](std::int64_t n, std::int64_t least) {
      return n >= least && n < (std::int64_t{1} << 24);
    };
    sane = within(spec.image[d], 1) && within(spec.block[d], 1) && within(spec.strides[d], 1) &&
           within(spec.dilations[d], 1) && within(pads[d], 0) && within(pads[spatial + d], 0);
    if (!sane) break;
    spec.begin.push_back(pads[d]);
    spec.end.push_back(pads[spatial + d]);
    spec.padded.push_back(spec.image[d] + pads[d] + pads[spatial + d]);
    const std::int64_t room = spec.padded[d] - (spec.block[d] - 1) * spec.dilations[d];
    sane = room > 0;
    spec.count.push_back((room - 1) / spec.strides[d] + 1);
  }
  if (sane) return spec;
  return absl::InvalidArgumentError(absl::StrFormat(
      "image_shape %s, block_shape %s, strides %s, dilations %s and pads %s do not go together",
      FormatShape(spec.image), FormatShape(spec.block), FormatShape(spec.strides),
      FormatShape(spec.dilations), FormatShape(pads)));
}

// Where in the padded image each element of a column goes, block by block.
std::vector<std::int64_t> ColumnPlaces(const ColumnSpec& spec) {
  const std::uint64_t blocks = ElementCount(spec.block), counts = ElementCount(spec.count);
  std::vector<std::int64_t> places;
  places.reserve(blocks * counts);
  for (std::uint64_t k = 0; k < blocks; ++k) {
    for (std::uint64_t l = 0; l < counts; ++l) {
      std::int64_t place = 0, stride = 1;
      std::uint64_t rest_k = k, rest_l = l;
      for (std::size_t d = spec.image.size(); d-- > 0;) {
        const auto block = static_cast<std::uint64_t>(spec.block[d]);
        const auto count = static_cast<std::uint64_t>(spec.count[d]);
        place += stride * (static_cast<std::int64_t>(rest_k % block) * spec.dilations[d] +
                           static_cast<std::int64_t>(rest_l % count) * spec.strides[d]);
        rest_k /= block;
        rest_l /= count;
        stride *= spec.padded[d];
      }
      places.push_back(place);
    }
  }
  return places;
}

// Columns are added into a padded image of zeros, of which the pads are then cut off.
MaybeValue ColumnsToImage(OnnxNode& node) {
  const Shape x = node.shape(0);
  SLUICE_ASSIGN_OR_RETURN(const ColumnSpec spec, ReadColumns(node));
  const auto block = static_cast<std::int64_t>(ElementCount(spec.block));
  const auto columns = static_cast<std::int64_t>(ElementCount(spec.count));
  if (x.size() != 3 || block < 1 || block > x[1] || x[1] % block != 0 || x[2] != columns) {
    return absl::InvalidArgumentError(absl::StrFormat(
        "input has shape %s, want [N, channels times %d, %d]", FormatShape(x), block, columns));
  }
  SLUICE_RETURN_IF_ERROR(BookTable(node, TensorBytes(DataType::kInt64, Shape{block, columns})));
  if (ElementCount(spec.padded) > (std::uint64_t{1} << 40)) {
    return absl::ResourceExhaustedError(
        absl::StrFormat("an image of %s with its pads", FormatShape(spec.padded)));
  }
  const std::int64_t channels = x[1] / block, planes = x[0] * channels;
  const Shape rows = {planes, block * columns};
  const float zero = 0;
  SLUICE_ASSIGN_OR_RETURN(
      const ValueId base,
      node.Emit(Expand{}, {node.AddFloats(node.at(0).type, {1, 1}, std::span(&zero, 1))},
                Shape{planes, static_cast<std::int64_t>(ElementCount(spec.padded))}));
  const ValueId places =
      node.AddConstant(DataType::kInt64, {1, block * columns},
                       InlineConstant(PackIntegers(DataType::kInt64, ColumnPlaces(spec))));
  SLUICE_ASSIGN_OR_RETURN(const ValueId indices, node.Emit(Expand{}, {places}, rows));
  SLUICE_ASSIGN_OR_RETURN(const ValueId updates, node.EmitReshape(*node.input(0), rows));
  SLUICE_ASSIGN_OR_RETURN(ValueId y,
                          node.Emit(ScatterElements{.axis = 1, .reduction = ScatterReduction::kAdd},
                                    {base, indices, updates}));
  Shape padded = {x[0], channels}, image = padded;
  padded.insert(padded.end(), spec.padded.begin(), spec.padded.end());
  image.insert(image.end(), spec.image.begin(), spec.image.end());
  SLUICE_ASSIGN_OR_RETURN(y, node.EmitReshape(y, padded));
  if (padded == image) return y;
  Slice cut{.starts = {0, 0}, .steps = std::vector<std::int64_t>(image.size(), 1)};
  cut.starts.insert(cut.starts.end(), spec.begin.begin(), spec.begin.end());
  return node.Emit(std::move(cut), {y}, image);
}

constexpr OnnxOperator kOperators[] = {
    {"GridSample", 2, 2, SampleGrid}, {"RoiAlign", 3, 3, AlignRois},
    {"MaxRoiPool", 2, 2, PoolRois},   {"Det", 1, 1, DeterminantOf},
    {"AffineGrid", 2, 2, AffineGrid}, {"Col2Im", 3, 3, ColumnsToImage},
};

}  // namespace

std::span<const OnnxOperator> SamplingOperators() { return kOperators; }

}  // namespace sluice
