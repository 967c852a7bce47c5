#include "engine/cpu/vector_kernels.h"

#include <algorithm>

namespace sluice {
namespace {

#define SLUICE_INLINE __attribute__((always_inline)) inline

// Vectors of sixteen floats, whatever registers they take; not aligned beyond a float.
using Float16 __attribute__((vector_size(64), aligned(4), may_alias)) = float;
using Float8 __attribute__((vector_size(32), aligned(4), may_alias)) = float;

// One block of columns. Eight sums run side by side, which hides the latency of the additions.
SLUICE_INLINE void ColumnsGeneric(const float* x, const float* weights, std::int64_t inputs,
                                  float* sums) {
  Float16 sum[8] = {};
  const auto* w = reinterpret_cast<const Float16*>(weights);
  std::int64_t k = 0;
  for (; k + 8 <= inputs; k += 8) {
    for (int u = 0; u < 8; ++u) sum[u] += w[k + u] * x[k + u];
  }
  for (; k < inputs; ++k) sum[0] += w[k] * x[k];
  const Float16 total =
      ((sum[0] + sum[1]) + (sum[2] + sum[3])) + ((sum[4] + sum[5]) + (sum[6] + sum[7]));
  *reinterpret_cast<Float16*>(sums) = total;
}

template <typename Vector>
SLUICE_INLINE void MeanGeneric(const float* x, std::int64_t pixels, float* y) {
  Vector sum[4] = {};
  const auto* in = reinterpret_cast<const Vector*>(x);
  std::int64_t p = 0;
  for (; p + 4 <= pixels; p += 4) {
    for (int u = 0; u < 4; ++u) sum[u] += in[p + u];
  }
  for (; p < pixels; ++p) sum[0] += in[p];
  *reinterpret_cast<Vector*>(y) =
      ((sum[0] + sum[1]) + (sum[2] + sum[3])) / static_cast<float>(pixels);
}

struct Functions {
  void (*columns)(const float*, const float*, std::int64_t, float*);
  void (*mean16)(const float*, std::int64_t, float*);
  void (*mean8)(const float*, std::int64_t, float*);
};

// Attributes take no parentheses.
// NOLINTBEGIN(bugprone-macro-parentheses)
#define SLUICE_DEFINE_FUNCTIONS(suffix, attributes)                                           \
  attributes void Columns##suffix(const float* x, const float* w, std::int64_t n, float* y) { \
    ColumnsGeneric(x, w, n, y);                                                               \
  }                                                                                           \
  attributes void Mean16##suffix(const float* x, std::int64_t n, float* y) {                  \
    MeanGeneric<Float16>(x, n, y);                                                            \
  }                                                                                           \
  attributes void Mean8##suffix(const float* x, std::int64_t n, float* y) {                   \
    MeanGeneric<Float8>(x, n, y);                                                             \
  }                                                                                           \
  constexpr Functions k##suffix = {Columns##suffix, Mean16##suffix, Mean8##suffix}
// NOLINTEND(bugprone-macro-parentheses)

SLUICE_DEFINE_FUNCTIONS(Base, );
#if defined(__x86_64__)
SLUICE_DEFINE_FUNCTIONS(Avx2, __attribute__((target("avx2,fma"))));
SLUICE_DEFINE_FUNCTIONS(Avx512, __attribute__((target("avx512f,avx2,fma"))));
#endif

const Functions& Selected() {
  static const Functions functions = [] {
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx512f")) return kAvx512;
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return kAvx2;
#endif
    return kBase;
  }();
  return functions;
}

}  // namespace

void MultiplyRow(const RowProduct& shape, const float* x, const float* weights, const float* bias,
                 float* y) {
  const Functions& functions = Selected();
  const std::int64_t blocks = (shape.outputs + kColumnBlock - 1) / kColumnBlock;
#pragma omp parallel for schedule(static)
  for (std::int64_t b = 0; b < blocks; ++b) {
    float sums[kColumnBlock];
    functions.columns(x, weights + b * shape.inputs * kColumnBlock, shape.inputs, sums);
    const std::int64_t first = b * kColumnBlock;
    const std::int64_t count = std::min(kColumnBlock, shape.outputs - first);
    for (std::int64_t i = 0; i < count; ++i) {
      y[first + i] = bias == nullptr ? sums[i] : sums[i] + bias[first + i];
    }
  }
}

void MeanOfPixels(const BlockedMean& shape, const float* x, float* y) {
  const Functions& functions = Selected();
  const auto mean = shape.block == 16 ? functions.mean16 : functions.mean8;
#pragma omp parallel for schedule(static)
  for (std::int64_t b = 0; b < shape.blocks; ++b) {
    mean(x + b * shape.pixels * shape.block, shape.pixels, y + b * shape.block);
  }
}

}  // namespace sluice
