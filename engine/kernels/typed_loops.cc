#include "engine/kernels/typed_loops.h"

#include <array>
#include <cmath>
#include <cstdint>
#include <type_traits>
#include <utility>

namespace sluice::kernels {
namespace {

constexpr std::size_t kAllUnaryKinds = static_cast<std::size_t>(Unary::Kind::kGeluTanh) + 1;

// Of floating point numbers, in double: alpha and beta as the kind says. NaN goes through.
[[gnu::always_inline]] inline double Function(Unary::Kind kind, double x, double alpha,
                                              double beta) {
  const auto clip = [](double v, double low, double high) {
    const double raised = v < low ? low : v;
    return raised > high ? high : raised;
  };
  const auto softplus = [](double v) {
    return (v < 0 ? 0 : v) + std::log1p(std::exp(-std::fabs(v)));
  };
  switch (kind) {
    case Unary::Kind::kRelu:
      return x < 0 ? 0 : x;
    case Unary::Kind::kLeakyRelu:
      return x < 0 ? alpha * x : x;
    case Unary::Kind::kClip:
      return clip(x, alpha, beta);
    case Unary::Kind::kSigmoid:
      return 1 / (1 + std::exp(-x));
    case Unary::Kind::kHardSigmoid:
      return clip(alpha * x + beta, 0, 1);
    case Unary::Kind::kHardSwish:
      return x * clip(alpha * x + beta, 0, 1);
    case Unary::Kind::kSilu:
      return x / (1 + std::exp(-x));
    case Unary::Kind::kMish:
      return x * std::tanh(softplus(x));
    case Unary::Kind::kTanh:
      return std::tanh(x);
    case Unary::Kind::kExp:
      return std::exp(x);
    case Unary::Kind::kLog:
      return std::log(x);
    case Unary::Kind::kSqrt:
      return std::sqrt(x);
    case Unary::Kind::kAbs:
      return std::fabs(x);
    case Unary::Kind::kNegate:
      return -x;
    case Unary::Kind::kErf:
      return std::erf(x);
    case Unary::Kind::kSoftplus:
      return softplus(x);
    case Unary::Kind::kElu:
      return x < 0 ? alpha * std::expm1(x) : x;
    case Unary::Kind::kReciprocal:
      return 1 / x;
    case Unary::Kind::kFloor:
      return std::floor(x);
    case Unary::Kind::kCeil:
      return std::ceil(x);
    case Unary::Kind::kLinear:
      return alpha * x + beta;
    case Unary::Kind::kSin:
      return std::sin(x);
    case Unary::Kind::kCos:
      return std::cos(x);
    case Unary::Kind::kTan:
      return std::tan(x);
    case Unary::Kind::kAsin:
      return std::asin(x);
    case Unary::Kind::kAcos:
      return std::acos(x);
    case Unary::Kind::kAtan:
      return std::atan(x);
    case Unary::Kind::kSinh:
      return std::sinh(x);
    case Unary::Kind::kCosh:
      return std::cosh(x);
    case Unary::Kind::kAsinh:
      return std::asinh(x);
    case Unary::Kind::kAcosh:
      return std::acosh(x);
    case Unary::Kind::kAtanh:
      return std::atanh(x);
    case Unary::Kind::kRound:
      return std::nearbyint(x);
    case Unary::Kind::kSign:
      return x > 0 ? 1 : x < 0 ? -1 : x * 0;
    case Unary::Kind::kNot:
      return x;  // Of no floating point type: see below.
    case Unary::Kind::kThresholdedRelu:
      return x > alpha ? x : 0;
    case Unary::Kind::kShrink:
      return x < -alpha ? x + beta : x > alpha ? x - beta : 0;
    case Unary::Kind::kGelu:
      return x / 2 * (1 + std::erf(x * 0.70710678118654752440));
    case Unary::Kind::kGeluTanh:
      return x / 2 * (1 + std::tanh(0.79788456080286535588 * (x + 0.044715 * x * x * x)));
  }
  return x;
}

template <typename T, Unary::Kind kind>
void FloatLoop(const std::byte* x, std::byte* y, std::size_t n, float alpha, float beta) {
  const auto* from = reinterpret_cast<const T*>(x);
  auto* to = reinterpret_cast<T*>(y);
  for (std::size_t i = 0; i < n; ++i) {
    to[i] = static_cast<T>(Function(kind, from[i], alpha, beta));
  }
}

template <typename T, std::size_t... kinds>
constexpr std::array<TypedUnary, kAllUnaryKinds> FloatTable(std::index_sequence<kinds...>) {
  return {&FloatLoop<T, static_cast<Unary::Kind>(kinds)>...};
}

template <typename T>
TypedUnary FloatUnary(Unary::Kind kind) {
  static constexpr auto kTable = FloatTable<T>(std::make_index_sequence<kAllUnaryKinds>());
  return kind == Unary::Kind::kNot ? nullptr : kTable[static_cast<std::size_t>(kind)];
}

// Arithmetic modulo the range of T, in an unsigned type that is not promoted to a signed one.
template <typename T>
using Wrapping = std::conditional_t<sizeof(T) <= 4, std::uint32_t, std::uint64_t>;

template <typename T>
bool IsMinusOne(T x) {
  return std::is_signed_v<T> && x == static_cast<T>(-1);
}

template <typename T, typename F>
void MapLoop(const std::byte* x, std::byte* y, std::size_t n, const F& f) {
  const auto* from = reinterpret_cast<const T*>(x);
  auto* to = reinterpret_cast<T*>(y);
  for (std::size_t i = 0; i < n; ++i) to[i] = f(from[i]);
}

template <typename T>
TypedUnary IntegerUnary(Unary::Kind kind) {
  using W = Wrapping<T>;
  switch (kind) {
    case Unary::Kind::kRelu:
      return [](const std::byte* x, std::byte* y, std::size_t n, float, float) {
        MapLoop<T>(x, y, n, [](T v) { return v > 0 ? v : T{0}; });
      };
    case Unary::Kind::kAbs:
      return [](const std::byte* x, std::byte* y, std::size_t n, float, float) {
        MapLoop<T>(x, y, n, [](T v) { return v > 0 ? v : static_cast<T>(W{0} - W(v)); });
      };
    case Unary::Kind::kNegate:
      return [](const std::byte* x, std::byte* y, std::size_t n, float, float) {
        MapLoop<T>(x, y, n, [](T v) { return static_cast<T>(W{0} - W(v)); });
      };
    case Unary::Kind::kSign:
      return [](const std::byte* x, std::byte* y, std::size_t n, float, float) {
        MapLoop<T>(x, y, n, [](T v) { return static_cast<T>((v > 0) - (v < 0)); });
      };
    case Unary::Kind::kNot:
      return [](const std::byte* x, std::byte* y, std::size_t n, float, float) {
        MapLoop<T>(x, y, n, [](T v) { return static_cast<T>(~v); });
      };
    case Unary::Kind::kFloor:
    case Unary::Kind::kCeil:
    case Unary::Kind::kRound:
      return [](const std::byte* x, std::byte* y, std::size_t n, float, float) {
        MapLoop<T>(x, y, n, [](T v) { return v; });
      };
    default:
      return nullptr;
  }
}

// Any byte but zero is true, whatever a caller sent.
TypedUnary BoolUnary(Unary::Kind kind) {
  if (kind != Unary::Kind::kNot) return nullptr;
  return [](const std::byte* x, std::byte* y, std::size_t n, float, float) {
    MapLoop<std::uint8_t>(x, y, n, [](std::uint8_t v) { return std::uint8_t{v == 0}; });
  };
}

template <typename T, typename R, typename F>
void BothLoop(StepOperand a, StepOperand b, std::byte* y, std::size_t n, const F& f) {
  const auto* left = reinterpret_cast<const T*>(a.data);
  const auto* right = reinterpret_cast<const T*>(b.data);
  auto* to = reinterpret_cast<R*>(y);
  for (std::size_t i = 0; i < n; ++i) to[i] = f(left[i * a.step], right[i * b.step]);
}

// A loop over the function that a lambda without captures is, of operands of type T.
template <typename T, typename R, typename F>
TypedBinary LoopOf(F) {
  return [](StepOperand a, StepOperand b, std::byte* y, std::size_t n) {
    BothLoop<T, R>(a, b, y, n, F());
  };
}

template <typename T>
TypedBinary FloatBinary(Binary::Kind kind) {
  switch (kind) {
    case Binary::Kind::kAdd:
      return LoopOf<T, T>([](T a, T b) { return a + b; });
    case Binary::Kind::kSubtract:
      return LoopOf<T, T>([](T a, T b) { return a - b; });
    case Binary::Kind::kMultiply:
      return LoopOf<T, T>([](T a, T b) { return a * b; });
    case Binary::Kind::kDivide:
      return LoopOf<T, T>([](T a, T b) { return a / b; });
    case Binary::Kind::kMaximum:
      return LoopOf<T, T>([](T a, T b) { return a != a || a > b ? a : b; });
    case Binary::Kind::kMinimum:
      return LoopOf<T, T>([](T a, T b) { return a != a || a < b ? a : b; });
    case Binary::Kind::kModulo:
      return LoopOf<T, T>([](T a, T b) {
        const double x = a, divisor = b;
        return static_cast<T>(x - std::floor(x / divisor) * divisor);
      });
    case Binary::Kind::kRemainder:
      return LoopOf<T, T>([](T a, T b) { return std::fmod(a, b); });
    default:
      return nullptr;
  }
}

template <typename T>
TypedBinary IntegerArithmetic(Binary::Kind kind) {
  using W = Wrapping<T>;
  switch (kind) {
    case Binary::Kind::kAdd:
      return LoopOf<T, T>([](T a, T b) { return static_cast<T>(W(a) + W(b)); });
    case Binary::Kind::kSubtract:
      return LoopOf<T, T>([](T a, T b) { return static_cast<T>(W(a) - W(b)); });
    case Binary::Kind::kMultiply:
      return LoopOf<T, T>([](T a, T b) { return static_cast<T>(W(a) * W(b)); });
    case Binary::Kind::kDivide:
      return LoopOf<T, T>([](T a, T b) {
        if (b == 0) return T{0};
        return IsMinusOne(b) ? static_cast<T>(W{0} - W(a)) : static_cast<T>(a / b);
      });
    case Binary::Kind::kMaximum:
      return LoopOf<T, T>([](T a, T b) { return a > b ? a : b; });
    case Binary::Kind::kMinimum:
      return LoopOf<T, T>([](T a, T b) { return a < b ? a : b; });
    case Binary::Kind::kModulo:
      return LoopOf<T, T>([](T a, T b) {
        if (b == 0 || IsMinusOne(b)) return T{0};
        const T rest = static_cast<T>(a % b);
        return rest != 0 && (rest < 0) != (b < 0) ? static_cast<T>(rest + b) : rest;
      });
    case Binary::Kind::kRemainder:
      return LoopOf<T, T>(
          [](T a, T b) { return b == 0 || IsMinusOne(b) ? T{0} : static_cast<T>(a % b); });
    default:
      return nullptr;
  }
}

// What a sign makes no difference to. T: an unsigned type.
template <typename T>
TypedBinary BitsBinary(Binary::Kind kind) {
  constexpr T kWidth = 8 * sizeof(T);
  switch (kind) {
    case Binary::Kind::kAnd:
      return LoopOf<T, T>([](T a, T b) { return static_cast<T>(a & b); });
    case Binary::Kind::kOr:
      return LoopOf<T, T>([](T a, T b) { return static_cast<T>(a | b); });
    case Binary::Kind::kXor:
      return LoopOf<T, T>([](T a, T b) { return static_cast<T>(a ^ b); });
    case Binary::Kind::kShiftLeft:
      return LoopOf<T, T>([](T a, T b) {
        return b < kWidth ? static_cast<T>(static_cast<std::uint64_t>(a) << b) : T{0};
      });
    case Binary::Kind::kShiftRight:
      return LoopOf<T, T>([](T a, T b) { return b < kWidth ? static_cast<T>(a >> b) : T{0}; });
    default:
      return nullptr;
  }
}

template <typename T>
TypedBinary IntegerBinary(Binary::Kind kind) {
  if (kind < Binary::Kind::kAnd) return IntegerArithmetic<T>(kind);
  // Bits of a negative number do not say how far to shift.
  if (std::is_signed_v<T> && kind > Binary::Kind::kXor) return nullptr;
  return BitsBinary<std::make_unsigned_t<T>>(kind);
}

TypedBinary BoolBinary(Binary::Kind kind) {
  using B = std::uint8_t;
  switch (kind) {
    case Binary::Kind::kAnd:
    case Binary::Kind::kMinimum:
      return LoopOf<B, B>([](B a, B b) { return B{a != 0 && b != 0}; });
    case Binary::Kind::kOr:
    case Binary::Kind::kMaximum:
      return LoopOf<B, B>([](B a, B b) { return B{a != 0 || b != 0}; });
    case Binary::Kind::kXor:
      return LoopOf<B, B>([](B a, B b) { return B{(a != 0) != (b != 0)}; });
    default:
      return nullptr;
  }
}

template <typename T>
TypedBinary CompareLoop(Compare::Kind kind) {
  using B = std::uint8_t;
  switch (kind) {
    case Compare::Kind::kEqual:
      return LoopOf<T, B>([](T a, T b) { return B{a == b}; });
    case Compare::Kind::kLess:
      return LoopOf<T, B>([](T a, T b) { return B{a < b}; });
    case Compare::Kind::kLessOrEqual:
      return LoopOf<T, B>([](T a, T b) { return B{a <= b}; });
  }
  return nullptr;
}

TypedBinary BoolCompare(Compare::Kind kind) {
  using B = std::uint8_t;
  if (kind != Compare::Kind::kEqual) return nullptr;
  return LoopOf<B, B>([](B a, B b) { return B{(a != 0) == (b != 0)}; });
}

}  // namespace

TypedUnary TypedUnaryFor(Unary::Kind kind, DataType type) {
  switch (type) {
    case DataType::kFloat32:
      return FloatUnary<float>(kind);
    case DataType::kFloat64:
      return FloatUnary<double>(kind);
    case DataType::kInt8:
      return IntegerUnary<std::int8_t>(kind);
    case DataType::kInt16:
      return IntegerUnary<std::int16_t>(kind);
    case DataType::kInt32:
      return IntegerUnary<std::int32_t>(kind);
    case DataType::kInt64:
      return IntegerUnary<std::int64_t>(kind);
    case DataType::kUint8:
      return IntegerUnary<std::uint8_t>(kind);
    case DataType::kUint16:
      return IntegerUnary<std::uint16_t>(kind);
    case DataType::kUint32:
      return IntegerUnary<std::uint32_t>(kind);
    case DataType::kUint64:
      return IntegerUnary<std::uint64_t>(kind);
    case DataType::kBool:
      return BoolUnary(kind);
    default:
      return nullptr;
  }
}

TypedBinary TypedBinaryFor(Binary::Kind kind, DataType type) {
  switch (type) {
    case DataType::kFloat32:
      return FloatBinary<float>(kind);
    case DataType::kFloat64:
      return FloatBinary<double>(kind);
    case DataType::kInt8:
      return IntegerBinary<std::int8_t>(kind);
    case DataType::kInt16:
      return IntegerBinary<std::int16_t>(kind);
    case DataType::kInt32:
      return IntegerBinary<std::int32_t>(kind);
    case DataType::kInt64:
      return IntegerBinary<std::int64_t>(kind);
    case DataType::kUint8:
      return IntegerBinary<std::uint8_t>(kind);
    case DataType::kUint16:
      return IntegerBinary<std::uint16_t>(kind);
    case DataType::kUint32:
      return IntegerBinary<std::uint32_t>(kind);
    case DataType::kUint64:
      return IntegerBinary<std::uint64_t>(kind);
    case DataType::kBool:
      return BoolBinary(kind);
    default:
      return nullptr;
  }
}

TypedBinary TypedCompareFor(Compare::Kind kind, DataType type) {
  switch (type) {
    case DataType::kFloat32:
      return CompareLoop<float>(kind);
    case DataType::kFloat64:
      return CompareLoop<double>(kind);
    case DataType::kInt8:
      return CompareLoop<std::int8_t>(kind);
    case DataType::kInt16:
      return CompareLoop<std::int16_t>(kind);
    case DataType::kInt32:
      return CompareLoop<std::int32_t>(kind);
    case DataType::kInt64:
      return CompareLoop<std::int64_t>(kind);
    case DataType::kUint8:
      return CompareLoop<std::uint8_t>(kind);
    case DataType::kUint16:
      return CompareLoop<std::uint16_t>(kind);
    case DataType::kUint32:
      return CompareLoop<std::uint32_t>(kind);
    case DataType::kUint64:
      return CompareLoop<std::uint64_t>(kind);
    case DataType::kBool:
      return BoolCompare(kind);
    default:
      return nullptr;
  }
}

}  // namespace sluice::kernels
