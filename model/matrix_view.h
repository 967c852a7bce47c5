// model/matrix_view.h
//
// Where the elements of a matrix product lie in its operands and its result, permutations and
// transpositions included.

#ifndef SLUICE_MODEL_MATRIX_VIEW_H_
#define SLUICE_MODEL_MATRIX_VIEW_H_

#include <cstdint>
#include <span>
#include <vector>

#include "model/data_type.h"
#include "model/product_operations.h"

namespace sluice {

// Batch dimensions, rows and columns of a matrix, and how many elements one step along each of them
// moves on in memory.
struct MatrixView {
  Shape shape;
  std::vector<std::int64_t> strides;
};

// Requires: a permutation of the shape's dimensions or an empty one, and at least two dimensions.
MatrixView ViewOperand(std::span<const std::int64_t> shape, std::span<const std::int64_t> perm,
                       bool transposed);
inline MatrixView ViewA(const MatMul& op, std::span<const std::int64_t> shape) {
  return ViewOperand(shape, op.perm_a, op.transposed_a);
}
inline MatrixView ViewB(const MatMul& op, std::span<const std::int64_t> shape) {
  return ViewOperand(shape, op.perm_b, op.transposed_b);
}
// The product as its output of shape `shape` holds it. Requires: as above.
MatrixView ViewProduct(const MatMul& op, std::span<const std::int64_t> shape);

// Whether it is empty or has each dimension once.
bool IsPermutation(std::span<const std::int64_t> perm, std::size_t rank);

}  // namespace sluice

#endif  // SLUICE_MODEL_MATRIX_VIEW_H_
