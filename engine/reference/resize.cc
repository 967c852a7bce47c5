#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "engine/reference/definitions.h"

namespace sluice::reference {
namespace {

// One input position along a dimension and how much of it an output position takes.
struct Tap {
  std::int64_t at;
  double weight;
};

// Where output position o of a dimension lies in the input.
float Coordinate(const Resize& operation, std::int64_t o, float scale, std::int64_t in,
                 std::int64_t out) {
  const auto x = static_cast<float>(o);
  switch (operation.coordinates) {
    case Resize::Coordinates::kHalfPixel:
      return (x + 0.5f) / scale - 0.5f;
    case Resize::Coordinates::kPytorchHalfPixel:
      return out > 1 ? (x + 0.5f) / scale - 0.5f : 0.0f;
    case Resize::Coordinates::kAlignCorners: {
      // The length that the scale asks for, which may be broken.
      const auto whole = static_cast<float>(out);
      float length = static_cast<float>(in) * scale;
      if (std::fabs(length - whole) < 1e-4f * whole) length = whole;
      return length > 1 ? x * static_cast<float>(in - 1) / (length - 1) : 0.0f;
    }
    case Resize::Coordinates::kAsymmetric:
      return x / scale;
    case Resize::Coordinates::kTfHalfPixel:
      return (x + 0.5f) / scale;
    case Resize::Coordinates::kHalfPixelSymmetric:
    case Resize::Coordinates::kTfCropAndResize:
      break;  // Not defined: see Supported.
  }
  return x;
}

std::int64_t Nearest(Resize::Rounding rounding, float x) {
  const float below = std::floor(x), fraction = x - below;
  switch (rounding) {
    case Resize::Rounding::kRoundPreferFloor:
      return static_cast<std::int64_t>(fraction <= 0.5f ? below : below + 1);
    case Resize::Rounding::kRoundPreferCeil:
      return static_cast<std::int64_t>(fraction < 0.5f ? below : below + 1);
    case Resize::Rounding::kFloor:
      return static_cast<std::int64_t>(below);
    case Resize::Rounding::kCeil:
      return static_cast<std::int64_t>(std::ceil(x));
  }
  return 0;
}

// The cubic convolution of Keys (1981) at distance t, with coefficient a.
double Cubic(double t, double a) {
  t = std::fabs(t);
  if (t <= 1) return ((a + 2) * t - (a + 3)) * t * t + 1;
  if (t < 2) return ((a * t - 5 * a) * t + 8 * a) * t - 4 * a;
  return 0;
}

std::vector<Tap> TapsOf(const Resize& operation, float x) {
  if (operation.mode == Resize::Mode::kNearest) return {{Nearest(operation.rounding, x), 1}};
  const auto below = static_cast<std::int64_t>(std::floor(x));
  const double fraction = double{x} - static_cast<double>(below);
  if (operation.mode == Resize::Mode::kLinear)
    return {{below, 1 - fraction}, {below + 1, fraction}};
  std::vector<Tap> taps;
  for (std::int64_t k = -1; k <= 2; ++k) {
    const double distance = fraction - static_cast<double>(k);
    taps.push_back({below + k, Cubic(distance, double{operation.cubic_coefficient})});
  }
  return taps;
}

// The sum over the dimensions from d on, at `offset` elements of those before.
double Sample(const Tensor& x, const std::vector<std::vector<std::vector<Tap>>>& taps,
              const Shape& index, std::size_t d, std::int64_t offset) {
  if (d == x.rank()) return x.floats()[offset];
  double sum = 0;
  for (const Tap& tap : taps[d][static_cast<std::size_t>(index[d])]) {
    if (tap.weight == 0) continue;
    sum += tap.weight * Sample(x, taps, index, d + 1, offset * x.shape[d] + tap.at);
  }
  return sum;
}

}  // namespace

void Define(const Resize& operation, Operands inputs, const Result& y) {
  const Tensor& x = inputs[0];
  std::vector<std::vector<std::vector<Tap>>> taps(y.rank());  // [dimension][output position].
  for (std::size_t d = 0; d < y.rank(); ++d) {
    for (std::int64_t o = 0; o < y.shape[d]; ++o) {
      const float at = Coordinate(operation, o, operation.scales[d], x.shape[d], y.shape[d]);
      const bool same = x.shape[d] == y.shape[d] && operation.scales[d] == 1.0f;
      taps[d].push_back(same ? std::vector<Tap>{{o, 1}} : TapsOf(operation, at));
      for (Tap& tap : taps[d].back()) {
        tap.at = std::clamp(tap.at, std::int64_t{0}, x.shape[d] - 1);
      }
    }
  }
  float* to = y.floats();
  ForEachIndex(y.shape, [&](const Shape& index) {
    *to++ = static_cast<float>(Sample(x, taps, index, 0, 0));
  });
}

}  // namespace sluice::reference
