#include <cstdint>

#include "engine/reference/definitions.h"

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
  const Tensor &a = inputs[0], &b = inputs[1];
  const std::int64_t rows = y.shape[y.rank() - 2], columns = y.shape[y.rank() - 1];
  const std::int64_t depth = a.shape[a.rank() - (operation.transposed_a ? 2 : 1)];
  const auto batch = [](std::span<const std::int64_t> shape) {
    return shape.first(shape.size() - 2);
  };
  float* out = y.floats();
  ForEachIndex(batch(y.shape), [&](const Shape& index) {
    const float* left = a.floats() + BroadcastOffset(batch(a.shape), index) * rows * depth;
    const float* right = b.floats() + BroadcastOffset(batch(b.shape), index) * depth * columns;
    for (std::int64_t row = 0; row < rows; ++row) {
      for (std::int64_t column = 0; column < columns; ++column) {
        double sum = 0;
        for (std::int64_t k = 0; k < depth; ++k) {
          const std::int64_t at_a = operation.transposed_a ? k * rows + row : row * depth + k;
          const std::int64_t at_b =
              operation.transposed_b ? column * depth + k : k * columns + column;
          sum += double{left[at_a]} * right[at_b];
        }
        *out++ = static_cast<float>(sum * operation.alpha);
      }
    }
  });
}

}  // namespace sluice::reference
