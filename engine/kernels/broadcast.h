// engine/kernels/broadcast.h
//
// Walks several operands that repeat to the shape of a result, as numpy does it: whole rows of the
// innermost dimension at a time, along which each operand moves by one element or stays.

#ifndef SLUICE_ENGINE_KERNELS_BROADCAST_H_
#define SLUICE_ENGINE_KERNELS_BROADCAST_H_

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "engine/kernels/parallel.h"

namespace sluice::kernels {

inline constexpr std::size_t kBlock = 4096;  // Elements that one call of a loop takes; fits L1.

template <std::size_t kOperands>
class Broadcast {
 public:
  using Offsets = std::array<std::size_t, kOperands>;  // In elements.
  using Shapes = std::array<std::span<const std::int64_t>, kOperands>;

  // Requires: operands that broadcast to `result`.
  Broadcast(const Shapes& operands, std::span<const std::int64_t> result) {
    Collapse(operands, result);
    inner_ = outer_.back();
    outer_.pop_back();
    count_ = inner_.size;
    for (const Dim& dim : outer_) count_ *= dim.size;
  }

  // How far each operand moves with each element of a row: 0 or 1.
  const Offsets& steps() const { return inner_.steps; }

  // Calls body(offsets, y, n) for runs that make up the result: n elements of it from element y,
  // whose operands start at their offsets.
  template <typename Body>
  void ForEachRow(const Body& body) const {
    if (count_ == 0) return;
    const std::size_t rows = count_ / inner_.size, blocks = (inner_.size + kBlock - 1) / kBlock;
    ParallelFor(rows * blocks, count_, [&](std::size_t begin, std::size_t end) {
      for (std::size_t item = begin; item < end; ++item) {
        const std::size_t row = item / blocks, start = item % blocks * kBlock;
        body(OffsetsOf(row, start), row * inner_.size + start,
             std::min(kBlock, inner_.size - start));
      }
    });
  }

 private:
  // One dimension of the result, and how far its operands move along it: 0 where they repeat.
  struct Dim {
    std::size_t size = 1;
    Offsets steps = {};
  };

  Offsets OffsetsOf(std::size_t row, std::size_t start) const {
    Offsets offsets = {};
    for (std::size_t d = outer_.size(); d-- > 0;) {
      const std::size_t at = row % outer_[d].size;
      row /= outer_[d].size;
      for (std::size_t k = 0; k < kOperands; ++k) offsets[k] += at * outer_[d].steps[k];
    }
    for (std::size_t k = 0; k < kOperands; ++k) offsets[k] += start * inner_.steps[k];
    return offsets;
  }

  static bool Joins(const Dim& outer, const Dim& inner) {
    for (std::size_t k = 0; k < kOperands; ++k) {
      if (outer.steps[k] != inner.steps[k] * inner.size) return false;
    }
    return true;
  }

  // The fewest dimensions that describe the broadcast, outermost first; at least one.
  void Collapse(const Shapes& operands, std::span<const std::int64_t> result) {
    Offsets strides;
    strides.fill(1);
    for (std::size_t d = 0; d < result.size(); ++d) {  // From the innermost.
      Dim dim{.size = static_cast<std::size_t>(result[result.size() - 1 - d])};
      for (std::size_t k = 0; k < kOperands; ++k) {
        const std::span<const std::int64_t> shape = operands[k];
        const auto own =
            d < shape.size() ? static_cast<std::size_t>(shape[shape.size() - 1 - d]) : 1;
        dim.steps[k] = own == 1 ? 0 : strides[k];
        strides[k] *= own;
      }
      if (dim.size == 1) continue;
      if (!outer_.empty() && Joins(dim, outer_.back())) {
        outer_.back().size *= dim.size;
      } else {
        outer_.push_back(dim);
      }
    }
    if (outer_.empty()) {
      outer_.emplace_back();
      outer_.back().steps.fill(1);
    }
    std::ranges::reverse(outer_);
  }

  std::vector<Dim> outer_;
  Dim inner_;
  std::size_t count_ = 0;
};

}  // namespace sluice::kernels

#endif  // SLUICE_ENGINE_KERNELS_BROADCAST_H_
