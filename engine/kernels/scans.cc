// Operations that follow one dimension: where its largest element lies, and sums up to each one.

#include <cstdint>
#include <type_traits>

#include "absl/strings/str_format.h"
#include "engine/kernels/element.h"
#include "engine/kernels/makers.h"
#include "engine/kernels/parallel.h"

namespace sluice::kernels {
namespace {

// A tensor as lines of n elements, `inner` apart.
struct Lines {
  std::size_t outer, n, inner;

  std::size_t count() const { return outer * inner; }
  std::size_t StartOf(std::size_t line) const { return line / inner * n * inner + line % inner; }
};

Lines LinesOf(const Shape& shape, std::int64_t axis) {
  const auto at = static_cast<std::size_t>(axis);
  return {Product(shape, 0, at), static_cast<std::size_t>(shape[at]),
          Product(shape, at + 1, shape.size())};
}

// An element as a number that compares.
template <typename T>
auto Number(T x) {
  if constexpr (kIsShort<T> || std::is_same_v<T, Truth>) {
    return x.Get();
  } else {
    return x;
  }
}

// A NaN is larger, and smaller, than any number.
template <typename N>
bool Beats(N x, N best, bool smallest) {
  if (x != x) return best == best;
  return smallest ? x < best : x > best;
}

// Requires: n > 0.
template <typename T>
std::size_t Extreme(const T* x, const Lines& lines, const ArgReduce& operation) {
  const bool smallest = operation.kind == ArgReduce::Kind::kMin;
  std::size_t at = 0;
  auto best = Number(x[0]);
  for (std::size_t i = 1; i < lines.n; ++i) {
    const auto v = Number(x[i * lines.inner]);
    const bool ties = operation.last && (v == best || (v != v && best != best));
    if (!ties && !Beats(v, best, smallest)) continue;
    best = v;
    at = i;
  }
  return at;
}

using ArgLoop = void (*)(const Lines& lines, const ArgReduce& operation, const std::byte* x,
                         std::int64_t* y, std::size_t begin, std::size_t end);

template <typename T>
void ArgLines(const Lines& lines, const ArgReduce& operation, const std::byte* x, std::int64_t* y,
              std::size_t begin, std::size_t end) {
  for (std::size_t line = begin; line < end; ++line) {
    y[line] = static_cast<std::int64_t>(
        Extreme(reinterpret_cast<const T*>(x) + lines.StartOf(line), lines, operation));
  }
}

template <typename T>
void HardmaxLine(const T* x, T* y, const Lines& lines) {
  const std::size_t largest = Extreme(x, lines, {});
  for (std::size_t i = 0; i < lines.n; ++i) y[i * lines.inner] = i == largest ? T{1} : T{0};
}

using SumLoop = void (*)(const Lines& lines, const CumulativeSum& operation, const std::byte* x,
                         std::byte* y, std::size_t begin, std::size_t end);

template <typename T>
void SumLines(const Lines& lines, const CumulativeSum& operation, const std::byte* x, std::byte* y,
              std::size_t begin, std::size_t end) {
  // Integers wrap around.
  using Sum = std::conditional_t<std::is_floating_point_v<T>, T,
                                 std::conditional_t<sizeof(T) <= 4, std::uint32_t, std::uint64_t>>;
  for (std::size_t line = begin; line < end; ++line) {
    const T* from = reinterpret_cast<const T*>(x) + lines.StartOf(line);
    T* to = reinterpret_cast<T*>(y) + lines.StartOf(line);
    Sum sum{};
    for (std::size_t i = 0; i < lines.n; ++i) {
      const std::size_t at = (operation.reverse ? lines.n - 1 - i : i) * lines.inner;
      const Sum before = sum;
      sum += static_cast<Sum>(from[at]);
      to[at] = static_cast<T>(operation.exclusive ? before : sum);
    }
  }
}

}  // namespace

absl::StatusOr<Kernel> Make(const ArgReduce& operation, const Problem& problem) {
  const Value& x = problem.input(0);
  const auto loop = WithElement(x.type, []<typename T>() -> ArgLoop { return &ArgLines<T>; });
  Kernel kernel;
  kernel.name = problem.KernelName("");
  kernel.run = [loop, operation, lines = LinesOf(x.shape, operation.axis)](
                   std::span<const std::byte* const> inputs, std::byte* output, std::byte*) {
    if (lines.n == 0) return;
    ParallelFor(lines.count(), lines.count() * lines.n, [&](std::size_t begin, std::size_t end) {
      loop(lines, operation, inputs[0], reinterpret_cast<std::int64_t*>(output), begin, end);
    });
  };
  return kernel;
}

absl::StatusOr<Kernel> Make(const Hardmax& operation, const Problem& problem) {
  const DataType type = problem.output().type;
  if (type != DataType::kFloat64) {
    if (absl::Status floats = WantType(problem, DataType::kFloat32); !floats.ok()) return floats;
  }
  Kernel kernel;
  kernel.name = problem.KernelName("");
  kernel.run = [lines = LinesOf(problem.output().shape, operation.axis),
                wide = type == DataType::kFloat64](std::span<const std::byte* const> inputs,
                                                   std::byte* output, std::byte*) {
    if (lines.n == 0) return;
    ParallelFor(lines.count(), lines.count() * lines.n, [&](std::size_t begin, std::size_t end) {
      for (std::size_t line = begin; line < end; ++line) {
        const std::size_t at = lines.StartOf(line);
        if (wide) {
          HardmaxLine(reinterpret_cast<const double*>(inputs[0]) + at,
                      reinterpret_cast<double*>(output) + at, lines);
        } else {
          HardmaxLine(Floats(inputs[0]) + at, Floats(output) + at, lines);
        }
      }
    });
  };
  return kernel;
}

absl::StatusOr<Kernel> Make(const CumulativeSum& operation, const Problem& problem) {
  const auto loop = WithElement(problem.output().type, []<typename T>() -> SumLoop {
    if constexpr (std::is_arithmetic_v<T>) {
      return &SumLines<T>;
    } else {
      return nullptr;
    }
  });
  if (loop == nullptr) {
    return absl::UnimplementedError(absl::StrFormat("%s: no kernel for element type %s",
                                                    Name(problem.node.operation),
                                                    ProtocolName(problem.output().type)));
  }
  Kernel kernel;
  kernel.name = problem.KernelName("");
  kernel.in_place_0 = true;
  kernel.run = [loop, operation, lines = LinesOf(problem.output().shape, operation.axis)](
                   std::span<const std::byte* const> inputs, std::byte* output, std::byte*) {
    ParallelFor(lines.count(), lines.count() * lines.n, [&](std::size_t begin, std::size_t end) {
      loop(lines, operation, inputs[0], output, begin, end);
    });
  };
  return kernel;
}

}  // namespace sluice::kernels
