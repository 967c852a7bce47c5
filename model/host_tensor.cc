#include "model/host_tensor.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#include "absl/strings/str_format.h"
#include "base/check.h"
#include "base/status_macros.h"

namespace sluice {
namespace {

float HalfToFloat(std::uint16_t half) {
  const std::uint32_t sign = std::uint32_t{half & 0x8000u} << 16;
  const std::uint32_t exponent = (half >> 10) & 0x1fu;
  const std::uint32_t mantissa = half & 0x3ffu;
  if (exponent == 0) {
    const float magnitude = std::ldexp(static_cast<float>(mantissa), -24);
    return sign != 0 ? -magnitude : magnitude;
  }
  const std::uint32_t wide = exponent == 31 ? 255 : exponent + 112;
  return std::bit_cast<float>(sign | (wide << 23) | (mantissa << 13));
}

std::uint16_t FloatToHalf(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const auto sign = static_cast<std::uint16_t>((bits >> 16) & 0x8000u);
  if (std::isnan(value)) return static_cast<std::uint16_t>(sign | 0x7e00u);
  const float magnitude = std::fabs(value);
  if (magnitude >= 65520.0f) return static_cast<std::uint16_t>(sign | 0x7c00u);
  if (magnitude < 0x1p-14f) {
    // A subnormal: the sum's low mantissa bits are the result, rounded to nearest even.
    const float steps = std::nearbyint(std::ldexp(magnitude, 24));
    return static_cast<std::uint16_t>(sign | static_cast<std::uint16_t>(steps));
  }
  const std::uint32_t abs = bits & 0x7fffffffu;
  const std::uint32_t rounded = abs + 0xfffu + ((abs >> 13) & 1u);
  return static_cast<std::uint16_t>(sign | ((rounded - (112u << 23)) >> 13));
}

std::uint16_t FloatToBfloat16(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  if (std::isnan(value)) return static_cast<std::uint16_t>((bits >> 16) | 0x40u);
  return static_cast<std::uint16_t>((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
}

template <typename T>
T Load(std::span<const std::byte> bytes, std::size_t i) {
  T element;
  std::memcpy(&element, bytes.data() + i * sizeof(T), sizeof(T));
  return element;
}

template <typename T>
void Store(T element, std::vector<std::byte>& bytes, std::size_t i) {
  std::memcpy(bytes.data() + i * sizeof(T), &element, sizeof(T));
}

float FloatAt(DataType type, std::span<const std::byte> bytes, std::size_t i) {
  switch (type) {
    case DataType::kFloat32:
      return Load<float>(bytes, i);
    case DataType::kFloat64:
      return static_cast<float>(Load<double>(bytes, i));
    case DataType::kFloat16:
      return HalfToFloat(Load<std::uint16_t>(bytes, i));
    case DataType::kBfloat16:
      return std::bit_cast<float>(std::uint32_t{Load<std::uint16_t>(bytes, i)} << 16);
    default:
      SLUICE_CHECK(false);
  }
  return 0;
}

std::int64_t IntegerAt(DataType type, std::span<const std::byte> bytes, std::size_t i) {
  switch (type) {
    case DataType::kInt8:
      return Load<std::int8_t>(bytes, i);
    case DataType::kInt16:
      return Load<std::int16_t>(bytes, i);
    case DataType::kInt32:
      return Load<std::int32_t>(bytes, i);
    case DataType::kInt64:
      return Load<std::int64_t>(bytes, i);
    case DataType::kUint8:
      return Load<std::uint8_t>(bytes, i);
    case DataType::kUint16:
      return Load<std::uint16_t>(bytes, i);
    case DataType::kUint32:
      return Load<std::uint32_t>(bytes, i);
    case DataType::kUint64:
      return static_cast<std::int64_t>(Load<std::uint64_t>(bytes, i));
    case DataType::kBool:
      return Load<std::uint8_t>(bytes, i) != 0 ? 1 : 0;
    default:
      SLUICE_CHECK(false);
  }
  return 0;
}

absl::StatusOr<std::vector<std::byte>> ReadSmall(const Value& value) {
  if (value.constant == nullptr) {
    return absl::InvalidArgumentError(
        absl::StrFormat("\"%s\" is computed, want a constant", value.name));
  }
  if (value.constant->size() > kMaxVector) {
    return absl::ResourceExhaustedError(
        absl::StrFormat("\"%s\" has %s, the limit for a constant that is read at load is %s",
                        value.name, FormatBytes(value.constant->size()), FormatBytes(kMaxVector)));
  }
  std::vector<std::byte> bytes(static_cast<std::size_t>(value.constant->size().count()));
  SLUICE_RETURN_IF_ERROR(value.constant->Read(Bytes(), bytes));
  return bytes;
}

}  // namespace

bool IsFloat(DataType type) {
  return type == DataType::kFloat32 || type == DataType::kFloat64 || type == DataType::kFloat16 ||
         type == DataType::kBfloat16;
}

bool IsInteger(DataType type) { return !IsFloat(type); }

absl::StatusOr<std::vector<float>> ReadFloats(const Value& value) {
  if (!IsFloat(value.type)) {
    return absl::InvalidArgumentError(absl::StrFormat("\"%s\" is %s, want a floating point type",
                                                      value.name, ProtocolName(value.type)));
  }
  SLUICE_ASSIGN_OR_RETURN(const std::vector<std::byte> bytes, ReadSmall(value));
  std::vector<float> elements(static_cast<std::size_t>(ElementCount(value.shape)));
  for (std::size_t i = 0; i < elements.size(); ++i) elements[i] = FloatAt(value.type, bytes, i);
  return elements;
}

absl::StatusOr<std::vector<std::int64_t>> ReadIntegers(const Value& value) {
  if (!IsInteger(value.type)) {
    return absl::InvalidArgumentError(absl::StrFormat("\"%s\" is %s, want an integer type",
                                                      value.name, ProtocolName(value.type)));
  }
  SLUICE_ASSIGN_OR_RETURN(const std::vector<std::byte> bytes, ReadSmall(value));
  std::vector<std::int64_t> elements(static_cast<std::size_t>(ElementCount(value.shape)));
  for (std::size_t i = 0; i < elements.size(); ++i) elements[i] = IntegerAt(value.type, bytes, i);
  return elements;
}

std::vector<std::byte> PackFloats(DataType type, std::span<const float> elements) {
  std::vector<std::byte> bytes(elements.size() * static_cast<std::size_t>(SizeOf(type).count()));
  for (std::size_t i = 0; i < elements.size(); ++i) {
    switch (type) {
      case DataType::kFloat32:
        Store(elements[i], bytes, i);
        break;
      case DataType::kFloat64:
        Store(static_cast<double>(elements[i]), bytes, i);
        break;
      case DataType::kFloat16:
        Store(FloatToHalf(elements[i]), bytes, i);
        break;
      case DataType::kBfloat16:
        Store(FloatToBfloat16(elements[i]), bytes, i);
        break;
      default:
        SLUICE_CHECK(false);
    }
  }
  return bytes;
}

std::vector<std::byte> PackIntegers(DataType type, std::span<const std::int64_t> elements) {
  const auto width = static_cast<std::size_t>(SizeOf(type).count());
  std::vector<std::byte> bytes(elements.size() * width);
  for (std::size_t i = 0; i < elements.size(); ++i) {
    const std::int64_t element = type == DataType::kBool ? (elements[i] != 0 ? 1 : 0) : elements[i];
    std::memcpy(bytes.data() + i * width, &element, width);
  }
  return bytes;
}

absl::StatusOr<std::vector<std::byte>> PackNumbers(DataType type,
                                                   std::span<const double> elements) {
  if (IsFloat(type)) {
    if (type == DataType::kFloat64) {
      const std::span<const std::byte> bytes = std::as_bytes(elements);
      return std::vector<std::byte>(bytes.begin(), bytes.end());
    }
    return PackFloats(type, std::vector<float>(elements.begin(), elements.end()));
  }
  constexpr double kExact = 0x1p53;
  std::vector<std::int64_t> integers;
  integers.reserve(elements.size());
  for (const double element : elements) {
    const bool whole = element >= -kExact && element <= kExact && element == std::trunc(element);
    if (whole) integers.push_back(static_cast<std::int64_t>(element));
  }
  Value packed{.name = {}, .type = type, .shape = {std::ssize(integers)}, .constant = {}};
  packed.constant = InlineConstant(PackIntegers(type, integers));
  SLUICE_ASSIGN_OR_RETURN(const std::vector<std::int64_t> kept, ReadIntegers(packed));
  if (integers.size() == elements.size() && kept == integers) {
    std::vector<std::byte> bytes(packed.constant->in_memory().begin(),
                                 packed.constant->in_memory().end());
    return bytes;
  }
  return absl::InvalidArgumentError(
      absl::StrFormat("a number is none of type %s", ProtocolName(type)));
}

std::vector<std::size_t> BroadcastIndices(std::span<const std::int64_t> from,
                                          std::span<const std::int64_t> to) {
  SLUICE_CHECK(from.size() <= to.size());
  std::vector<std::size_t> indices = {0};
  // Grows from the innermost dimension outwards: each one repeats what is there so far.
  std::size_t stride = 1;
  for (std::size_t d = to.size(); d-- > 0;) {
    const std::size_t lead = to.size() - from.size();
    const std::size_t own = d >= lead ? static_cast<std::size_t>(from[d - lead]) : 1;
    const std::size_t inner = indices.size();
    indices.resize(inner * static_cast<std::size_t>(to[d]));
    for (std::size_t i = inner; i < indices.size(); ++i) {
      indices[i] = indices[i % inner] + (own == 1 ? 0 : i / inner * stride);
    }
    stride *= own;
  }
  return indices;
}

}  // namespace sluice
