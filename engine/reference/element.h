// engine/reference/element.h
//
// Element types as C++ types, and what conversion between them means: to a float type, the nearest
// value, ties to even; from a float to an integer type, towards zero, clamped to the range, NaN to
// zero; between integer types, modulo the range; to BOOL, "is not zero".

#ifndef SLUICE_ENGINE_REFERENCE_ELEMENT_H_
#define SLUICE_ENGINE_REFERENCE_ELEMENT_H_

#include <cmath>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "base/check.h"
#include "model/data_type.h"

namespace sluice::reference {

// A 16-bit float: sign, exponent, and `kMantissa` bits of mantissa.
template <int kMantissa>
struct ShortFloat {
  static constexpr int kBias = kMantissa == 10 ? 15 : 127;
  static constexpr int kMinExponent = 1 - kBias;
  static constexpr int kInfinity = (2 * kBias + 1) << kMantissa;  // The bits.
  std::uint16_t bits = 0;

  double Get() const {
    const int magnitude = bits & 0x7fff;
    const double sign = (bits & 0x8000) != 0 ? -1.0 : 1.0;
    if (magnitude == kInfinity) return sign * std::numeric_limits<double>::infinity();
    if (magnitude > kInfinity) return std::numeric_limits<double>::quiet_NaN();
    const int field = magnitude >> kMantissa;
    const int mantissa = magnitude & ((1 << kMantissa) - 1);
    if (field == 0) return sign * std::ldexp(mantissa, kMinExponent - kMantissa);
    return sign * std::ldexp(mantissa + (1 << kMantissa), field - kBias - kMantissa);
  }
  static ShortFloat From(double x) {
    const int sign = std::signbit(x) ? 0x8000 : 0;
    if (std::isnan(x)) return {static_cast<std::uint16_t>(kInfinity | (1 << (kMantissa - 1)))};
    const double magnitude = std::fabs(x);
    if (magnitude >= std::ldexp(1.0, kBias + 1)) {
      return {static_cast<std::uint16_t>(sign | kInfinity)};
    }
    int exponent = kMinExponent;
    if (magnitude >= std::ldexp(1.0, kMinExponent)) exponent = std::ilogb(magnitude);
    // A mantissa that rounds up to the next power carries into the exponent, at the top to
    // infinity.
    const double units = std::nearbyint(std::ldexp(magnitude, kMantissa - exponent));
    const int bits = ((exponent - kMinExponent) << kMantissa) + static_cast<int>(units);
    return {static_cast<std::uint16_t>(sign | bits)};
  }
};
using Half = ShortFloat<10>;
using Bfloat16 = ShortFloat<7>;

template <typename T>
inline constexpr bool kIsShortFloat = std::is_same_v<T, Half> || std::is_same_v<T, Bfloat16>;

template <typename To, typename From>
To Convert(From from) {
  if constexpr (std::is_same_v<To, From>) {
    return from;
  } else if constexpr (kIsShortFloat<From>) {
    return Convert<To>(from.Get());
  } else if constexpr (kIsShortFloat<To>) {
    return To::From(static_cast<double>(from));
  } else if constexpr (std::is_same_v<To, bool>) {
    return from != From{};
  } else if constexpr (std::is_floating_point_v<From> && std::is_integral_v<To>) {
    if (std::isnan(from)) return 0;
    const double low = static_cast<double>(std::numeric_limits<To>::lowest());
    const double high = static_cast<double>(std::numeric_limits<To>::max());
    const double x = static_cast<double>(from);
    if (x <= low) return std::numeric_limits<To>::lowest();
    if (x >= high) return std::numeric_limits<To>::max();
    return static_cast<To>(x);
  } else {
    return static_cast<To>(from);
  }
}

// Calls visit.template operator()<T>() with the C++ type of `type`.
template <typename Visit>
void WithElementType(DataType type, const Visit& visit) {
  switch (type) {
    case DataType::kFloat32:
      return visit.template operator()<float>();
    case DataType::kFloat64:
      return visit.template operator()<double>();
    case DataType::kFloat16:
      return visit.template operator()<Half>();
    case DataType::kBfloat16:
      return visit.template operator()<Bfloat16>();
    case DataType::kInt8:
      return visit.template operator()<std::int8_t>();
    case DataType::kInt16:
      return visit.template operator()<std::int16_t>();
    case DataType::kInt32:
      return visit.template operator()<std::int32_t>();
    case DataType::kInt64:
      return visit.template operator()<std::int64_t>();
    case DataType::kUint8:
      return visit.template operator()<std::uint8_t>();
    case DataType::kUint16:
      return visit.template operator()<std::uint16_t>();
    case DataType::kUint32:
      return visit.template operator()<std::uint32_t>();
    case DataType::kUint64:
      return visit.template operator()<std::uint64_t>();
    case DataType::kBool:
      return visit.template operator()<bool>();
  }
  SLUICE_CHECK(false);
}

}  // namespace sluice::reference

#endif  // SLUICE_ENGINE_REFERENCE_ELEMENT_H_
