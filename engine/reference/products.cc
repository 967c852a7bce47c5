#include <cstdint>
#include <span>

#include "engine/reference/definitions.h"
#include "model/matrix_view.h"

namespace sluice::reference {

void Define(const FullyConnected& operation, Operands inputs, const Result& y) {
  const Tensor &a = inputs[0], &b = inputs[1];
  const std::int64_t depth = a.shape.back(), columns = y.shape.back();
  const std::int64_t rows = columns == 0 ? 0 : y.count() / columns;
  const bool has_bias = inputs.size() > 2 && inputs[2].present();
  const bool has_scale = inputs.size() > 3 && inputs[3].present();
  for (std::int64_t row = 0; row < rows; ++row) {
    for (std::int64_t column = 0; column < columns; ++column) {
      double sum = 0;
      for (std::int64_t k = 0; k < depth; ++k) {
        const std::int64_t at = operation.transposed_b ? column * depth + k : k * columns + column;
        sum += double{a.floats()[row * depth + k]} * b.floats()[at];
      }
      const double value = sum * (has_scale ? inputs[3].floats()[column] : 1.0f) +
                           (has_bias ? inputs[2].floats()[column] : 0.0f);
      const std::int64_t position = row * columns + column;
      y.floats()[position] =
          static_cast<float>(Apply(operation.epilogues, inputs, position, value));
    }
  }
}

void Define(const MatMul& operation, Operands inputs, const Result& y) {
  const MatrixView a = ViewA(operation, inputs[0].shape), b = ViewB(operation, inputs[1].shape);
  const MatrixView out = ViewProduct(operation, y.shape);
  const auto batch = [](const Shape& shape) { return std::span(shape).first(shape.size() - 2); };
  // Where (row, column) of the matrix that belongs to a batch of the result lies.
  const auto at = [&](const MatrixView& view, const Shape& index, std::int64_t row,
                      std::int64_t column) {
    const std::size_t rank = view.shape.size(), missing = index.size() + 2 - rank;
    std::int64_t offset = row * view.strides[rank - 2] + column * view.strides[rank - 1];
    for (std::size_t d = 0; d + 2 < rank; ++d) {
      offset += view.shape[d] == 1 ? 0 : index[missing + d] * view.strides[d];
    }
    return offset;
  };
  const std::int64_t depth = a.shape.back();
  ForEachIndex(batch(out.shape), [&](const Shape& index) {
    for (std::int64_t row = 0; row < out.shape[out.shape.size() - 2]; ++row) {
      for (std::int64_t column = 0; column < out.shape.back(); ++column) {
        double sum = 0;
        for (std::int64_t k = 0; k < depth; ++k) {
          sum += double{inputs[0].floats()[at(a, index, row, k)]} *
                 inputs[1].floats()[at(b, index, k, column)];
        }
        y.floats()[at(out, index, row, column)] = static_cast<float>(sum * operation.alpha);
      }
    }
  });
}

}  // namespace sluice::reference
