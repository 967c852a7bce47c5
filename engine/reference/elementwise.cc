#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "engine/reference/definitions.h"
#include "engine/reference/element.h"

namespace sluice::reference {
namespace {

double Maximum(double a, double b) { return std::isnan(a) || a > b ? a : b; }
double Minimum(double a, double b) { return std::isnan(a) || a < b ? a : b; }
double Clip(double x, double low, double high) {
  return std::isnan(x) ? x : Minimum(Maximum(x, low), high);
}
// log(1 + exp(x)), where exp(x) may be out of range.
double Softplus(double x) { return Maximum(x, 0) + std::log1p(std::exp(-std::fabs(x))); }

double Combine(Binary::Kind kind, double a, double b) {
  switch (kind) {
    case Binary::Kind::kAdd:
      return a + b;
    case Binary::Kind::kSubtract:
      return a - b;
    case Binary::Kind::kMultiply:
      return a * b;
    case Binary::Kind::kDivide:
      return a / b;
    case Binary::Kind::kPower:
      return std::pow(a, b);
    case Binary::Kind::kMaximum:
      return std::isnan(b) ? b : Maximum(a, b);
    case Binary::Kind::kMinimum:
      return std::isnan(b) ? b : Minimum(a, b);
    case Binary::Kind::kModulo:
      return a - std::floor(a / b) * b;
    case Binary::Kind::kRemainder:
      return std::fmod(a, b);
    default:
      return 0;  // Bits of integers.
  }
}

// Modulo the range of T: arithmetic is done in the unsigned type of 64 bits.
template <typename T>
T CombineIntegers(Binary::Kind kind, T a, T b) {
  const auto wide_a = static_cast<std::uint64_t>(a), wide_b = static_cast<std::uint64_t>(b);
  switch (kind) {
    case Binary::Kind::kAdd:
      return static_cast<T>(wide_a + wide_b);
    case Binary::Kind::kSubtract:
      return static_cast<T>(wide_a - wide_b);
    case Binary::Kind::kMultiply:
      return static_cast<T>(wide_a * wide_b);
    case Binary::Kind::kDivide:
      if (b == 0) return 0;
      if (std::is_signed_v<T> && b == static_cast<T>(-1)) return static_cast<T>(0 - wide_a);
      return static_cast<T>(a / b);
    case Binary::Kind::kPower:
      return Convert<T>(std::pow(static_cast<double>(a), static_cast<double>(b)));
    case Binary::Kind::kMaximum:
      return std::max(a, b);
    case Binary::Kind::kMinimum:
      return std::min(a, b);
    case Binary::Kind::kModulo:
    case Binary::Kind::kRemainder: {
      if (b == 0 || (std::is_signed_v<T> && b == static_cast<T>(-1))) return 0;
      const T rest = static_cast<T>(a % b);
      const bool other_sign = rest != 0 && (rest < 0) != (b < 0);
      return kind == Binary::Kind::kModulo && other_sign ? static_cast<T>(rest + b) : rest;
    }
    case Binary::Kind::kAnd:
      return static_cast<T>(wide_a & wide_b);
    case Binary::Kind::kOr:
      return static_cast<T>(wide_a | wide_b);
    case Binary::Kind::kXor:
      return static_cast<T>(wide_a ^ wide_b);
    case Binary::Kind::kShiftLeft:
      return wide_b < 8 * sizeof(T) ? static_cast<T>(wide_a << wide_b) : T{0};
    case Binary::Kind::kShiftRight:
      return wide_b < 8 * sizeof(T) ? static_cast<T>(wide_a >> wide_b) : T{0};
  }
  return 0;
}

// The element of a broadcast operand that belongs to `index`.
double NumberAt(const Tensor& tensor, const Shape& index) {
  double number = 0;
  WithElementType(tensor.type, [&]<typename T>() {
    number = Convert<double>(tensor.as<T>()[BroadcastOffset(tensor.shape, index)]);
  });
  return number;
}

template <typename T>
T ApplyInteger(Unary::Kind kind, T x) {
  switch (kind) {
    case Unary::Kind::kRelu:
      return x < 0 ? T{0} : x;
    case Unary::Kind::kAbs:
      return x < 0 ? static_cast<T>(0 - static_cast<std::uint64_t>(x)) : x;
    case Unary::Kind::kNegate:
      return static_cast<T>(0 - static_cast<std::uint64_t>(x));
    case Unary::Kind::kSign:
      return static_cast<T>(x > 0 ? 1 : x < 0 ? -1 : 0);
    case Unary::Kind::kNot:
      return static_cast<T>(~static_cast<std::uint64_t>(x));
    default:
      return x;  // Rounding; other functions have no integers.
  }
}

}  // namespace

double Apply(const Unary& unary, double x) {
  const double alpha = unary.alpha, beta = unary.beta;
  switch (unary.kind) {
    case Unary::Kind::kRelu:
      return Maximum(x, 0);
    case Unary::Kind::kLeakyRelu:
      return x < 0 ? alpha * x : x;
    case Unary::Kind::kClip:
      return Clip(x, alpha, beta);
    case Unary::Kind::kSigmoid:
      return 1 / (1 + std::exp(-x));
    case Unary::Kind::kHardSigmoid:
      return Clip(alpha * x + beta, 0, 1);
    case Unary::Kind::kHardSwish:
      return x * Clip(alpha * x + beta, 0, 1);
    case Unary::Kind::kSilu:
      return x / (1 + std::exp(-x));
    case Unary::Kind::kMish:
      return x * std::tanh(Softplus(x));
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
      return Softplus(x);
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
      return std::isnan(x) ? x : static_cast<double>((x > 0) - (x < 0));
    case Unary::Kind::kNot:
      return x == 0 ? 1 : 0;
    case Unary::Kind::kThresholdedRelu:
      return x > alpha ? x : 0;
    case Unary::Kind::kShrink:
      return x < -alpha ? x + beta : x > alpha ? x - beta : 0;
    case Unary::Kind::kGelu:
      return x / 2 * (1 + std::erf(x / std::sqrt(2.0)));
    case Unary::Kind::kGeluTanh:
      return x / 2 * (1 + std::tanh(std::sqrt(2 / std::acos(-1.0)) * (x + 0.044715 * x * x * x)));
  }
  return 0;
}

double Apply(std::span<const Epilogue> epilogues, Operands inputs, std::int64_t position,
             double value) {
  for (const Epilogue& epilogue : epilogues) {
    value = epilogue.kind == Epilogue::Kind::kUnary
                ? Apply(epilogue.unary, value)
                : value + inputs[epilogue.input].floats()[position];
  }
  return value;
}

void Define(const Unary& operation, Operands inputs, const Result& y) {
  WithElementType(y.type, [&]<typename T>() {
    for (std::int64_t i = 0; i < y.count(); ++i) {
      const T x = inputs[0].as<T>()[i];
      if constexpr (std::is_integral_v<T> && !std::is_same_v<T, bool>) {
        y.as<T>()[i] = ApplyInteger(operation.kind, x);
      } else {
        y.as<T>()[i] = Convert<T>(Apply(operation, Convert<double>(x)));
      }
    }
  });
}

void Define(const Binary& operation, Operands inputs, const Result& y) {
  WithElementType(y.type, [&]<typename T>() {
    std::int64_t position = 0;
    ForEachIndex(y.shape, [&](const Shape& index) {
      const T a = inputs[0].as<T>()[BroadcastOffset(inputs[0].shape, index)];
      T& out = y.as<T>()[position++];
      if (operation.kind == Binary::Kind::kPower) {
        out = Convert<T>(std::pow(Convert<double>(a), NumberAt(inputs[1], index)));
        return;
      }
      const T b = inputs[1].as<T>()[BroadcastOffset(inputs[1].shape, index)];
      if constexpr (std::is_same_v<T, bool>) {
        out = CombineIntegers<std::uint8_t>(operation.kind, a, b) != 0;
      } else if constexpr (std::is_integral_v<T>) {
        out = CombineIntegers(operation.kind, a, b);
      } else {
        out = Convert<T>(Combine(operation.kind, Convert<double>(a), Convert<double>(b)));
      }
    });
  });
}

void Define(const Compare& operation, Operands inputs, const Result& y) {
  WithElementType(inputs[0].type, [&]<typename T>() {
    std::int64_t position = 0;
    ForEachIndex(y.shape, [&](const Shape& index) {
      const T a = inputs[0].as<T>()[BroadcastOffset(inputs[0].shape, index)];
      const T b = inputs[1].as<T>()[BroadcastOffset(inputs[1].shape, index)];
      bool& out = y.as<bool>()[position++];
      const auto compare = [&](auto x, auto z) {
        out = operation.kind == Compare::Kind::kEqual  ? x == z
              : operation.kind == Compare::Kind::kLess ? x < z
                                                       : x <= z;
      };
      if constexpr (kIsShortFloat<T>) {
        compare(a.Get(), b.Get());
      } else {
        compare(a, b);
      }
    });
  });
}

void Define(const Classify& operation, Operands inputs, const Result& y) {
  WithElementType(inputs[0].type, [&]<typename T>() {
    for (std::int64_t i = 0; i < y.count(); ++i) {
      const double x = Convert<double>(inputs[0].as<T>()[i]);
      y.as<bool>()[i] = std::isnan(x)    ? operation.nan
                        : !std::isinf(x) ? false
                        : x > 0          ? operation.positive_infinity
                                         : operation.negative_infinity;
    }
  });
}

void Define(const Select&, Operands inputs, const Result& y) {
  WithElementType(y.type, [&]<typename T>() {
    std::int64_t position = 0;
    ForEachIndex(y.shape, [&](const Shape& index) {
      const bool first = inputs[0].as<bool>()[BroadcastOffset(inputs[0].shape, index)];
      const Tensor& chosen = inputs[first ? 1 : 2];
      y.as<T>()[position++] = chosen.as<T>()[BroadcastOffset(chosen.shape, index)];
    });
  });
}

void Define(const Cast&, Operands inputs, const Result& y) {
  WithElementType(inputs[0].type, [&]<typename From>() {
    WithElementType(y.type, [&]<typename To>() {
      for (std::int64_t i = 0; i < y.count(); ++i) {
        y.as<To>()[i] = Convert<To>(inputs[0].as<From>()[i]);
      }
    });
  });
}

void Define(const ChannelAffine& operation, Operands inputs, const Result& y) {
  const std::int64_t channels = y.shape[1];
  std::int64_t spatial = 1;
  for (std::size_t d = 2; d < y.rank(); ++d) spatial *= y.shape[d];
  for (std::int64_t i = 0; i < y.count(); ++i) {
    const std::int64_t c = i / spatial % channels;
    const double value =
        double{inputs[0].floats()[i]} * inputs[1].floats()[c] + inputs[2].floats()[c];
    y.floats()[i] = static_cast<float>(Apply(operation.epilogues, inputs, i, value));
  }
}

}  // namespace sluice::reference
