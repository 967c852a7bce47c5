// tests/networks/weights.h
//
// Weights that any machine and language can make again: a counter-based hash of seed, tensor number
// and position, so that no weight depends on those before it.

#ifndef SLUICE_TESTS_NETWORKS_WEIGHTS_H_
#define SLUICE_TESTS_NETWORKS_WEIGHTS_H_

#include <cstdint>
#include <span>

namespace sluice {

// Uniform float32 values in [low, high), times `scale`.
struct UniformWeights {
  std::uint32_t stream = 0;  // From WeightStream.
  double low = 0;
  double high = 1;
  float scale = 1;
};

// The stream of the tensor made as number `tensor`, counted from 1, under `seed`.
std::uint32_t WeightStream(std::uint32_t seed, std::uint32_t tensor);

// Values at positions first, first + 1 and so on. Value i is float32(low + (high - low) * u) *
// scale, in double up to the rounding, with u from the 24 high bits of a hash of (stream, i + 1).
void FillWeights(const UniformWeights& weights, std::uint64_t first, std::span<float> values);

}  // namespace sluice

#endif  // SLUICE_TESTS_NETWORKS_WEIGHTS_H_
