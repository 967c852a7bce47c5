// model/element.h
//
// Element types as C++ types, and conversion between all of them. As the definition says: to a
// float type the nearest value, from a float to an integer type towards zero and clamped (NaN to
// zero), between integers modulo the range, to BOOL "is not zero".

#ifndef SLUICE_MODEL_ELEMENT_H_
#define SLUICE_MODEL_ELEMENT_H_

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "base/check.h"
#include "model/data_type.h"

namespace sluice {

// Rounds to float so that a second rounding, to fewer bits, gives what one rounding would have: an
// inexact result gets an odd last bit.
inline float RoundToOdd(double x) {
  const auto nearest = static_cast<float>(x);
  if (!std::isfinite(nearest) || static_cast<double>(nearest) == x) return nearest;
  auto bits = std::bit_cast<std::uint32_t>(nearest);
  if (std::fabs(static_cast<double>(nearest)) > std::fabs(x)) --bits;
  return std::bit_cast<float>(bits | 1u);
}

struct Half {
  std::uint16_t bits;

  static Half From(float x) {
    const auto source = std::bit_cast<std::uint32_t>(x);
    const std::uint32_t sign = (source >> 16) & 0x8000u, magnitude = source & 0x7fffffffu;
    std::uint32_t bits;
    if (magnitude > 0x7f800000u) {
      bits = 0x7e00u;
    } else if (magnitude >= 0x477ff000u) {  // Rounds to 2^16 or more.
      bits = 0x7c00u;
    } else if (magnitude < 0x38800000u) {  // Below the least normal: adding 1/2 aligns the bits.
      bits = std::bit_cast<std::uint32_t>(std::bit_cast<float>(magnitude) + 0.5f) - 0x3f000000u;
    } else {
      bits = (magnitude - 0x38000000u + 0xfffu + ((magnitude >> 13) & 1u)) >> 13;
    }
    return {static_cast<std::uint16_t>(sign | bits)};
  }
  float Get() const {
    const std::uint32_t sign = (bits & 0x8000u) << 16, magnitude = bits & 0x7fffu;
    if (magnitude >= 0x7c00u) {
      return std::bit_cast<float>(sign | 0x7f800000u | ((magnitude & 0x3ffu) << 13));
    }
    // Shifted into place the exponent is too small by 112, for subnormals too.
    const float scaled = std::bit_cast<float>(magnitude << 13) * std::bit_cast<float>(0x77800000u);
    return std::bit_cast<float>(sign | std::bit_cast<std::uint32_t>(scaled));
  }
};

struct Bfloat16 {
  std::uint16_t bits;

  static Bfloat16 From(float x) {
    const auto source = std::bit_cast<std::uint32_t>(x);
    if (std::isnan(x)) return {0x7fc0u};
    return {static_cast<std::uint16_t>((source + 0x7fffu + ((source >> 16) & 1u)) >> 16)};
  }
  float Get() const { return std::bit_cast<float>(std::uint32_t{bits} << 16); }
};

// BOOL as it is read: any byte but zero is true, whatever a caller sent.
struct Truth {
  std::uint8_t byte;

  std::uint8_t Get() const { return byte != 0 ? 1 : 0; }
};

template <typename T>
inline constexpr bool kIsShort = std::is_same_v<T, Half> || std::is_same_v<T, Bfloat16>;

template <typename To, typename From>
To Convert(From x) {
  if constexpr (std::is_same_v<To, From>) {
    return x;
  } else if constexpr (kIsShort<From> || std::is_same_v<From, Truth>) {
    return Convert<To>(x.Get());
  } else if constexpr (kIsShort<To>) {
    if constexpr (std::is_same_v<From, float> || sizeof(From) <= 2) {
      return To::From(static_cast<float>(x));
    } else {
      return To::From(RoundToOdd(static_cast<double>(x)));
    }
  } else if constexpr (std::is_same_v<To, bool>) {
    return x != From{};
  } else if constexpr (std::is_floating_point_v<From> && std::is_integral_v<To>) {
    using Limits = std::numeric_limits<To>;
    constexpr auto kLow = static_cast<From>(Limits::lowest());
    constexpr auto kHigh = static_cast<From>(Limits::max());  // Or the next above.
    if (std::isnan(x)) return To{0};
    if (x <= kLow) return Limits::lowest();
    return x >= kHigh ? Limits::max() : static_cast<To>(x);
  } else {
    return static_cast<To>(x);
  }
}

// What arithmetic on T is done in: float for the short types, T itself otherwise.
template <typename T>
using Wide = std::conditional_t<kIsShort<T>, float, T>;

// Calls visit.template operator()<T>() with the C++ type of `type`; BOOL is read as Truth.
template <typename Visit>
decltype(auto) WithElement(DataType type, const Visit& visit) {
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
      break;
  }
  SLUICE_CHECK(type == DataType::kBool);
  return visit.template operator()<Truth>();
}

}  // namespace sluice

#endif  // SLUICE_MODEL_ELEMENT_H_
