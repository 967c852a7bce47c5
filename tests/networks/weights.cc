#include "tests/networks/weights.h"

#include <cstddef>

namespace sluice {
namespace {

// A bijection of 32-bit numbers with good avalanche: C. Wellons' two-round "triple32" family,
// constants 0x21F0AAAD and 0x735A2D97.
constexpr std::uint32_t Mix(std::uint32_t x) {
  x ^= x >> 16;
  x *= 0x21F0AAADu;
  x ^= x >> 15;
  x *= 0x735A2D97u;
  x ^= x >> 15;
  return x;
}

}  // namespace

std::uint32_t WeightStream(std::uint32_t seed, std::uint32_t tensor) {
  return Mix(seed * 1000003u + tensor);
}

void FillWeights(const UniformWeights& weights, std::uint64_t first, std::span<float> values) {
  const double span = weights.high - weights.low;
  for (std::size_t i = 0; i < values.size(); ++i) {
    const auto counter = static_cast<std::uint32_t>(first + i + 1);
    const std::uint32_t hash = Mix(counter * 0x9E3779B9u + weights.stream);
    const double unit = static_cast<double>(hash >> 8) / 16777216.0;
    values[i] = static_cast<float>(weights.low + span * unit) * weights.scale;
  }
}

}  // namespace sluice
