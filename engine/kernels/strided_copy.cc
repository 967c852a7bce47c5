#include "engine/kernels/strided_copy.h"

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>

#include "engine/kernels/parallel.h"

namespace sluice::kernels {
namespace {

constexpr std::size_t kTile = 32;  // Elements of a tile's side: both sides of a tile stay in L1.
constexpr std::size_t kLongRow = 65536;

// Drops dimensions of one element, and joins those that are one run on both sides.
std::vector<CopyDim> Collapse(const std::vector<CopyDim>& dims) {
  std::vector<CopyDim> collapsed;
  for (const CopyDim& dim : dims) {
    if (dim.size == 1) continue;
    const auto size = static_cast<std::ptrdiff_t>(dim.size);
    if (!collapsed.empty() && collapsed.back().from == dim.from * size &&
        collapsed.back().to == dim.to * size) {
      collapsed.back() = {collapsed.back().size * dim.size, dim.from, dim.to};
    } else {
      collapsed.push_back(dim);
    }
  }
  return collapsed;
}

template <typename T>
void CopyRow(const T* from, T* to, const CopyDim& dim) {
  if (dim.to == 1 && dim.from == 1) {
    std::memcpy(to, from, dim.size * sizeof(T));
  } else if (dim.to == 1 && dim.from == 0) {
    std::fill_n(to, dim.size, *from);
  } else {
    for (std::size_t i = 0; i < dim.size; ++i) {
      to[static_cast<std::ptrdiff_t>(i) * dim.to] = from[static_cast<std::ptrdiff_t>(i) * dim.from];
    }
  }
}

// Rows [begin, end) of the two innermost dimensions, by tiles.
template <typename T>
void CopyTiles(const T* __restrict from, T* __restrict to, const CopyDim& row,
               const CopyDim& column, std::size_t begin, std::size_t end) {
  for (std::size_t j0 = 0; j0 < column.size; j0 += kTile) {
    const std::size_t j1 = std::min(column.size, j0 + kTile);
    for (std::size_t i = begin; i < end; ++i) {
      const T* source = from + static_cast<std::ptrdiff_t>(i) * row.from;
      T* target = to + static_cast<std::ptrdiff_t>(i) * row.to;
      for (std::size_t j = j0; j < j1; ++j) {
        target[static_cast<std::ptrdiff_t>(j) * column.to] =
            source[static_cast<std::ptrdiff_t>(j) * column.from];
      }
    }
  }
}

}  // namespace

StridedCopy::StridedCopy(std::size_t element, std::vector<CopyDim> dims, std::ptrdiff_t start_from,
                         std::ptrdiff_t start_to)
    : element_(element), start_from_(start_from), start_to_(start_to) {
  for (const CopyDim& dim : dims) count_ *= dim.size;
  if (count_ == 0) return;
  outer_ = Collapse(dims);
  if (outer_.empty()) return;
  column_ = outer_.back();
  outer_.pop_back();
  // A long run alone is cut into rows, for the team.
  if (outer_.empty() && column_.size > kLongRow && column_.size % kTile == 0) {
    const auto step = static_cast<std::ptrdiff_t>(column_.size / kTile);
    outer_.push_back({kTile, column_.from * step, column_.to * step});
    column_.size /= kTile;
  }
  if (outer_.empty()) return;
  std::size_t row = outer_.size() - 1;
  if (column_.from != 1 && column_.from != 0) {
    for (std::size_t d = 0; d < outer_.size(); ++d) {
      if (outer_[d].from != 1) continue;
      row = d;
      tiles_ = true;
    }
  }
  row_ = outer_[row];
  outer_.erase(outer_.begin() + static_cast<std::ptrdiff_t>(row));
}

std::string_view StridedCopy::method() const {
  if (tiles_) return "tiles";
  if (column_.from != 1 || column_.to != 1) return "strided";
  return outer_.empty() && row_.size == 1 ? "memcpy" : "rows";
}

template <typename T>
void StridedCopy::RunTyped(const T* from, T* to) const {
  std::size_t outer = 1;
  for (const CopyDim& dim : outer_) outer *= dim.size;
  const std::size_t height = tiles_ ? kTile : 1;
  const std::size_t blocks = (row_.size + height - 1) / height;
  ParallelFor(outer * blocks, count_, [&](std::size_t begin, std::size_t end) {
    for (std::size_t item = begin; item < end; ++item) {
      std::size_t rest = item / blocks;
      const T* source = from + start_from_;
      T* target = to + start_to_;
      for (std::size_t d = outer_.size(); d-- > 0;) {
        const auto index = static_cast<std::ptrdiff_t>(rest % outer_[d].size);
        rest /= outer_[d].size;
        source += index * outer_[d].from;
        target += index * outer_[d].to;
      }
      const std::size_t first = item % blocks * height;
      if (tiles_) {
        CopyTiles(source, target, row_, column_, first, std::min(first + height, row_.size));
      } else {
        const auto i = static_cast<std::ptrdiff_t>(first);
        CopyRow(source + i * row_.from, target + i * row_.to, column_);
      }
    }
  });
}

void StridedCopy::Run(const std::byte* from, std::byte* to) const {
  if (count_ == 0) return;
  const auto run = [&]<typename T>(T) {
    RunTyped(reinterpret_cast<const T*>(from), reinterpret_cast<T*>(to));
  };
  switch (element_) {
    case 1:
      return run(std::uint8_t{});
    case 2:
      return run(std::uint16_t{});
    case 4:
      return run(std::uint32_t{});
    default:
      return run(std::uint64_t{});
  }
}

}  // namespace sluice::kernels
