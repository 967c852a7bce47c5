// Conversion between all element types.

#include "engine/kernels/makers.h"
#include "engine/kernels/parallel.h"
#include "model/element_cast.h"

namespace sluice::kernels {

absl::StatusOr<Kernel> Make(const Cast&, const Problem& problem) {
  const DataType from = problem.input(0).type, to = problem.output().type;
  Kernel kernel;
  kernel.name = problem.KernelName("");
  kernel.run = [loop = CastLoopFor(from, to), n = problem.count(),
                from_size = static_cast<std::size_t>(SizeOf(from).count()),
                to_size = static_cast<std::size_t>(SizeOf(to).count())](
                   std::span<const std::byte* const> inputs, std::byte* output, std::byte*) {
    ParallelFor(n, n, [&](std::size_t begin, std::size_t end) {
      loop(inputs[0] + begin * from_size, output + begin * to_size, end - begin);
    });
  };
  return kernel;
}

}  // namespace sluice::kernels
