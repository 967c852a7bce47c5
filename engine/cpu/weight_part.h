// engine/cpu/weight_part.h
//
// One tensor of a step's weights: which window of a constant it is, and where each element of the
// window goes. Every layout in use places an element at the sum of one term for each dimension, so
// a part is a matrix of (row, column) with one term for each row and one for each column:
//
//   packed[row_term(r) + column_term(c)] = constant[first_row + r][first_column + c] * scale
//
// Blocked layouts are sums of the same kind: term(i) = i / b * outer + i % b * inner.

#ifndef SLUICE_ENGINE_CPU_WEIGHT_PART_H_
#define SLUICE_ENGINE_CPU_WEIGHT_PART_H_

#include <cstdint>
#include <memory>
#include <oneapi/dnnl/dnnl.hpp>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "base/bytes.h"
#include "model/constant.h"

namespace sluice {

// Positions along one dimension of a packed tensor, in elements.
struct Placement {
  struct Block {
    std::int64_t count;
    std::int64_t stride;
  };
  std::int64_t outer_stride = 0;
  std::vector<Block> inner = {};  // Outermost first.

  std::int64_t Term(std::int64_t index) const;
};

// How `desc` places its dimension `dim`.
Placement PlacementOf(const dnnl::memory::desc& desc, std::size_t dim);

// A dimension of the constant, in file order.
struct Factor {
  std::int64_t count = 1;
  Placement placement = {};
  std::int64_t scale_stride = 0;  // What one step adds to the index of the scale.
};

struct Axis {
  std::vector<Factor> factors = {};  // Outermost first; their counts multiply to `count`.
  std::int64_t first = 0;            // Window in the constant.
  std::int64_t count = 1;
};

struct WeightPart {
  std::shared_ptr<const Constant> source = nullptr;
  Bytes element = Bytes::Of(4);  // Only a part without axes may have another size than 4.
  Bytes offset = {};             // In the weights of its step.
  Bytes size = {};               // Packed.
  Bytes source_first = {};       // Without axes: where in the constant the bytes begin.
  // Without axes bytes are copied as they are. `columns` is what lies side by side in the constant;
  // a row of it has `row_length` elements.
  std::vector<Axis> axes = {};  // Empty, or rows and columns.
  std::int64_t row_length = 0;
  std::shared_ptr<const Constant> scale = nullptr;  // May be null.
  std::int64_t scale_first = 0;
};

// Bytes that PackPart takes for itself, beside `into`.
Bytes PackMemory(const WeightPart& part);

// Writes the part. Requires: `into` is zero and has the part's size. Fails: DATA_LOSS.
absl::Status PackPart(const WeightPart& part, std::span<std::byte> into);

}  // namespace sluice

#endif  // SLUICE_ENGINE_CPU_WEIGHT_PART_H_
