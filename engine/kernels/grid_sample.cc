// Samples images where a grid says, in one to three spatial dimensions.

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <type_traits>

#include "absl/strings/str_format.h"
#include "base/status_macros.h"
#include "engine/kernels/element.h"
#include "engine/kernels/makers.h"
#include "engine/kernels/parallel.h"

namespace sluice::kernels {
namespace {

constexpr std::size_t kMostDims = 3, kMostTaps = 4;

// The positions along one dimension that a sample takes, and how much of each; nothing of those
// outside.
template <typename F>
struct Taps {
  std::array<std::int64_t, kMostTaps> at = {};
  std::array<F, kMostTaps> weights = {};
  std::size_t count = 0;
};

template <typename F>
F Mirrored(F x, F low, F high) {
  const F span = high - low;
  if (!(span > 0)) return 0;
  const F from = std::fabs(x - low), turns = std::floor(from / span);
  const F left = from - turns * span;
  return std::fmod(turns, F{2}) == 0 ? low + left : high - left;
}

struct GridSampleRun {
  GridSample operation;
  std::size_t dims, images, channels, samples, plane;
  std::array<std::int64_t, kMostDims> sizes = {};  // Of the image, outermost first.

  template <typename F>
  F Padded(F x, std::int64_t size) const {
    const F last = static_cast<F>(size - 1);
    if (operation.padding == GridSample::Padding::kBorder) return std::clamp(x, F{0}, last);
    if (operation.padding == GridSample::Padding::kReflection) {
      const F half = operation.align_corners ? F{0} : F{0.5};
      return std::clamp(Mirrored(x, -half, last + half), F{0}, last);
    }
    return x;
  }

  // From the grid's -1 to 1 to pixels, and from there to the positions around.
  template <typename F>
  Taps<F> TapsAt(F place, std::int64_t size) const {
    const F n = static_cast<F>(size);
    F x = operation.align_corners ? (place + 1) / 2 * (n - 1) : ((place + 1) * n - 1) / 2;
    Taps<F> taps;
    // What is no number, or far beyond any image, shows nothing or the edge.
    if (!(std::fabs(x) < F{1e9})) x = x > 0 ? F{1e9} : F{-1e9};
    if (operation.mode == GridSample::Mode::kCubic) {
      const F below = std::floor(x), t = x - below;
      constexpr F a = F{-0.75};
      const auto near = [](F d) { return ((a + 2) * d - (a + 3)) * d * d + 1; };
      const auto far = [](F d) { return ((a * d - 5 * a) * d + 8 * a) * d - 4 * a; };
      taps.weights = {far(1 + t), near(t), near(1 - t), far(2 - t)};
      taps.count = 4;
      for (std::size_t k = 0; k < 4; ++k) {
        taps.at[k] = static_cast<std::int64_t>(Padded(below - 1 + static_cast<F>(k), size));
      }
    } else {
      x = Padded(x, size);
      if (operation.mode == GridSample::Mode::kNearest) {
        taps.at[0] = static_cast<std::int64_t>(std::nearbyint(x));
        taps.weights[0] = 1;
        taps.count = 1;
      } else {
        const F below = std::floor(x);
        taps.at[0] = static_cast<std::int64_t>(below);
        taps.at[1] = taps.at[0] + 1;
        taps.weights[1] = x - below;
        taps.weights[0] = 1 - taps.weights[1];
        taps.count = 2;
      }
    }
    for (std::size_t k = 0; k < taps.count; ++k) {
      if (taps.at[k] >= 0 && taps.at[k] < size) continue;
      taps.at[k] = 0;
      taps.weights[k] = 0;
    }
    return taps;
  }

  template <typename T, typename F>
  F Sum(const T* x, const std::array<Taps<F>, kMostDims>& taps, std::size_t d,
        std::size_t at) const {
    if (d == dims) return static_cast<F>(Convert<Wide<T>>(x[at]));
    F sum = 0;
    for (std::size_t k = 0; k < taps[d].count; ++k) {
      if (taps[d].weights[k] == 0) continue;
      const std::size_t next =
          at * static_cast<std::size_t>(sizes[d]) + static_cast<std::size_t>(taps[d].at[k]);
      sum += taps[d].weights[k] * Sum<T, F>(x, taps, d + 1, next);
    }
    return sum;
  }

  template <typename T>
  void Run(const T* x, const T* grid, T* y) const {
    using F = std::conditional_t<std::is_same_v<T, double>, double, float>;
    ParallelFor(
        images * samples, images * samples * channels * 8, [&](std::size_t begin, std::size_t end) {
          std::array<Taps<F>, kMostDims> taps;
          for (std::size_t item = begin; item < end; ++item) {
            for (std::size_t d = 0; d < dims; ++d) {  // The grid has the last one first.
              taps[d] = TapsAt(static_cast<F>(Convert<Wide<T>>(grid[item * dims + dims - 1 - d])),
                               sizes[d]);
            }
            const std::size_t image = item / samples, sample = item % samples;
            for (std::size_t c = 0; c < channels; ++c) {
              const std::size_t from = image * channels + c;
              y[from * samples + sample] = Convert<T>(Sum<T, F>(x + from * plane, taps, 0, 0));
            }
          }
        });
  }
};

}  // namespace

absl::StatusOr<Kernel> Make(const GridSample& operation, const Problem& problem) {
  const Value& x = problem.input(0);
  const Shape& y = problem.output().shape;
  GridSampleRun run{.operation = operation,
                    .dims = x.shape.size() - 2,
                    .images = static_cast<std::size_t>(y[0]),
                    .channels = static_cast<std::size_t>(y[1]),
                    .samples = Product(y, 2, y.size()),
                    .plane = Product(x.shape, 2, x.shape.size())};
  for (std::size_t d = 0; d < run.dims; ++d) run.sizes[d] = x.shape[2 + d];
  Kernel kernel;
  kernel.name = problem.KernelName("");
  kernel.run = [run, type = x.type](std::span<const std::byte* const> inputs, std::byte* output,
                                    std::byte*) {
    WithElement(type, [&]<typename T>() {
      if constexpr (kIsShort<T> || std::is_floating_point_v<T>) {
        run.Run(reinterpret_cast<const T*>(inputs[0]), reinterpret_cast<const T*>(inputs[1]),
                reinterpret_cast<T*>(output));
      }
    });
  };
  return kernel;
}

}  // namespace sluice::kernels
