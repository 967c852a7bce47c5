#include "engine/cpu/convolution_layer.h"

#include <utility>

#include "absl/strings/str_format.h"

namespace sluice {

dnnl::memory::dims WeightDims(const Layer& layer, const Geometry& geometry) {
  dnnl::memory::dims dims;
  if (layer.groups() > 1) dims.push_back(layer.groups());
  dims.push_back(geometry.result[1] / layer.groups());
  dims.push_back(geometry.source[1] / layer.groups());
  dims.insert(dims.end(), layer.operation.kernel.begin(), layer.operation.kernel.end());
  return dims;
}

dnnl::memory::dims ZeroBased(const std::vector<std::int64_t>& dilations) {
  dnnl::memory::dims dims = dilations;
  for (std::int64_t& dilation : dims) dilation -= 1;
  return dims;
}

std::string GeometryKey(const Layer& layer, const Geometry& geometry) {
  const Convolution& op = layer.operation;
  return absl::StrFormat("%s %s%d %s%d g%d k%s s%s d%s p%s b%d", op.transposed ? "deconv" : "conv",
                         FormatShape(geometry.source), static_cast<int>(geometry.source_layout),
                         FormatShape(geometry.result), static_cast<int>(geometry.result_layout),
                         op.groups, FormatShape(op.kernel), FormatShape(op.strides),
                         FormatShape(op.dilations), FormatShape(op.pads_begin),
                         static_cast<int>(geometry.bias));
}

WeightPart WeightsOf(const Layer& layer, const dnnl::memory::desc& desc, const Channels& result,
                     const Channels& source) {
  const std::int64_t groups = layer.groups();
  const bool transposed = layer.operation.transposed;
  const std::int64_t results = layer.result_channels() / groups;
  const std::int64_t sources = source.count / groups;
  const std::size_t grouped = groups > 1 ? 1 : 0;
  const Placement result_place = PlacementOf(desc, grouped);
  const Placement source_place = PlacementOf(desc, grouped + 1);

  Axis rows, columns;
  if (groups > 1) {
    rows.factors.push_back({groups, PlacementOf(desc, 0), results});
  }
  if (transposed) {
    rows.factors.push_back({sources, source_place, 0});
    columns.factors.push_back({results, result_place, 1});
  } else {
    rows.factors.push_back({groups > 1 ? results : result.count, result_place, 1});
    columns.factors.push_back({sources, source_place, 0});
  }
  for (std::size_t d = 0; d < layer.operation.kernel.size(); ++d) {
    columns.factors.push_back({layer.operation.kernel[d], PlacementOf(desc, grouped + 2 + d), 0});
  }
  for (Axis* axis : {&rows, &columns}) {
    for (const Factor& factor : axis->factors) axis->count *= factor.count;
  }
  rows.first = result.first;
  std::int64_t row_length = columns.count;
  if (source.count < layer.source_channels()) {
    const std::int64_t window = columns.count / sources;
    columns.first = source.first * window;
    row_length = layer.source_channels() * window;
  }
  return {.source = layer.weights.constant,
          .size = Bytes::Of(desc.get_size()),
          .axes = {std::move(rows), std::move(columns)},
          .row_length = row_length,
          .scale = layer.scale == nullptr ? nullptr : layer.scale->constant,
          .scale_first = result.first};
}

}  // namespace sluice
