// The largest or smallest elements of rows, or where they lie.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numeric>
#include <type_traits>

#include "engine/kernels/element.h"
#include "engine/kernels/makers.h"
#include "engine/kernels/parallel.h"

namespace sluice::kernels {
namespace {

// An order of all values: NaN is above every number.
template <typename T>
bool Below(T a, T b) {
  if constexpr (std::is_floating_point_v<T>) {
    if (std::isnan(b)) return !std::isnan(a);
  }
  return a < b;
}

struct TopKRun {
  TopK operation;
  std::size_t outer, size, inner, k, team;
  DataType type;

  // Row `row` of x, whose elements lie `inner` apart: the first k of an order of its indices.
  template <typename T>
  void Row(const T* x, std::size_t row, std::int64_t* order, std::byte* output) const {
    const std::size_t o = row / inner, i = row % inner;
    const auto at = [&](std::int64_t index) {
      const T& element = x[(o * size + static_cast<std::size_t>(index)) * inner + i];
      if constexpr (std::is_same_v<T, Truth>) {
        return element.Get();
      } else {
        return Convert<Wide<T>>(element);
      }
    };
    const auto before = [&](std::int64_t a, std::int64_t b) {
      const auto of_a = at(a), of_b = at(b);
      if (Below(of_a, of_b)) return !operation.largest;
      if (Below(of_b, of_a)) return operation.largest;
      return a < b;
    };
    std::iota(order, order + size, std::int64_t{0});
    std::nth_element(order, order + (k - 1), order + size, before);
    std::sort(order, order + k, before);
    for (std::size_t n = 0; n < k; ++n) {
      const std::size_t to = (o * k + n) * inner + i;
      if (operation.indices) {
        reinterpret_cast<std::int64_t*>(output)[to] = order[n];
      } else {
        reinterpret_cast<T*>(output)[to] =
            x[(o * size + static_cast<std::size_t>(order[n])) * inner + i];
      }
    }
  }

  void operator()(const std::byte* x, std::byte* output, std::byte* scratch) const {
    if (k == 0) return;
    WithElement(type, [&]<typename T>() {
      const auto part = [&](std::size_t begin, std::size_t end, std::size_t worker) {
        auto* order = reinterpret_cast<std::int64_t*>(scratch) + worker * size;
        for (std::size_t row = begin; row < end; ++row) {
          Row(reinterpret_cast<const T*>(x), row, order, output);
        }
      };
      ParallelForWorkers(outer * inner, outer * inner * size, team, part);
    });
  }
};

}  // namespace

absl::StatusOr<Kernel> Make(const TopK& operation, const Problem& problem) {
  const Shape& x = problem.input(0).shape;
  const auto axis = static_cast<std::size_t>(operation.axis);
  const TopKRun run{.operation = operation,
                    .outer = Product(x, 0, axis),
                    .size = static_cast<std::size_t>(x[axis]),
                    .inner = Product(x, axis + 1, x.size()),
                    .k = static_cast<std::size_t>(problem.output().shape[axis]),
                    .team = TeamSize(),
                    .type = problem.input(0).type};
  Kernel kernel;
  kernel.name = problem.KernelName("");
  kernel.scratch = Bytes::Of(run.team) * (run.size * sizeof(std::int64_t));
  kernel.run = [run](std::span<const std::byte* const> inputs, std::byte* output,
                     std::byte* scratch) { run(inputs[0], output, scratch); };
  return kernel;
}

}  // namespace sluice::kernels
