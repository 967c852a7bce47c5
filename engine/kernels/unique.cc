// The distinct slices of a tensor: their indices are sorted, equal ones become groups.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <numeric>
#include <type_traits>

#include "engine/kernels/element.h"
#include "engine/kernels/makers.h"

namespace sluice::kernels {
namespace {

// -1, 0 or 1; NaN is above every number and equal to itself.
template <typename T>
int Order(const T& a, const T& b) {
  if constexpr (std::is_same_v<T, Truth>) {
    return static_cast<int>(a.Get()) - static_cast<int>(b.Get());
  } else {
    const auto x = Convert<Wide<T>>(a), y = Convert<Wide<T>>(b);
    if constexpr (!std::is_integral_v<Wide<T>>) {
      if (std::isnan(x) || std::isnan(y)) {
        return static_cast<int>(std::isnan(x)) - static_cast<int>(std::isnan(y));
      }
    }
    return static_cast<int>(y < x) - static_cast<int>(x < y);
  }
}

struct UniqueRun {
  Unique operation;
  std::size_t outer, n, inner, width;
  DataType type;

  // Slices lie across the outer dimensions.
  template <typename T>
  int Compare(const T* x, std::int64_t a, std::int64_t b) const {
    for (std::size_t o = 0; o < outer; ++o) {
      const T* of_a = x + (o * n + static_cast<std::size_t>(a)) * inner;
      const T* of_b = x + (o * n + static_cast<std::size_t>(b)) * inner;
      for (std::size_t i = 0; i < inner; ++i) {
        if (const int order = Order(of_a[i], of_b[i]); order != 0) return order;
      }
    }
    return 0;
  }

  // Indices of slices, sorted; where each group starts among them, and one behind the last; the
  // group of each place in the result, and the place of each group.
  struct Groups {
    std::int64_t *order, *start, *group_at, *place_of;
    std::size_t count = 0;

    std::size_t First(std::size_t group) const {
      return static_cast<std::size_t>(order[static_cast<std::size_t>(start[group])]);
    }
  };

  Groups Grouped(const std::byte* x, std::byte* scratch) const {
    auto* numbers = reinterpret_cast<std::int64_t*>(scratch);
    Groups g{numbers, numbers + n, numbers + 2 * n + 1, numbers + 3 * n + 1};
    std::iota(g.order, g.order + n, std::int64_t{0});
    WithElement(type, [&]<typename T>() {
      const T* elements = reinterpret_cast<const T*>(x);
      std::sort(g.order, g.order + n, [&](std::int64_t a, std::int64_t b) {
        const int order = Compare(elements, a, b);
        return order != 0 ? order < 0 : a < b;
      });
      for (std::size_t i = 0; i < n; ++i) {
        if (i > 0 && Compare(elements, g.order[i - 1], g.order[i]) == 0) continue;
        g.start[g.count++] = static_cast<std::int64_t>(i);
      }
    });
    g.start[g.count] = static_cast<std::int64_t>(n);
    std::iota(g.group_at, g.group_at + g.count, std::int64_t{0});
    if (!operation.sorted) {
      std::sort(g.group_at, g.group_at + g.count, [&](std::int64_t a, std::int64_t b) {
        return g.First(static_cast<std::size_t>(a)) < g.First(static_cast<std::size_t>(b));
      });
    }
    for (std::size_t p = 0; p < g.count; ++p) {
      g.place_of[static_cast<std::size_t>(g.group_at[p])] = static_cast<std::int64_t>(p);
    }
    return g;
  }

  void StoreValues(const Groups& g, const std::byte* x, std::byte* y) const {
    const std::size_t run = inner * width;
    if (n == 0 || run == 0) return;
    for (std::size_t o = 0; o < outer; ++o) {
      for (std::size_t p = 0; p < g.count; ++p) {
        const std::size_t from = g.First(static_cast<std::size_t>(g.group_at[p]));
        std::memcpy(y + (o * n + p) * run, x + (o * n + from) * run, run);
      }
      std::memset(y + (o * n + g.count) * run, 0, (n - g.count) * run);
    }
  }

  void operator()(const std::byte* x, std::byte* output, std::byte* scratch) const {
    const Groups g = Grouped(x, scratch);
    auto* numbers = reinterpret_cast<std::int64_t*>(output);
    if (operation.output == Unique::Output::kValues) return StoreValues(g, x, output);
    if (operation.output == Unique::Output::kCount) {
      numbers[0] = static_cast<std::int64_t>(g.count);
      return;
    }
    if (operation.output == Unique::Output::kInverse) {
      for (std::size_t group = 0; group < g.count; ++group) {
        for (auto i = static_cast<std::size_t>(g.start[group]);
             i < static_cast<std::size_t>(g.start[group + 1]); ++i) {
          numbers[static_cast<std::size_t>(g.order[i])] = g.place_of[group];
        }
      }
      return;
    }
    for (std::size_t p = 0; p < g.count; ++p) {
      const auto group = static_cast<std::size_t>(g.group_at[p]);
      numbers[p] = operation.output == Unique::Output::kFirst
                       ? static_cast<std::int64_t>(g.First(group))
                       : g.start[group + 1] - g.start[group];
    }
    std::fill(numbers + g.count, numbers + n, std::int64_t{0});
  }
};

}  // namespace

absl::StatusOr<Kernel> Make(const Unique& operation, const Problem& problem) {
  const Value& x = problem.input(0);
  UniqueRun run{.operation = operation,
                .outer = 1,
                .n = static_cast<std::size_t>(ElementCount(x.shape)),
                .inner = 1,
                .width = static_cast<std::size_t>(SizeOf(x.type).count()),
                .type = x.type};
  if (operation.axis) {
    const auto axis = static_cast<std::size_t>(*operation.axis);
    run.outer = Product(x.shape, 0, axis);
    run.n = static_cast<std::size_t>(x.shape[axis]);
    run.inner = Product(x.shape, axis + 1, x.shape.size());
  }
  Kernel kernel;
  kernel.name = problem.KernelName("");
  kernel.scratch = Bytes::Of(4 * run.n + 1) * sizeof(std::int64_t);
  kernel.run = [run](std::span<const std::byte* const> inputs, std::byte* output,
                     std::byte* scratch) { run(inputs[0], output, scratch); };
  return kernel;
}

}  // namespace sluice::kernels
