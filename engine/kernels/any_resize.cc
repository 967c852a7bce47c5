#include <algorithm>
#include <array>
#include <cmath>
#include <type_traits>
#include <utility>
#include <vector>

#include "absl/strings/str_format.h"
#include "engine/kernels/element.h"
#include "engine/kernels/parallel.h"
#include "engine/kernels/resize_axis.h"

namespace sluice::kernels {
namespace {

constexpr std::size_t kMostDims = 8;

// Integers lose what is behind the point, but not what is there for want of precision.
template <typename T>
T Stored(double x) {
  if constexpr (std::is_same_v<T, Truth>) {
    return {static_cast<std::uint8_t>(x != 0 ? 1 : 0)};
  } else if constexpr (std::is_integral_v<T>) {
    const double nearest = std::nearbyint(x);
    return Convert<T>(std::fabs(x - nearest) < 1e-3 ? nearest : x);
  } else {
    return Convert<T>(x);
  }
}

struct AnyResizeRun {
  std::vector<ResizeAxis> axes;  // From the first that changes to the last.
  std::size_t outer, inner;      // Elements before and behind them.
  std::size_t in_plane, positions;
  float extrapolation;

  using Index = std::array<std::size_t, kMostDims>;

  template <typename T>
  double Sum(const T* x, const Index& index, std::size_t d, std::size_t at) const {
    if (d == axes.size()) {
      if constexpr (std::is_same_v<T, Truth>) {
        return x[at * inner].Get();
      } else {
        return static_cast<double>(Convert<Wide<T>>(x[at * inner]));
      }
    }
    const ResizeAxis& axis = axes[d];
    double sum = 0;
    for (std::size_t t = 0; t < axis.taps; ++t) {
      const std::size_t tap = t * axis.out + index[d];
      if (axis.weights[tap] == 0) continue;
      sum += static_cast<double>(axis.weights[tap]) *
             Sum(x, index, d + 1, at * axis.in + static_cast<std::size_t>(axis.at[tap]));
    }
    return sum;
  }

  // Where nothing is blended, elements move as they are.
  std::size_t Nearest(const Index& index) const {
    std::size_t at = 0;
    for (std::size_t d = 0; d < axes.size(); ++d) {
      at = at * axes[d].in + static_cast<std::size_t>(axes[d].at[index[d]]);
    }
    return at;
  }

  template <typename T>
  void Run(const T* x, T* y) const {
    const bool moves =
        std::ranges::all_of(axes, [](const ResizeAxis& axis) { return axis.taps == 1; });
    ParallelFor(outer * positions, outer * positions * inner * 8,
                [&](std::size_t begin, std::size_t end) {
                  Index index = {};
                  for (std::size_t item = begin; item < end; ++item) {
                    std::size_t rest = item % positions;
                    bool outside = false;
                    for (std::size_t d = axes.size(); d-- > 0;) {
                      index[d] = rest % axes[d].out;
                      rest /= axes[d].out;
                      outside = outside || axes[d].outside[index[d]];
                    }
                    const T* from = x + item / positions * in_plane;
                    T* to = y + item * inner;
                    if (outside) {
                      std::fill_n(to, inner, Stored<T>(static_cast<double>(extrapolation)));
                    } else if (moves) {
                      std::copy_n(from + Nearest(index) * inner, inner, to);
                    } else {
                      for (std::size_t i = 0; i < inner; ++i)
                        to[i] = Stored<T>(Sum(from + i, index, 0, 0));
                    }
                  }
                });
  }
};

}  // namespace

absl::StatusOr<Kernel> MakeAnyResize(const Resize& operation, const Problem& problem) {
  const Shape &in = problem.input(0).shape, &out = problem.output().shape;
  const DataType type = problem.output().type;
  if (type == DataType::kBool && operation.mode != Resize::Mode::kNearest) {
    return absl::UnimplementedError("resize: booleans are not interpolated");
  }
  const auto changes = [&](std::size_t d) { return !IsIdentity(operation, d, in[d], out[d]); };
  std::size_t begin = 0, end = in.size();
  while (begin < end && !changes(begin)) ++begin;
  while (end > begin && !changes(end - 1)) --end;
  if (end - begin > kMostDims) {
    return absl::UnimplementedError(absl::StrFormat(
        "resize: got %u dimensions that change, want at most %u", end - begin, kMostDims));
  }
  AnyResizeRun run{.axes = {},
                   .outer = Product(out, 0, begin),
                   .inner = Product(out, end, out.size()),
                   .in_plane = Product(in, begin, in.size()),
                   .positions = Product(out, begin, end),
                   .extrapolation = operation.extrapolation};
  for (std::size_t d = begin; d < end; ++d) {
    run.axes.push_back(MakeResizeAxis(operation, d, in[d], out[d]));
  }
  Kernel kernel;
  kernel.name = problem.KernelName("elements");
  kernel.run = [run = std::move(run), type](std::span<const std::byte* const> inputs,
                                            std::byte* output, std::byte*) {
    WithElement(type, [&]<typename T>() {
      run.Run(reinterpret_cast<const T*>(inputs[0]), reinterpret_cast<T*>(output));
    });
  };
  return kernel;
}

}  // namespace sluice::kernels
