#include "engine/kernels/resize_axis.h"

#include <algorithm>
#include <cmath>

namespace sluice::kernels {
namespace {

// The output's length as the scale says it, which may be broken.
float ScaledLength(float scale, float in, float out) {
  const float length = in * scale;
  return std::fabs(length - out) < 1e-4f * out ? out : length;
}

// In single precision, as the formats' runtimes compute it.
float Coordinate(const Resize& operation, std::size_t d, float o, float in, float out) {
  const float scale = operation.scales[d];
  switch (operation.coordinates) {
    case Resize::Coordinates::kPytorchHalfPixel:
      if (out <= 1) return 0.0f;
      [[fallthrough]];
    case Resize::Coordinates::kHalfPixel:
      return (o + 0.5f) / scale - 0.5f;
    case Resize::Coordinates::kAlignCorners: {
      const float length = ScaledLength(scale, in, out);
      return length <= 1 ? 0.0f : o * (in - 1) / (length - 1);
    }
    case Resize::Coordinates::kAsymmetric:
      return o / scale;
    case Resize::Coordinates::kHalfPixelSymmetric: {
      const float adjustment = out / ScaledLength(scale, in, out);
      return in / 2 * (1 - adjustment) + (o + 0.5f) / scale - 0.5f;
    }
    case Resize::Coordinates::kTfHalfPixel:
      return (o + 0.5f) / scale;
    case Resize::Coordinates::kTfCropAndResize: {
      const float begin = operation.crop_begin[d], end = operation.crop_end[d];
      if (out <= 1) return 0.5f * (begin + end) * (in - 1);
      return begin * (in - 1) + o * (end - begin) * (in - 1) / (out - 1);
    }
  }
  return o;
}

float Rounded(Resize::Rounding rounding, float x) {
  switch (rounding) {
    case Resize::Rounding::kRoundPreferFloor:
      return std::ceil(x - 0.5f);
    case Resize::Rounding::kRoundPreferCeil:
      return std::floor(x + 0.5f);
    case Resize::Rounding::kFloor:
      return std::floor(x);
    case Resize::Rounding::kCeil:
      return std::ceil(x);
  }
  return x;
}

// How much an element counts that is `distance` away.
float Linear(float distance) { return std::max(0.0f, 1 - std::fabs(distance)); }
float Cubic(float distance, float a) {
  const float d = std::fabs(distance);
  if (d <= 1) return ((a + 2) * d - (a + 3)) * d * d + 1;
  return d < 2 ? ((a * d - 5 * a) * d + 8 * a) * d - 4 * a : 0;
}

// Where the output is smaller, what an antialias filter is stretched by.
float Shrinking(const Resize& operation, std::size_t d) {
  return operation.antialias ? std::min(operation.scales[d], 1.0f) : 1.0f;
}

// How far before the element below a coordinate the taps begin: 0 for two of them, 1 for four.
std::int64_t Reach(const Resize& operation, std::size_t d) {
  const float support = operation.mode == Resize::Mode::kLinear ? 1.0f : 2.0f;
  const float reach = -std::floor(-support / Shrinking(operation, d)) - 1;
  return static_cast<std::int64_t>(std::min(reach, static_cast<float>(kMostResized)));
}

// Weights of the taps of a coordinate that lies `t` behind the one at which they begin.
void SetWeights(const Resize& operation, std::size_t d, float t, std::vector<float>& weights) {
  const float shrinking = Shrinking(operation, d);
  for (std::size_t k = 0; k < weights.size(); ++k) {
    const float distance = (static_cast<float>(k) - t) * shrinking;
    weights[k] = operation.mode == Resize::Mode::kLinear
                     ? Linear(distance)
                     : Cubic(distance, operation.cubic_coefficient);
  }
}

void Normalise(std::vector<float>& weights) {
  float sum = 0;
  for (const float weight : weights) sum += weight;
  if (sum == 0) return;
  for (float& weight : weights) weight /= sum;
}

}  // namespace

bool IsIdentity(const Resize& operation, std::size_t d, std::int64_t in, std::int64_t out) {
  if (in != out || operation.scales[d] != 1.0f) return false;
  return operation.coordinates != Resize::Coordinates::kTfCropAndResize ||
         (operation.crop_begin[d] == 0 && operation.crop_end[d] == 1);
}

std::size_t ResizeTaps(const Resize& operation, std::size_t d, std::int64_t in, std::int64_t out) {
  if (IsIdentity(operation, d, in, out) || operation.mode == Resize::Mode::kNearest) return 1;
  return static_cast<std::size_t>(2 + 2 * Reach(operation, d));
}

ResizeAxis MakeResizeAxis(const Resize& operation, std::size_t d, std::int64_t in,
                          std::int64_t out) {
  const bool same = IsIdentity(operation, d, in, out);
  const std::size_t taps = ResizeTaps(operation, d, in, out);
  const auto count = static_cast<std::size_t>(out);
  const bool crops = operation.coordinates == Resize::Coordinates::kTfCropAndResize;
  ResizeAxis axis{static_cast<std::size_t>(in),
                  count,
                  taps,
                  std::vector<std::int32_t>(taps * count),
                  std::vector<float>(taps * count),
                  std::vector<bool>(count, false)};
  std::vector<float> weights(taps, 1.0f);
  const float last = static_cast<float>(in - 1);
  for (std::size_t o = 0; o < count; ++o) {
    const float x = same ? static_cast<float>(o)
                         : Coordinate(operation, d, static_cast<float>(o), static_cast<float>(in),
                                      static_cast<float>(out));
    axis.outside[o] = crops && (x < 0 || x > last);
    float first = same ? x : Rounded(operation.rounding, x);
    if (taps > 1) {
      first = std::floor(x) - static_cast<float>(Reach(operation, d));
      SetWeights(operation, d, x - first, weights);
    }
    // Far outside is as good as at the edge.
    const auto far = static_cast<float>(2 * kMostResized);
    const auto begin = static_cast<std::int64_t>(std::clamp(first, -far, far));
    if (taps > 1 && operation.exclude_outside) {
      for (std::size_t t = 0; t < taps; ++t) {
        const std::int64_t at = begin + static_cast<std::int64_t>(t);
        if (at < 0 || at >= in) weights[t] = 0;
      }
    }
    if (taps > 1 && (operation.exclude_outside || operation.antialias)) Normalise(weights);
    for (std::size_t t = 0; t < taps; ++t) {
      const std::int64_t at = begin + static_cast<std::int64_t>(t);
      axis.at[t * count + o] = static_cast<std::int32_t>(std::clamp<std::int64_t>(at, 0, in - 1));
      axis.weights[t * count + o] = weights[t];
    }
  }
  return axis;
}

}  // namespace sluice::kernels
