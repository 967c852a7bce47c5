// engine/cpu/vector_kernels.h
//
// Kernels of our own on packed data, where oneDNN has none that streams or needs little code.
// Compiled for AVX-512, AVX2 and the base instruction set; the processor decides once.
//
// Threads: the compute team's leader; work is split over the team. Same team, same bits; and each
// output depends on its own inputs alone, so a slice of the outputs has the bits of the whole.

#ifndef SLUICE_ENGINE_CPU_VECTOR_KERNELS_H_
#define SLUICE_ENGINE_CPU_VECTOR_KERNELS_H_

#include <cstdint>

namespace sluice {

// Columns that lie side by side in the weights of MultiplyRow.
inline constexpr std::int64_t kColumnBlock = 16;

// y[n] = bias[n] + sum over k of x[k] * w[k][n], for one row x.
//   weights   [N / 16, K, 16], the last block filled up with zeros
// Reads the weights once, front to back in each thread: as fast as memory.
struct RowProduct {
  std::int64_t inputs = 0;   // K
  std::int64_t outputs = 0;  // N
};
void MultiplyRow(const RowProduct& shape, const float* x, const float* weights, const float* bias,
                 float* y);

// Mean over the pixels of each channel of a blocked tensor.
//   x [blocks, pixels, block]    y [blocks, block]
struct BlockedMean {
  std::int64_t blocks = 0;  // Images times channel blocks.
  std::int64_t pixels = 0;
  std::int64_t block = 16;  // 8 or 16.
};
void MeanOfPixels(const BlockedMean& shape, const float* x, float* y);

}  // namespace sluice

#endif  // SLUICE_ENGINE_CPU_VECTOR_KERNELS_H_
