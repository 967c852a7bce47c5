// engine/kernels/typed_products.h
//
// Matrix products in element types that have no panels of their own: plain loops.

#ifndef SLUICE_ENGINE_KERNELS_TYPED_PRODUCTS_H_
#define SLUICE_ENGINE_KERNELS_TYPED_PRODUCTS_H_

#include <cstddef>
#include <vector>

#include "engine/kernels/makers.h"

namespace sluice::kernels {

// Products of pairs of matrices, [rows, depth] and [depth, columns].
struct ProductPlan {
  // Where the matrices of one product start.
  struct Batch {
    std::size_t a, b, c;
  };
  std::size_t rows, columns, depth;
  std::vector<Batch> batches;
  std::ptrdiff_t a_row, a_depth, b_depth, b_column, c_row;  // Strides in elements.
  float alpha;
};

// Inputs: a, b; of a FullyConnected then its bias and scale. Integers wrap around.
// Fails: UNIMPLEMENTED, a type without products, or integers times alpha or a scale.
absl::StatusOr<Kernel> MakeTypedProduct(ProductPlan plan, const Problem& problem);

}  // namespace sluice::kernels

#endif  // SLUICE_ENGINE_KERNELS_TYPED_PRODUCTS_H_
