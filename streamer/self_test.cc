#include "streamer/self_test.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>

#include "base/check.h"

namespace sluice {
namespace {

// Element `i` of a stream: splitmix64, by G. Steele, D. Lea, C. Flood, "Fast Splittable
// Pseudorandom Number Generators", OOPSLA 2014.
std::uint64_t Mixed(std::uint64_t stream, std::uint64_t i) {
  std::uint64_t z = (stream + 1) * 0xbf58476d1ce4e5b9u + (i + 1) * 0x9e3779b97f4a7c15u;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}

template <typename T, typename Make>
void Fill(std::span<std::byte> into, std::uint64_t stream, const Make& make) {
  for (std::size_t i = 0; i < into.size() / sizeof(T); ++i) {
    const T value = make(Mixed(stream, i));
    std::memcpy(into.data() + i * sizeof(T), &value, sizeof(T));
  }
}

// Bits of the number k / 128, k from 0 to 127, in a format with `fraction` bits behind the leading
// one and that bias of the exponent: exact in bfloat16 too.
std::uint16_t SixteenBits(std::uint64_t bits, unsigned fraction, unsigned bias) {
  const auto k = static_cast<unsigned>(bits >> 57);
  if (k == 0) return 0;
  const auto exponent = static_cast<unsigned>(31 - __builtin_clz(k));
  const unsigned mantissa = (k << (fraction - exponent)) & ((1u << fraction) - 1);
  return static_cast<std::uint16_t>(((bias + exponent - 7) << fraction) | mantissa);
}

template <typename T>
void MakeNansEqual(std::span<std::byte> bytes) {
  for (std::size_t at = 0; at + sizeof(T) <= bytes.size(); at += sizeof(T)) {
    T value;
    std::memcpy(&value, bytes.data() + at, sizeof(T));
    if (!std::isnan(value)) continue;
    value = std::numeric_limits<T>::quiet_NaN();
    std::memcpy(bytes.data() + at, &value, sizeof(T));
  }
}

// `infinity`: the bits of positive infinity; what lies above them, sign apart, is NaN.
void MakeNansEqual(std::span<std::byte> bytes, std::uint16_t infinity) {
  for (std::size_t at = 0; at + 2 <= bytes.size(); at += 2) {
    std::uint16_t value = 0;
    std::memcpy(&value, bytes.data() + at, 2);
    if ((value & 0x7fffu) <= infinity) continue;
    value = 0x7fffu;
    std::memcpy(bytes.data() + at, &value, 2);
  }
}

void MakeNansEqual(DataType type, std::span<std::byte> bytes) {
  if (type == DataType::kFloat32) MakeNansEqual<float>(bytes);
  if (type == DataType::kFloat64) MakeNansEqual<double>(bytes);
  if (type == DataType::kFloat16) MakeNansEqual(bytes, 0x7c00u);
  if (type == DataType::kBfloat16) MakeNansEqual(bytes, 0x7f80u);
}

}  // namespace

void FillSelfTestInput(const PortInfo& port, std::size_t index, std::span<std::byte> into) {
  SLUICE_CHECK(Bytes::Of(into.size()) == TensorBytes(port.type, port.shape));
  const auto top_bit = [](std::uint64_t bits) { return bits >> 63; };
  switch (port.type) {
    case DataType::kFloat32:
      return Fill<float>(into, index, [](std::uint64_t bits) {
        return static_cast<float>(bits >> 40) * 0x1p-24f;
      });
    case DataType::kFloat64:
      return Fill<double>(into, index, [](std::uint64_t bits) {
        return static_cast<double>(bits >> 11) * 0x1p-53;
      });
    case DataType::kFloat16:
      return Fill<std::uint16_t>(into, index,
                                 [](std::uint64_t bits) { return SixteenBits(bits, 10, 15); });
    case DataType::kBfloat16:
      return Fill<std::uint16_t>(into, index,
                                 [](std::uint64_t bits) { return SixteenBits(bits, 7, 127); });
    case DataType::kInt8:
    case DataType::kUint8:
    case DataType::kBool:
      return Fill<std::uint8_t>(into, index, [&](std::uint64_t bits) {
        return static_cast<std::uint8_t>(top_bit(bits));
      });
    case DataType::kInt16:
    case DataType::kUint16:
      return Fill<std::uint16_t>(into, index, [&](std::uint64_t bits) {
        return static_cast<std::uint16_t>(top_bit(bits));
      });
    case DataType::kInt32:
    case DataType::kUint32:
      return Fill<std::uint32_t>(into, index, [&](std::uint64_t bits) {
        return static_cast<std::uint32_t>(top_bit(bits));
      });
    case DataType::kInt64:
    case DataType::kUint64:
      return Fill<std::uint64_t>(into, index, top_bit);
  }
}

void AddSelfTestOutput(const PortInfo& port, std::span<const std::byte> output,
                       RunningChecksum& answer) {
  SLUICE_CHECK(Bytes::Of(output.size()) == TensorBytes(port.type, port.shape));
  std::array<std::byte, 4096> window;
  while (!output.empty()) {
    const std::span<std::byte> piece(window.data(), std::min(window.size(), output.size()));
    std::memcpy(piece.data(), output.data(), piece.size());
    MakeNansEqual(port.type, piece);
    answer.Add(piece);
    output = output.subspan(piece.size());
  }
}

}  // namespace sluice
