#include "engine/cpu/constant_part.h"

#include "base/check.h"

namespace sluice {

WeightPart PlainPart(const Value& value) {
  SLUICE_CHECK(value.constant != nullptr);
  return {.source = value.constant, .size = TensorBytes(value.type, value.shape)};
}

WeightPart VectorPart(const Value& value, std::int64_t first, std::int64_t count) {
  SLUICE_CHECK(value.constant != nullptr && value.type == DataType::kFloat32);
  const Factor elements{.count = count, .placement = {.outer_stride = 1}};
  return {.source = value.constant,
          .size = Bytes::Of(static_cast<std::uint64_t>(count) * sizeof(float)),
          .axes = {Axis{}, Axis{.factors = {elements}, .first = first, .count = count}},
          .row_length = static_cast<std::int64_t>(ElementCount(value.shape))};
}

WeightPart TensorPart(const Value& value, const Shape& shape, const dnnl::memory::desc& desc) {
  SLUICE_CHECK(value.constant != nullptr && value.type == DataType::kFloat32);
  SLUICE_CHECK(ElementCount(shape) == ElementCount(value.shape));
  WeightPart part{
      .source = value.constant, .size = Bytes::Of(desc.get_size()), .axes = {Axis{}, Axis{}}};
  for (std::size_t d = 0; d < shape.size(); ++d) {
    Axis& axis = part.axes[d < 2 && shape.size() > 1 ? 0 : 1];
    axis.factors.push_back({.count = shape[d], .placement = PlacementOf(desc, d)});
    axis.count *= shape[d];
  }
  part.row_length = part.axes[1].count;
  return part;
}

}  // namespace sluice
