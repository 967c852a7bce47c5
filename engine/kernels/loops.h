// engine/kernels/loops.h
//
// The innermost loops of the kernels on contiguous floats, compiled once for each instruction set
// and chosen when a kernel is made. Everything above them (shapes, broadcasting, threads) is
// compiled once. This header must stay free of inline functions and of includes that have any: what
// sources for different instruction sets share, the linker would mix.
//
// Threads: pure functions. Unless said otherwise `y` may be one of the inputs, starting at the
// same element; it overlaps none otherwise. Pointers need only the alignment of their type.

#ifndef SLUICE_ENGINE_KERNELS_LOOPS_H_
#define SLUICE_ENGINE_KERNELS_LOOPS_H_

#include <cstddef>
#include <cstdint>

namespace sluice::kernels {

// How many kinds, from the first on, have loops here.
inline constexpr std::size_t kUnaryKinds = 39, kBinaryKinds = 7, kReduceKinds = 7;

// y[i] = f(x[i]); alpha and beta as the kind says.
using UnaryLoop = void (*)(const float* x, float* y, std::size_t n, float alpha, float beta);

struct UnaryEntry {
  const char* name;    // The kind's, as in model/operation.h.
  UnaryLoop loop;      // Null for rare functions: typed_loops.h has them.
  float max_ulp;       // Distance from the exact result, rounded to float...
  float max_absolute;  // ...or absolute, whichever is met.
};

// y[i] = f(a[i], b[i]); where one side is a scalar, f(a[0], b[i]) or f(a[i], b[0]).
template <typename T>
struct BinaryEntry {
  using Loop = void (*)(const T* a, const T* b, T* y, std::size_t n);
  const char* name;
  Loop both, scalar_a, scalar_b;  // Null where the type has no such function.
  float max_ulp;
};

// Mean and L2 reduce to a sum and a sum of squares; the caller finishes them.
struct ReduceEntry {
  const char* name;
  float initial;
  float (*total)(const float* x, std::size_t n, float initial);
  void (*fold)(const float* x, float* y, std::size_t n);  // y[i] = f(y[i], x[i]).
  float (*combine)(float a, float b);                     // Of two totals.
};

// c [rows, columns] += a b, or = when `first`; times alpha when `last`.
struct MatrixPanel {
  const float* a;
  std::ptrdiff_t a_row, a_depth;  // Strides in elements.
  const float* b;                 // Rows of b_row elements; columns lie side by side.
  std::ptrdiff_t b_row;
  float* c;
  std::ptrdiff_t c_row;
  std::size_t rows, depth, columns;  // columns <= Loops::panel_columns.
  float alpha;
  bool first, last;
};

struct Loops {
  const char* isa;
  UnaryEntry unary[kUnaryKinds];  // Indexed by Unary::Kind, and the others by theirs.
  BinaryEntry<float> binary[kBinaryKinds];
  BinaryEntry<std::int32_t> binary_int32[kBinaryKinds];
  BinaryEntry<std::int64_t> binary_int64[kBinaryKinds];
  ReduceEntry reduce[kReduceKinds];

  // One row; log says whether the logarithm is wanted.
  void (*softmax)(const float* x, float* y, std::size_t n, bool log);
  // `width` columns of n elements, `stride` apart. Requires: width <= kSoftmaxColumns.
  void (*softmax_columns)(const float* x, float* y, std::size_t n, std::size_t stride,
                          std::size_t width, bool log);

  // y[i] = f(y[i], x[i * stride]); x and y are apart.
  void (*pool_max)(const float* x, std::ptrdiff_t stride, float* y, std::size_t n);
  void (*pool_sum)(const float* x, std::ptrdiff_t stride, float* y, std::size_t n);

  // y[i] = sum over t of weights[t] * rows[t][i]; apart. Requires: taps >= 1.
  void (*blend)(const float* const* rows, const float* weights, std::size_t taps, float* y,
                std::size_t n);
  // y[i] = sum over t of weights[t * n + i] * x[at[t * n + i]]; apart. Requires: taps >= 1.
  void (*sample)(const float* x, const std::int32_t* at, const float* weights, std::size_t taps,
                 float* y, std::size_t n);

  // y[i] = x[i] / (bias + scale * squares[i]) ^ beta.
  void (*normalise)(const float* x, const float* squares, float* y, std::size_t n, float bias,
                    float scale, float beta);

  // Sum of the squares of x[i] - centre.
  float (*deviation)(const float* x, std::size_t n, float centre);
  // y[i] += sum over k of x[k] * rows[i * n + k]; apart.
  void (*dots)(const float* x, const float* rows, std::size_t n, float* y, std::size_t count);
  // y[i] = (x[i] - centre) * factor * scale[i] + shift[i]; either of the two may be null.
  void (*standardise)(const float* x, const float* scale, const float* shift, float* y,
                      std::size_t n, float centre, float factor);
  // y[i] = (x[i] - centre) * factor + shift.
  void (*standardise_to)(const float* x, float* y, std::size_t n, float centre, float factor,
                         float shift);

  std::size_t panel_columns;
  void (*panel)(const MatrixPanel& panel);
};

// Most columns that one call of softmax_columns takes, and most that a panel has.
inline constexpr std::size_t kSoftmaxColumns = 64, kMaxPanelColumns = 32;

enum class Isa : std::uint8_t { kGeneric, kAvx2, kAvx512 };

// Null when this build or this machine lacks it.
const Loops* LoopsFor(Isa isa);
// The widest that the machine has.
const Loops& BestLoops();

}  // namespace sluice::kernels

#endif  // SLUICE_ENGINE_KERNELS_LOOPS_H_
