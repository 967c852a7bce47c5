// model/product_operations.h
//
// Matrix products.
//
// See model/operation.h for what all of these share.

#ifndef SLUICE_MODEL_PRODUCT_OPERATIONS_H_
#define SLUICE_MODEL_PRODUCT_OPERATIONS_H_

#include <cstdint>
#include <vector>

#include "model/elementwise_operations.h"

namespace sluice {

// Inputs: a [..., K] (leading dimensions are rows), c: b, c: bias [N] (may be absent), c: weight
// scale [N] (may be absent), then whatever epilogues name. b is [K, N], or [N, K] when
// transposed_b. The output is a's leading dimensions and N. Bias and scale already contain alpha
// and beta.
struct FullyConnected {
  bool transposed_b = false;
  std::vector<Epilogue> epilogues;
};

// Inputs: a [..., M, K], b [..., K, N], batch dimensions broadcast. 1-D operands were reshaped by
// the importer. A permutation that is not empty says that the operand is Transpose{perm} of the
// input, and the output Transpose{perm_y} of the product, whose columns stay last: attention splits
// and joins its heads so.
struct MatMul {
  bool transposed_a = false;
  bool transposed_b = false;
  float alpha = 1;
  std::vector<std::int64_t> perm_a = {}, perm_b = {}, perm_y = {};
};

// Inputs: x [..., M, M]; the output is x's leading dimensions.
struct Determinant {};

}  // namespace sluice

#endif  // SLUICE_MODEL_PRODUCT_OPERATIONS_H_
