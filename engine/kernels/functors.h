// engine/kernels/functors.h
//
// The arithmetic of one element, shared by every loop and every instruction set (and by GPU
// kernels). Straight-line code on 32-bit values, so that a compiler turns a loop over it into
// vector instructions. Each states how far it may be from the exact result rounded to float:
// kMaxUlp units in the last place, or kMaxAbsolute where cancellation makes those meaningless.
//
// Everything here is always inlined: translation units for different instruction sets include it,
// and none may leave a copy behind that another would then call.

#ifndef SLUICE_ENGINE_KERNELS_FUNCTORS_H_
#define SLUICE_ENGINE_KERNELS_FUNCTORS_H_

#include <cstdint>

#ifdef __CUDACC__
#define SLUICE_HOST_DEVICE __host__ __device__ __forceinline__
#else
#define SLUICE_HOST_DEVICE inline __attribute__((always_inline))
#endif

namespace sluice::kernels {

// Primitives.

// Rounded once where the instruction set can; the answer then differs between instruction sets,
// never between runs on one machine.
SLUICE_HOST_DEVICE float MulAdd(float a, float b, float c) {
#if defined(__FMA__) || defined(__CUDA_ARCH__)
  return __builtin_fmaf(a, b, c);
#else
  return a * b + c;
#endif
}

SLUICE_HOST_DEVICE std::uint32_t BitsOf(float x) { return __builtin_bit_cast(std::uint32_t, x); }
SLUICE_HOST_DEVICE float FromBits(std::uint32_t x) { return __builtin_bit_cast(float, x); }
// 2^k. Requires: -127 < k < 128.
SLUICE_HOST_DEVICE float PowerOfTwo(std::int32_t k) {
  return FromBits(static_cast<std::uint32_t>(k + 127) << 23);
}

// Of two numbers; NaN when either is NaN.
SLUICE_HOST_DEVICE float Larger(float a, float b) {
  const float larger = a > b ? a : b;  // b when either is NaN.
  return a != a ? a : larger;
}
SLUICE_HOST_DEVICE float Lesser(float a, float b) {
  const float lesser = a < b ? a : b;
  return a != a ? a : lesser;
}
SLUICE_HOST_DEVICE float Clamp(float x, float low, float high) {
  const float raised = x < low ? low : x;
  return raised > high ? high : raised;
}

// x = n * log(2) + r with |r| <= log(2) / 2; adding 1.5 * 2^23 leaves n in the low bits.
struct ExponentSplit {
  std::int32_t n;
  float r;
};
SLUICE_HOST_DEVICE ExponentSplit SplitExponent(float x) {
  constexpr float kRound = 12582912.0f;
  const float shifted = MulAdd(x, 1.44269504f, kRound);
  const float n = shifted - kRound;
  // log(2) in two parts; n times the first is exact.
  const float r = MulAdd(n, -1.42860682e-6f, MulAdd(n, -0.693145752f, x));
  return {static_cast<std::int32_t>(BitsOf(shifted) - BitsOf(kRound)), r};
}

// (exp(r) - 1 - r) / r^2 by its Taylor series: an error below 2^-27 for |r| <= log(2) / 2.
SLUICE_HOST_DEVICE float ExponentialTail(float r) {
  float p = MulAdd(r, 1.0f / 5040, 1.0f / 720);
  p = MulAdd(p, r, 1.0f / 120);
  p = MulAdd(p, r, 1.0f / 24);
  p = MulAdd(p, r, 1.0f / 6);
  return MulAdd(p, r, 0.5f);
}

SLUICE_HOST_DEVICE float Exponential(float x) {
  const ExponentSplit split = SplitExponent(Clamp(x, -104.0f, 89.0f));
  const float p = MulAdd(split.r * split.r, ExponentialTail(split.r), split.r) + 1.0f;
  // In two factors: either power alone may be out of range where the product is not.
  const std::int32_t half = split.n >> 1;
  return p * PowerOfTwo(half) * PowerOfTwo(split.n - half);
}

// exp(x) - 1 without cancellation. Requires: x <= 0, or NaN.
SLUICE_HOST_DEVICE float ExponentialMinusOne(float x) {
  const float raised = x < -30.0f ? -30.0f : x;
  const ExponentSplit split = SplitExponent(raised);
  const float p = MulAdd(split.r * split.r, ExponentialTail(split.r), split.r);
  const float power = PowerOfTwo(split.n);
  return MulAdd(power, p, power - 1.0f);
}

// log(m) for m = 1 + f in [sqrt(1/2), sqrt(2)) is 2 * atanh(s) with s = f / (2 + f).
SLUICE_HOST_DEVICE float Logarithm(float x) {
  const bool tiny = x < 1.17549435e-38f;
  const std::uint32_t bits = BitsOf(tiny ? x * 8388608.0f : x);
  const std::int32_t exponent = static_cast<std::int32_t>(bits - 0x3f3504f3u) >> 23;
  const float f = FromBits(bits - (static_cast<std::uint32_t>(exponent) << 23)) - 1.0f;
  const float k = static_cast<float>(exponent) - (tiny ? 23.0f : 0.0f);
  const float s = f / (2.0f + f);
  const float z = s * s;
  float series = MulAdd(z, 2.0f / 9, 2.0f / 7);
  series = MulAdd(series, z, 2.0f / 5);
  series = MulAdd(series, z, 2.0f / 3) * z;
  const float half_square = 0.5f * f * f;
  const float low = MulAdd(k, 1.42860682e-6f, s * (half_square + series));
  float y = MulAdd(k, 0.693145752f, f - (half_square - low));
  y = x == __builtin_inff() ? x : y;
  y = x == 0.0f ? -__builtin_inff() : y;
  y = x < 0.0f ? __builtin_nanf("") : y;
  return x != x ? x : y;
}

// log(1 + u) = 2 * atanh(u / (2 + u)), all terms positive. Requires: 0 <= u <= 1, or NaN.
SLUICE_HOST_DEVICE float LogarithmOfOnePlus(float u) {
  const float s = u / (2.0f + u);
  const float z = s * s;
  float series = MulAdd(z, 2.0f / 15, 2.0f / 13);
  series = MulAdd(series, z, 2.0f / 11);
  series = MulAdd(series, z, 2.0f / 9);
  series = MulAdd(series, z, 2.0f / 7);
  series = MulAdd(series, z, 2.0f / 5);
  series = MulAdd(series, z, 2.0f / 3);
  return MulAdd(s * z, series, 2.0f * s);
}

SLUICE_HOST_DEVICE float Logistic(float x) {
  const float e = Exponential(-__builtin_fabsf(x));
  return (x < 0.0f ? e : 1.0f) / (1.0f + e);
}

SLUICE_HOST_DEVICE float HyperbolicTangent(float x) {
  const float e = ExponentialMinusOne(-2.0f * __builtin_fabsf(x));
  return __builtin_copysignf(e / (e + 2.0f), x);
}

// Below 1, x times a polynomial in x^2; from there 1 - exp(log(erfc(x))), the logarithm by a
// polynomial. Both are Chebyshev interpolations (errors 1.3e-9 and 1.7e-8).
struct ErrorParts {
  float inner;  // Near 0: erf(x).
  float tail;   // Elsewhere: 1 - |erf(x)|.
};
SLUICE_HOST_DEVICE ErrorParts SplitErrorFunction(float x) {
  const float t = __builtin_fabsf(x), u = x * x;
  float inner = MulAdd(u, 7.875875063e-5f, -8.016864287e-4f);
  inner = MulAdd(inner, u, 5.189087423e-3f);
  inner = MulAdd(inner, u, -2.685421201e-2f);
  inner = MulAdd(inner, u, 0.1128359472f);
  inner = MulAdd(inner, u, -0.3761262667f);
  inner = MulAdd(inner, u, 1.128379166f);
  const float v = t > 4.0f ? 4.0f : t;
  float outer = MulAdd(v, 1.637151415e-6f, -4.605804269e-5f);
  outer = MulAdd(outer, v, 5.968056257e-4f);
  outer = MulAdd(outer, v, -4.759596293e-3f);
  outer = MulAdd(outer, v, 2.642113601e-2f);
  outer = MulAdd(outer, v, -0.1100800829f);
  outer = MulAdd(outer, v, -0.6318260516f);
  outer = MulAdd(outer, v, -1.130233435f);
  outer = MulAdd(outer, v, 3.201380497e-4f);
  return {x * inner, Exponential(outer)};
}

SLUICE_HOST_DEVICE float ErrorFunction(float x) {
  const ErrorParts parts = SplitErrorFunction(x);
  const float near_one = __builtin_copysignf(1.0f - parts.tail, x);
  return __builtin_fabsf(x) < 1.0f ? parts.inner : near_one;
}

// erf(x) + 1, without cancellation where x is negative.
SLUICE_HOST_DEVICE float ErrorFunctionPlusOne(float x) {
  const ErrorParts parts = SplitErrorFunction(x);
  const float tail = __builtin_fabsf(x) > 4.0f ? 0.0f : parts.tail;
  const float far = x < 0.0f ? tail : 2.0f - tail;
  return __builtin_fabsf(x) < 1.0f ? 1.0f + parts.inner : far;
}

// Functions of one element: model/operation.h says what alpha and beta are.

struct Coefficients {
  float alpha, beta;
};
struct Relu : Coefficients {
  static constexpr float kMaxUlp = 0, kMaxAbsolute = 0;
  SLUICE_HOST_DEVICE float operator()(float x) const { return x < 0.0f ? 0.0f : x; }
};
struct LeakyRelu : Coefficients {
  static constexpr float kMaxUlp = 0, kMaxAbsolute = 0;
  SLUICE_HOST_DEVICE float operator()(float x) const { return x < 0.0f ? alpha * x : x; }
};
struct Clip : Coefficients {
  static constexpr float kMaxUlp = 0, kMaxAbsolute = 0;
  SLUICE_HOST_DEVICE float operator()(float x) const { return Clamp(x, alpha, beta); }
};
struct Sigmoid : Coefficients {
  static constexpr float kMaxUlp = 3, kMaxAbsolute = 0;
  SLUICE_HOST_DEVICE float operator()(float x) const { return Logistic(x); }
};
struct HardSigmoid : Coefficients {
  static constexpr float kMaxUlp = 1, kMaxAbsolute = 1e-6f;
  SLUICE_HOST_DEVICE float operator()(float x) const {
    return Clamp(MulAdd(alpha, x, beta), 0.0f, 1.0f);
  }
};
struct HardSwish : Coefficients {
  static constexpr float kMaxUlp = 2, kMaxAbsolute = 4e-6f;
  SLUICE_HOST_DEVICE float operator()(float x) const {
    return x * Clamp(MulAdd(alpha, x, beta), 0.0f, 1.0f);
  }
};
struct Silu : Coefficients {
  static constexpr float kMaxUlp = 4, kMaxAbsolute = 1e-37f;
  SLUICE_HOST_DEVICE float operator()(float x) const { return x * Logistic(x); }
};
struct Mish : Coefficients {
  static constexpr float kMaxUlp = 5, kMaxAbsolute = 1e-37f;
  // tanh(log(1 + exp(x))) is a quotient of polynomials in e = exp(-|x|).
  SLUICE_HOST_DEVICE float operator()(float x) const {
    const float e = Exponential(-__builtin_fabsf(x)), square = e * e;
    const float above = MulAdd(2.0f, e, x < 0.0f ? square : 1.0f);
    const float below = MulAdd(2.0f, x < 0.0f ? 1.0f : square, above);
    return x * (above / below);
  }
};
struct Tanh : Coefficients {
  static constexpr float kMaxUlp = 3, kMaxAbsolute = 0;
  SLUICE_HOST_DEVICE float operator()(float x) const { return HyperbolicTangent(x); }
};
struct Exp : Coefficients {
  static constexpr float kMaxUlp = 2, kMaxAbsolute = 0;
  SLUICE_HOST_DEVICE float operator()(float x) const { return Exponential(x); }
};
struct Log : Coefficients {
  static constexpr float kMaxUlp = 2, kMaxAbsolute = 0;
  SLUICE_HOST_DEVICE float operator()(float x) const { return Logarithm(x); }
};
struct Sqrt : Coefficients {
  static constexpr float kMaxUlp = 0, kMaxAbsolute = 0;
  SLUICE_HOST_DEVICE float operator()(float x) const { return __builtin_sqrtf(x); }
};
struct Abs : Coefficients {
  static constexpr float kMaxUlp = 0, kMaxAbsolute = 0;
  SLUICE_HOST_DEVICE float operator()(float x) const { return __builtin_fabsf(x); }
};
struct Negate : Coefficients {
  static constexpr float kMaxUlp = 0, kMaxAbsolute = 0;
  SLUICE_HOST_DEVICE float operator()(float x) const { return -x; }
};
struct Erf : Coefficients {
  static constexpr float kMaxUlp = 3, kMaxAbsolute = 0;
  SLUICE_HOST_DEVICE float operator()(float x) const { return ErrorFunction(x); }
};
struct Softplus : Coefficients {
  static constexpr float kMaxUlp = 4, kMaxAbsolute = 0;
  SLUICE_HOST_DEVICE float operator()(float x) const {
    return (x < 0.0f ? 0.0f : x) + LogarithmOfOnePlus(Exponential(-__builtin_fabsf(x)));
  }
};
struct Elu : Coefficients {
  static constexpr float kMaxUlp = 3, kMaxAbsolute = 0;
  SLUICE_HOST_DEVICE float operator()(float x) const {
    return x < 0.0f ? alpha * ExponentialMinusOne(x < 0.0f ? x : 0.0f) : x;
  }
};
struct Reciprocal : Coefficients {
  static constexpr float kMaxUlp = 0, kMaxAbsolute = 0;
  SLUICE_HOST_DEVICE float operator()(float x) const { return 1.0f / x; }
};
struct Floor : Coefficients {
  static constexpr float kMaxUlp = 0, kMaxAbsolute = 0;
  SLUICE_HOST_DEVICE float operator()(float x) const { return __builtin_floorf(x); }
};
struct Ceil : Coefficients {
  static constexpr float kMaxUlp = 0, kMaxAbsolute = 0;
  SLUICE_HOST_DEVICE float operator()(float x) const { return __builtin_ceilf(x); }
};
struct Linear : Coefficients {
  static constexpr float kMaxUlp = 1, kMaxAbsolute = 4e-6f;
  SLUICE_HOST_DEVICE float operator()(float x) const { return MulAdd(alpha, x, beta); }
};

struct Round : Coefficients {
  static constexpr float kMaxUlp = 0, kMaxAbsolute = 0;
  // Adding 2^23 rounds a smaller number to an integer, halves to the even one.
  SLUICE_HOST_DEVICE float operator()(float x) const {
    const float magnitude = __builtin_fabsf(x);
    const float rounded = __builtin_copysignf((magnitude + 8388608.0f) - 8388608.0f, x);
    return magnitude < 8388608.0f ? rounded : x;
  }
};
struct Sign : Coefficients {
  static constexpr float kMaxUlp = 0, kMaxAbsolute = 0;
  SLUICE_HOST_DEVICE float operator()(float x) const {
    const float not_positive = x < 0.0f ? -1.0f : 0.0f * x;
    return x > 0.0f ? 1.0f : not_positive;
  }
};
struct ThresholdedRelu : Coefficients {
  static constexpr float kMaxUlp = 0, kMaxAbsolute = 0;
  SLUICE_HOST_DEVICE float operator()(float x) const { return x > alpha ? x : 0.0f; }
};
struct Shrink : Coefficients {
  static constexpr float kMaxUlp = 0, kMaxAbsolute = 0;
  SLUICE_HOST_DEVICE float operator()(float x) const {
    const float above = x > alpha ? x - beta : 0.0f;
    return x < -alpha ? x + beta : above;
  }
};
struct Gelu : Coefficients {
  static constexpr float kMaxUlp = 4, kMaxAbsolute = 1e-6f;
  SLUICE_HOST_DEVICE float operator()(float x) const {
    return 0.5f * x * ErrorFunctionPlusOne(0.70710678f * x);
  }
};
struct GeluTanh : Coefficients {
  static constexpr float kMaxUlp = 4, kMaxAbsolute = 1e-6f;
  // (1 + tanh(z)) / 2 is the logistic function of 2 z.
  SLUICE_HOST_DEVICE float operator()(float x) const {
    return x * Logistic(1.59576912f * MulAdd(0.044715f * x * x, x, x));
  }
};

// Functions of two elements. Integers wrap around; x / 0 is 0.

struct Add {
  static constexpr float kMaxUlp = 0;
  SLUICE_HOST_DEVICE float operator()(float a, float b) const { return a + b; }
  template <typename T, typename U>
  SLUICE_HOST_DEVICE static T Integers(U a, U b) {
    return static_cast<T>(a + b);
  }
};
struct Subtract {
  static constexpr float kMaxUlp = 0;
  SLUICE_HOST_DEVICE float operator()(float a, float b) const { return a - b; }
  template <typename T, typename U>
  SLUICE_HOST_DEVICE static T Integers(U a, U b) {
    return static_cast<T>(a - b);
  }
};
struct Multiply {
  static constexpr float kMaxUlp = 0;
  SLUICE_HOST_DEVICE float operator()(float a, float b) const { return a * b; }
  template <typename T, typename U>
  SLUICE_HOST_DEVICE static T Integers(U a, U b) {
    return static_cast<T>(a * b);
  }
};
struct Divide {
  static constexpr float kMaxUlp = 0;
  SLUICE_HOST_DEVICE float operator()(float a, float b) const { return a / b; }
  template <typename T, typename U>
  SLUICE_HOST_DEVICE static T Integers(U a, U b) {
    const T divisor = static_cast<T>(b);
    if (divisor == 0) return 0;
    return divisor == -1 ? static_cast<T>(U{0} - a) : static_cast<T>(static_cast<T>(a) / divisor);
  }
};
struct Power {
  static constexpr float kMaxUlp = 1;
  SLUICE_HOST_DEVICE float operator()(float a, float b) const { return __builtin_powf(a, b); }
};
struct Maximum {
  static constexpr float kMaxUlp = 0;
  SLUICE_HOST_DEVICE float operator()(float a, float b) const { return Larger(a, b); }
  template <typename T, typename U>
  SLUICE_HOST_DEVICE static T Integers(U a, U b) {
    return static_cast<T>(a) > static_cast<T>(b) ? static_cast<T>(a) : static_cast<T>(b);
  }
};
struct Minimum {
  static constexpr float kMaxUlp = 0;
  SLUICE_HOST_DEVICE float operator()(float a, float b) const { return Lesser(a, b); }
  template <typename T, typename U>
  SLUICE_HOST_DEVICE static T Integers(U a, U b) {
    return static_cast<T>(a) < static_cast<T>(b) ? static_cast<T>(a) : static_cast<T>(b);
  }
};
// For sums of squares.
struct AddSquare {
  SLUICE_HOST_DEVICE float operator()(float sum, float x) const { return MulAdd(x, x, sum); }
};
// For sums of magnitudes.
struct AddMagnitude {
  SLUICE_HOST_DEVICE float operator()(float sum, float x) const { return sum + __builtin_fabsf(x); }
};

}  // namespace sluice::kernels

#endif  // SLUICE_ENGINE_KERNELS_FUNCTORS_H_
