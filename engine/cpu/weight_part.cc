#include "engine/cpu/weight_part.h"

#include <algorithm>
#include <cstring>

#include "base/check.h"
#include "base/status_macros.h"

namespace sluice {
namespace {

// What is read from a constant at a time.
constexpr std::int64_t kWindowElements = 64 * 1024;

std::vector<std::int64_t> Terms(const Axis& axis) {
  std::vector<std::int64_t> terms(static_cast<std::size_t>(axis.count), 0);
  std::int64_t inside = axis.count;
  for (const Factor& factor : axis.factors) {
    inside /= factor.count;
    for (std::int64_t i = 0; i < axis.count; ++i) {
      terms[static_cast<std::size_t>(i)] += factor.placement.Term(i / inside % factor.count);
    }
  }
  return terms;
}

std::int64_t ScaleTerm(const Axis& axis, std::int64_t index) {
  std::int64_t term = 0;
  std::int64_t inside = axis.count;
  for (const Factor& factor : axis.factors) {
    inside /= factor.count;
    term += index / inside % factor.count * factor.scale_stride;
  }
  return term;
}

bool HasScale(const Axis& axis) {
  return std::ranges::any_of(axis.factors, [](const Factor& f) { return f.scale_stride != 0; });
}

std::int64_t WindowColumns(const WeightPart& part) {
  return std::min(part.axes[1].count, kWindowElements);
}

// Whole rows lie side by side only when the window is as wide as the constant.
std::int64_t WindowRows(const WeightPart& part) {
  const std::int64_t columns = WindowColumns(part);
  if (columns < part.row_length) return 1;
  return std::clamp<std::int64_t>(kWindowElements / columns, 1, part.axes[0].count);
}

std::span<std::byte> BytesOf(std::span<float> floats) { return std::as_writable_bytes(floats); }

// One rectangle of the constant, scaled and put in its place.
class Packer {
 public:
  Packer(const WeightPart& part, std::span<std::byte> into)
      : part_(part),
        into_(into),
        row_terms_(Terms(part.axes[0])),
        column_terms_(Terms(part.axes[1])),
        window_(static_cast<std::size_t>(WindowRows(part) * WindowColumns(part))) {}

  absl::Status Run() {
    if (part_.scale != nullptr) {
      scale_.resize(part_.scale->size().count() / sizeof(float));
      SLUICE_RETURN_IF_ERROR(part_.scale->Read(Bytes(), BytesOf(scale_)));
    }
    const std::int64_t row_step = WindowRows(part_);
    const std::int64_t column_step = WindowColumns(part_);
    for (std::int64_t row = 0; row < part_.axes[0].count; row += row_step) {
      const std::int64_t rows = std::min(row_step, part_.axes[0].count - row);
      for (std::int64_t column = 0; column < part_.axes[1].count; column += column_step) {
        const std::int64_t columns = std::min(column_step, part_.axes[1].count - column);
        SLUICE_RETURN_IF_ERROR(PackWindow(row, rows, column, columns));
      }
    }
    return absl::OkStatus();
  }

 private:
  absl::Status PackWindow(std::int64_t row, std::int64_t rows, std::int64_t column,
                          std::int64_t columns) {
    const std::int64_t first =
        (part_.axes[0].first + row) * part_.row_length + part_.axes[1].first + column;
    const std::span<float> window =
        std::span(window_).first(static_cast<std::size_t>(rows * columns));
    SLUICE_RETURN_IF_ERROR(part_.source->Read(
        Bytes::Of(static_cast<std::uint64_t>(first) * sizeof(float)), BytesOf(window)));
    for (std::int64_t r = 0; r < rows; ++r) {
      const std::span<float> values =
          window.subspan(static_cast<std::size_t>(r * columns), static_cast<std::size_t>(columns));
      if (!scale_.empty()) Scale(values, row + r, column);
      Place(values, row + r, column);
    }
    return absl::OkStatus();
  }

  void Scale(std::span<float> values, std::int64_t row, std::int64_t column) const {
    const std::int64_t base = part_.scale_first + ScaleTerm(part_.axes[0], row);
    if (!HasScale(part_.axes[1])) {
      const float scale = scale_[static_cast<std::size_t>(base)];
      for (float& value : values) value *= scale;
      return;
    }
    for (std::size_t i = 0; i < values.size(); ++i) {
      const std::int64_t index =
          base + ScaleTerm(part_.axes[1], column + static_cast<std::int64_t>(i));
      values[i] *= scale_[static_cast<std::size_t>(index)];
    }
  }

  void Place(std::span<const float> values, std::int64_t row, std::int64_t column) {
    const std::int64_t row_term = row_terms_[static_cast<std::size_t>(row)];
    const std::int64_t* column_terms = column_terms_.data() + column;
    for (std::size_t i = 0; i < values.size(); ++i) {
      const auto at = static_cast<std::size_t>(row_term + column_terms[i]) * sizeof(float);
      std::memcpy(into_.data() + at, &values[i], sizeof(float));
    }
  }

  const WeightPart& part_;
  std::span<std::byte> into_;
  std::vector<std::int64_t> row_terms_, column_terms_;
  std::vector<float> window_;
  std::vector<float> scale_;
};

}  // namespace

std::int64_t Placement::Term(std::int64_t index) const {
  std::int64_t term = 0;
  for (auto block = inner.rbegin(); block != inner.rend(); ++block) {
    term += index % block->count * block->stride;
    index /= block->count;
  }
  return term + index * outer_stride;
}

Placement PlacementOf(const dnnl::memory::desc& desc, std::size_t dim) {
  SLUICE_CHECK(desc.data.format_kind == dnnl_blocked);
  const dnnl_blocking_desc_t& blocking = desc.data.format_desc.blocking;
  Placement placement;
  placement.outer_stride = blocking.strides[dim];
  std::int64_t stride = 1;
  for (int b = blocking.inner_nblks; b-- > 0;) {
    if (static_cast<std::size_t>(blocking.inner_idxs[b]) == dim) {
      placement.inner.insert(placement.inner.begin(), {blocking.inner_blks[b], stride});
    }
    stride *= blocking.inner_blks[b];
  }
  return placement;
}

Bytes PackMemory(const WeightPart& part) {
  if (part.axes.empty()) return Bytes();
  Bytes memory =
      Bytes::Of(static_cast<std::uint64_t>(WindowRows(part) * WindowColumns(part)) * sizeof(float));
  memory += Bytes::Of(static_cast<std::uint64_t>(part.axes[0].count + part.axes[1].count) *
                      sizeof(std::int64_t));
  if (part.scale != nullptr) memory += part.scale->size();
  return memory;
}

absl::Status PackPart(const WeightPart& part, std::span<std::byte> into) {
  SLUICE_CHECK(into.size() == part.size.count());
  if (part.axes.empty()) return part.source->Read(part.source_first, into);
  return Packer(part, into).Run();
}

}  // namespace sluice
