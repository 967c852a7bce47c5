#include "engine/cpu/layout.h"

#include "base/check.h"

namespace sluice {
namespace {

using Tag = dnnl::memory::format_tag;

Tag BlockedTag(std::size_t rank) {
  const bool wide = ChannelBlock() == 16;
  switch (rank) {
    case 3:
      return wide ? Tag::nCw16c : Tag::nCw8c;
    case 4:
      return wide ? Tag::nChw16c : Tag::nChw8c;
    default:
      return wide ? Tag::nCdhw16c : Tag::nCdhw8c;
  }
}

dnnl::memory::dims RowMajorStrides(const Shape& shape) {
  dnnl::memory::dims strides(shape.size(), 1);
  for (std::size_t d = shape.size(); d-- > 1;) {
    strides[d - 1] = strides[d] * (shape[d] > 0 ? shape[d] : 1);
  }
  return strides;
}

}  // namespace

std::string_view Name(Layout layout) {
  if (layout == Layout::kPlain) return "plain";
  return ChannelBlock() == 16 ? "nChw16c" : "nChw8c";
}

std::int64_t ChannelBlock() {
  static const std::int64_t block = [] {
    switch (dnnl::get_effective_cpu_isa()) {
      case dnnl::cpu_isa::sse41:
      case dnnl::cpu_isa::avx:
      case dnnl::cpu_isa::avx2:
      case dnnl::cpu_isa::avx2_vnni:
        return std::int64_t{8};
      default:
        return std::int64_t{16};
    }
  }();
  return block;
}

bool CanBlock(DataType type, const Shape& shape) {
  return type == DataType::kFloat32 && shape.size() >= 3 && shape.size() <= 5 &&
         ElementCount(shape) > 0;
}

dnnl::memory::desc Describe(const Shape& shape, Layout layout) {
  if (layout == Layout::kBlocked) {
    SLUICE_CHECK(CanBlock(DataType::kFloat32, shape));
    return {shape, dnnl::memory::data_type::f32, BlockedTag(shape.size())};
  }
  if (shape.empty()) return Describe({1}, layout);
  return {shape, dnnl::memory::data_type::f32, RowMajorStrides(shape)};
}

Bytes StorageBytes(const Value& value, Layout layout) {
  if (layout == Layout::kPlain) return TensorBytes(value.type, value.shape);
  return TensorBytes(value.type, FullBlocks(value.shape));
}

Shape FullBlocks(const Shape& shape) {
  SLUICE_CHECK(shape.size() >= 2);
  Shape full = shape;
  full[1] = (full[1] + ChannelBlock() - 1) / ChannelBlock() * ChannelBlock();
  return full;
}

bool LayoutsCoincide(const Shape& shape) {
  if (!CanBlock(DataType::kFloat32, shape) || shape[1] % ChannelBlock() != 0) return false;
  return ElementCount(std::span(shape).subspan(2)) == 1;
}

Shape BlockedView(const Shape& shape) {
  SLUICE_CHECK(shape.size() >= 2 && shape[1] % ChannelBlock() == 0);
  Shape view = shape;
  view[1] /= ChannelBlock();
  view.push_back(ChannelBlock());
  return view;
}

}  // namespace sluice
