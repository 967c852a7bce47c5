#include "engine/dynamic_output.h"

#include <algorithm>
#include <cstring>
#include <span>

namespace sluice {

std::int64_t RealCount(const PortInfo& port, const std::byte* buffer) {
  std::int64_t count = 0;
  std::memcpy(&count, buffer, sizeof(count));
  return std::clamp<std::int64_t>(count, 0, port.shape[port.dynamic->axis]);
}

Shape RealShape(const PortInfo& port, std::int64_t count) {
  Shape shape = port.shape;
  shape[port.dynamic->axis] = count;
  return shape;
}

Bytes CopyReal(const PortInfo& port, std::int64_t count, const std::byte* from, std::byte* to) {
  const std::size_t axis = port.dynamic->axis;
  const std::span<const std::int64_t> shape = port.shape;
  const std::uint64_t rows = ElementCount(shape.first(axis));
  const std::uint64_t entry = TensorBytes(port.type, shape.subspan(axis + 1)).count();
  const std::uint64_t kept = static_cast<std::uint64_t>(count) * entry;
  const std::uint64_t all = static_cast<std::uint64_t>(shape[axis]) * entry;
  if (kept == 0) return {};
  // Forwards: a row never lands behind where it was.
  for (std::uint64_t row = 0; row < rows; ++row) {
    if (to + row * kept != from + row * all) std::memmove(to + row * kept, from + row * all, kept);
  }
  return Bytes::Of(rows * kept);
}

}  // namespace sluice
