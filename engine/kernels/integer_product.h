// engine/kernels/integer_product.h
//
// How the operands of a matrix product of bytes lie in memory.

#ifndef SLUICE_ENGINE_KERNELS_INTEGER_PRODUCT_H_
#define SLUICE_ENGINE_KERNELS_INTEGER_PRODUCT_H_

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "engine/kernels/makers.h"

namespace sluice::kernels {

// Steps are in elements.
struct IntegerProduct {
  std::int64_t rows = 0, columns = 0, depth = 0;
  std::int64_t a_row = 0, a_depth = 0, b_depth = 0, b_column = 0;
  std::vector<std::pair<std::int64_t, std::int64_t>> batches = {};  // Where a and b start.
};

// A kernel that works on tiles (byte_tiles.h); nullopt where the machine has no instructions for
// that, or the operands lie so that it would not pay.
std::optional<Kernel> MakeTiled(const MatMul& operation, const IntegerProduct& product,
                                const Problem& problem);

}  // namespace sluice::kernels

#endif  // SLUICE_ENGINE_KERNELS_INTEGER_PRODUCT_H_
