#include "model/matrix_view.h"

#include <utility>

namespace sluice {
namespace {

std::vector<std::int64_t> RowMajorStrides(std::span<const std::int64_t> shape) {
  std::vector<std::int64_t> strides(shape.size(), 1);
  for (std::size_t d = shape.size(); d-- > 1;) strides[d - 1] = strides[d] * shape[d];
  return strides;
}

}  // namespace

MatrixView ViewOperand(std::span<const std::int64_t> shape, std::span<const std::int64_t> perm,
                       bool transposed) {
  const std::vector<std::int64_t> strides = RowMajorStrides(shape);
  MatrixView view{Shape(shape.begin(), shape.end()), strides};
  for (std::size_t d = 0; d < perm.size(); ++d) {
    view.shape[d] = shape[static_cast<std::size_t>(perm[d])];
    view.strides[d] = strides[static_cast<std::size_t>(perm[d])];
  }
  if (transposed) {
    const std::size_t last = shape.size() - 1;
    std::swap(view.shape[last - 1], view.shape[last]);
    std::swap(view.strides[last - 1], view.strides[last]);
  }
  return view;
}

MatrixView ViewProduct(const MatMul& op, std::span<const std::int64_t> shape) {
  const std::vector<std::int64_t> strides = RowMajorStrides(shape);
  MatrixView view{Shape(shape.begin(), shape.end()), strides};
  for (std::size_t d = 0; d < op.perm_y.size(); ++d) {
    view.shape[static_cast<std::size_t>(op.perm_y[d])] = shape[d];
    view.strides[static_cast<std::size_t>(op.perm_y[d])] = strides[d];
  }
  return view;
}

bool IsPermutation(std::span<const std::int64_t> perm, std::size_t rank) {
  if (perm.empty()) return true;
  std::vector<bool> seen(rank, false);
  for (const std::int64_t d : perm) {
    if (d < 0 || static_cast<std::size_t>(d) >= rank || seen[static_cast<std::size_t>(d)]) {
      return false;
    }
    seen[static_cast<std::size_t>(d)] = true;
  }
  return perm.size() == rank;
}

}  // namespace sluice
