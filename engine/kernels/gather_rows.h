// engine/kernels/gather_rows.h
//
// A gather of rows from a table of which only a part is at hand: a table too large for a place in
// memory is read part by part, and each part serves the indices that lie in it.
//
// Threads: as kernel.h.

#ifndef SLUICE_ENGINE_KERNELS_GATHER_ROWS_H_
#define SLUICE_ENGINE_KERNELS_GATHER_ROWS_H_

#include <cstddef>
#include <cstdint>

#include "engine/kernels/kernel.h"

namespace sluice {

struct GatherRows {
  std::int64_t table_rows = 0;        // Of the whole table; indices below 0 count from its end.
  std::int64_t first = 0, count = 0;  // Rows [first, first + count) are at hand.
  std::size_t row_bytes = 0;
  std::size_t indices = 0;
  bool wide = true;  // Indices are kInt64, otherwise kInt32.
};

// Inputs: the rows at hand, the indices. Writes those rows of the output whose index lies in the
// part, and no others; the part with the first row also writes zeros for indices out of range.
Kernel MakeGatherRows(const GatherRows& part);

}  // namespace sluice

#endif  // SLUICE_ENGINE_KERNELS_GATHER_ROWS_H_
