// engine/reference/tensor.h
//
// A row-major tensor in borrowed memory, and the few index rules that every definition needs.

#ifndef SLUICE_ENGINE_REFERENCE_TENSOR_H_
#define SLUICE_ENGINE_REFERENCE_TENSOR_H_

#include <cstddef>
#include <cstdint>
#include <span>

#include "model/data_type.h"

namespace sluice::reference {

// An operand. `data` is null when an optional one is absent.
struct Tensor {
  DataType type = DataType::kFloat32;
  std::span<const std::int64_t> shape;
  const std::byte* data = nullptr;

  bool present() const { return data != nullptr; }
  std::size_t rank() const { return shape.size(); }
  std::int64_t count() const { return static_cast<std::int64_t>(ElementCount(shape)); }
  // Requires: elements of that type.
  template <typename T>
  const T* as() const {
    return reinterpret_cast<const T*>(data);
  }
  const float* floats() const { return as<float>(); }
};

// What an operation fills.
struct Result {
  DataType type = DataType::kFloat32;
  std::span<const std::int64_t> shape;
  std::byte* data = nullptr;

  std::size_t rank() const { return shape.size(); }
  std::int64_t count() const { return static_cast<std::int64_t>(ElementCount(shape)); }
  template <typename T>
  T* as() const {
    return reinterpret_cast<T*>(data);
  }
  float* floats() const { return as<float>(); }
};

// Calls visit(index) for every index of `shape` in row-major order.
template <typename Visit>
void ForEachIndex(std::span<const std::int64_t> shape, const Visit& visit) {
  if (ElementCount(shape) == 0) return;
  Shape index(shape.size(), 0);
  while (true) {
    visit(index);
    std::size_t d = shape.size();
    while (d > 0 && ++index[d - 1] == shape[d - 1]) index[--d] = 0;
    if (d == 0) return;
  }
}

// Where `index` of a tensor of that shape lies, in elements.
inline std::int64_t Offset(std::span<const std::int64_t> shape, const Shape& index) {
  std::int64_t offset = 0;
  for (std::size_t d = 0; d < shape.size(); ++d) offset = offset * shape[d] + index[d];
  return offset;
}

// The same where `index` belongs to a result that `shape` was broadcast to: dimensions are aligned
// at the innermost, and those of size 1 repeat.
inline std::int64_t BroadcastOffset(std::span<const std::int64_t> shape, const Shape& index) {
  const std::size_t missing = index.size() - shape.size();
  std::int64_t offset = 0;
  for (std::size_t d = 0; d < shape.size(); ++d) {
    offset = offset * shape[d] + (shape[d] == 1 ? 0 : index[missing + d]);
  }
  return offset;
}

}  // namespace sluice::reference

#endif  // SLUICE_ENGINE_REFERENCE_TENSOR_H_
