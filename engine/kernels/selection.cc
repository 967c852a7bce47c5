// What is chosen by contents: places that are not zero, slices that a condition keeps. Results are
// left-aligned in room for the largest; the rest is zero.

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "engine/kernels/element.h"
#include "engine/kernels/makers.h"

namespace sluice::kernels {
namespace {

template <typename T>
bool IsSet(const T& element) {
  if constexpr (std::is_same_v<T, Truth>) {
    return element.byte != 0;
  } else {
    return Convert<Wide<T>>(element) != Wide<T>{};
  }
}

void StoreCount(std::byte* output, std::size_t count) {
  const auto number = static_cast<std::int64_t>(count);
  std::memcpy(output, &number, sizeof(number));
}

// Calls visit(i) with every place that is not zero, in order.
template <typename Visit>
void ForEachSet(DataType type, const std::byte* x, std::size_t n, const Visit& visit) {
  WithElement(type, [&]<typename T>() {
    const T* elements = reinterpret_cast<const T*>(x);
    for (std::size_t i = 0; i < n; ++i) {
      if (IsSet(elements[i])) visit(i);
    }
  });
}

}  // namespace

absl::StatusOr<Kernel> Make(const NonZero& operation, const Problem& problem) {
  const Value& x = problem.input(0);
  Kernel kernel;
  kernel.name = problem.KernelName(operation.count ? "count" : "");
  kernel.run = [shape = x.shape, type = x.type, counts = operation.count,
                n = static_cast<std::size_t>(ElementCount(x.shape))](
                   std::span<const std::byte* const> inputs, std::byte* output, std::byte*) {
    std::size_t count = 0;
    if (counts) {
      ForEachSet(type, inputs[0], n, [&](std::size_t) { ++count; });
      return StoreCount(output, count);
    }
    auto* places = reinterpret_cast<std::int64_t*>(output);
    ForEachSet(type, inputs[0], n, [&](std::size_t i) {
      for (std::size_t d = shape.size(); d-- > 0;) {
        const auto size = static_cast<std::size_t>(shape[d]);
        places[d * n + count] = static_cast<std::int64_t>(i % size);
        i /= size;
      }
      ++count;
    });
    for (std::size_t d = 0; d < shape.size(); ++d) {
      std::fill(places + d * n + count, places + (d + 1) * n, std::int64_t{0});
    }
  };
  return kernel;
}

absl::StatusOr<Kernel> Make(const Compress& operation, const Problem& problem) {
  const Value& x = problem.input(0);
  const std::size_t axis = static_cast<std::size_t>(operation.axis.value_or(0));
  const Shape shape =
      operation.axis ? x.shape : Shape{static_cast<std::int64_t>(ElementCount(x.shape))};
  const auto size = static_cast<std::size_t>(shape[axis]);
  Kernel kernel;
  kernel.name = problem.KernelName(operation.count ? "count" : "");
  kernel.run = [outer = Product(shape, 0, axis), size, counts = operation.count,
                room = std::min(size, static_cast<std::size_t>(problem.input(1).shape[0])),
                run = Product(shape, axis + 1, shape.size()) *
                      static_cast<std::size_t>(SizeOf(x.type).count())](
                   std::span<const std::byte* const> inputs, std::byte* output, std::byte*) {
    std::size_t count = 0;
    if (counts) {
      ForEachSet(DataType::kBool, inputs[1], room, [&](std::size_t) { ++count; });
      return StoreCount(output, count);
    }
    if (room == 0 || run == 0) return;
    for (std::size_t o = 0; o < outer; ++o) {
      std::byte* to = output + o * room * run;
      std::byte* const end = to + room * run;
      ForEachSet(DataType::kBool, inputs[1], room, [&](std::size_t i) {
        std::memcpy(to, inputs[0] + (o * size + i) * run, run);
        to += run;
      });
      std::memset(to, 0, static_cast<std::size_t>(end - to));
    }
  };
  return kernel;
}

}  // namespace sluice::kernels
