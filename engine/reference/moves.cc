#include <cstdint>
#include <cstring>

#include "engine/reference/definitions.h"
#include "engine/reference/element.h"

namespace sluice::reference {
namespace {

// Fills y, in row-major order, with the elements of x at source(index), or with `otherwise` where
// that is negative.
template <typename Source>
void Move(const Tensor& x, const Result& y, const std::byte* otherwise, const Source& source) {
  const auto size = static_cast<std::int64_t>(SizeOf(y.type).count());
  std::byte* to = y.data;
  ForEachIndex(y.shape, [&](const Shape& index) {
    const std::int64_t at = source(index);
    std::memcpy(to, at < 0 ? otherwise : x.data + at * size, static_cast<std::size_t>(size));
    to += size;
  });
}

constexpr std::byte kZeros[8] = {};

// The position in [0, size) that `i` in the padded dimension shows; -1 for a constant.
std::int64_t Unpadded(std::int64_t i, std::int64_t size, Pad::Mode mode) {
  if (i >= 0 && i < size) return i;
  if (mode == Pad::Mode::kConstant || size == 0) return -1;
  if (mode == Pad::Mode::kWrap) return (i % size + size) % size;
  if (mode == Pad::Mode::kEdge || size == 1) return i < 0 ? 0 : size - 1;
  const std::int64_t period = 2 * (size - 1);
  const std::int64_t phase = (i % period + period) % period;
  return phase < size ? phase : period - phase;
}

}  // namespace

void Define(const Concat& operation, Operands inputs, const Result& y) {
  const auto axis = static_cast<std::size_t>(operation.axis);
  const auto size = SizeOf(y.type).count();
  std::int64_t start = 0;
  for (const Tensor& part : inputs) {
    std::int64_t from = 0;
    ForEachIndex(part.shape, [&](const Shape& index) {
      Shape to = index;
      to[axis] += start;
      std::memcpy(y.data + static_cast<std::size_t>(Offset(y.shape, to)) * size,
                  part.data + static_cast<std::size_t>(from++) * size, size);
    });
    start += part.shape[axis];
  }
}

void Define(const Transpose& operation, Operands inputs, const Result& y) {
  Shape from(y.rank());
  Move(inputs[0], y, kZeros, [&](const Shape& index) {
    for (std::size_t d = 0; d < y.rank(); ++d) {
      from[static_cast<std::size_t>(operation.perm[d])] = index[d];
    }
    return Offset(inputs[0].shape, from);
  });
}

void Define(const Reshape&, Operands inputs, const Result& y) {
  const std::size_t size = TensorBytes(y.type, y.shape).count();
  if (size > 0) std::memcpy(y.data, inputs[0].data, size);
}

void Define(const Slice& operation, Operands inputs, const Result& y) {
  Shape from(y.rank());
  Move(inputs[0], y, kZeros, [&](const Shape& index) {
    for (std::size_t d = 0; d < y.rank(); ++d) {
      from[d] = operation.starts[d] + index[d] * operation.steps[d];
    }
    return Offset(inputs[0].shape, from);
  });
}

void Define(const Pad& operation, Operands inputs, const Result& y) {
  std::byte value[8] = {};
  WithElementType(y.type, [&]<typename T>() {
    const T element = Convert<T>(operation.value);
    std::memcpy(value, &element, sizeof(element));
  });
  if (inputs.size() > 1 && inputs[1].data != nullptr) {
    std::memcpy(value, inputs[1].data, static_cast<std::size_t>(SizeOf(y.type).count()));
  }
  Shape from(y.rank());
  Move(inputs[0], y, value, [&](const Shape& index) {
    for (std::size_t d = 0; d < y.rank(); ++d) {
      from[d] = Unpadded(index[d] - operation.begin[d], inputs[0].shape[d], operation.mode);
      if (from[d] < 0) return std::int64_t{-1};
    }
    return Offset(inputs[0].shape, from);
  });
}

void Define(const Gather& operation, Operands inputs, const Result& y) {
  const Tensor &x = inputs[0], &indices = inputs[1];
  const auto axis = static_cast<std::size_t>(operation.axis);
  Shape from(x.rank());
  Move(x, y, kZeros, [&](const Shape& index) {
    const Shape at(index.begin() + operation.axis,
                   index.begin() + operation.axis + static_cast<std::ptrdiff_t>(indices.rank()));
    const std::int64_t offset = Offset(indices.shape, at);
    std::int64_t chosen = indices.type == DataType::kInt64 ? indices.as<std::int64_t>()[offset]
                                                           : indices.as<std::int32_t>()[offset];
    if (chosen < 0) chosen += x.shape[axis];
    if (chosen < 0 || chosen >= x.shape[axis]) return std::int64_t{-1};
    for (std::size_t d = 0; d < x.rank(); ++d) {
      from[d] = d < axis ? index[d] : d == axis ? chosen : index[d + indices.rank() - 1];
    }
    return Offset(x.shape, from);
  });
}

void Define(const Expand&, Operands inputs, const Result& y) {
  Move(inputs[0], y, kZeros,
       [&](const Shape& index) { return BroadcastOffset(inputs[0].shape, index); });
}

}  // namespace sluice::reference
