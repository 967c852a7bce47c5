#include "engine/kernels/gather_rows.h"

#include <cstring>

#include "engine/kernels/parallel.h"

namespace sluice {
namespace {

void Run(const GatherRows& part, std::span<const std::byte* const> inputs, std::byte* output,
         std::size_t begin, std::size_t end) {
  for (std::size_t i = begin; i < end; ++i) {
    std::int64_t index = part.wide ? reinterpret_cast<const std::int64_t*>(inputs[1])[i]
                                   : reinterpret_cast<const std::int32_t*>(inputs[1])[i];
    if (index < 0) index += part.table_rows;
    std::byte* row = output + i * part.row_bytes;
    if (index >= part.first && index - part.first < part.count) {
      const auto at = static_cast<std::size_t>(index - part.first);
      std::memcpy(row, inputs[0] + at * part.row_bytes, part.row_bytes);
    } else if (part.first == 0 && (index < 0 || index >= part.table_rows)) {
      std::memset(row, 0, part.row_bytes);
    }
  }
}

}  // namespace

Kernel MakeGatherRows(const GatherRows& part) {
  Kernel kernel;
  kernel.name = "gather rows";
  kernel.run = [part](std::span<const std::byte* const> inputs, std::byte* output, std::byte*) {
    if (part.row_bytes == 0) return;
    kernels::ParallelFor(
        part.indices, part.indices * part.row_bytes,
        [&](std::size_t begin, std::size_t end) { Run(part, inputs, output, begin, end); });
  };
  return kernel;
}

}  // namespace sluice
