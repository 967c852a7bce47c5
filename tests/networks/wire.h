// tests/networks/wire.h
//
// The protobuf wire format, as far as writing an ONNX file needs it: messages are strings that
// fields are appended to. Written by hand so that weights can be streamed behind a length that is
// known beforehand, which the protobuf library has no call for.

#ifndef SLUICE_TESTS_NETWORKS_WIRE_H_
#define SLUICE_TESTS_NETWORKS_WIRE_H_

#include <bit>
#include <cstdint>
#include <string>
#include <string_view>

namespace sluice::wire {

static_assert(std::endian::native == std::endian::little, "fixed fields are copied as they are");

enum class Kind : std::uint32_t { kVarint = 0, kLength = 2, kFixed32 = 5 };

inline void AppendVarint(std::string& message, std::uint64_t value) {
  for (; value >= 0x80; value >>= 7) message.push_back(static_cast<char>(value | 0x80));
  message.push_back(static_cast<char>(value));
}

inline void AppendTag(std::string& message, std::uint32_t field, Kind kind) {
  AppendVarint(message, std::uint64_t{field} << 3 | static_cast<std::uint64_t>(kind));
}

// Negative numbers take ten bytes, as int64 does.
inline void AppendInt(std::string& message, std::uint32_t field, std::int64_t value) {
  AppendTag(message, field, Kind::kVarint);
  AppendVarint(message, static_cast<std::uint64_t>(value));
}

inline void AppendFloat(std::string& message, std::uint32_t field, float value) {
  AppendTag(message, field, Kind::kFixed32);
  const auto bits = std::bit_cast<std::uint32_t>(value);
  message.append(reinterpret_cast<const char*>(&bits), sizeof(bits));
}

// What precedes a field of `size` bytes: the bytes follow.
inline void AppendHeader(std::string& message, std::uint32_t field, std::uint64_t size) {
  AppendTag(message, field, Kind::kLength);
  AppendVarint(message, size);
}

// A string, bytes or a message.
inline void AppendBytes(std::string& message, std::uint32_t field, std::string_view bytes) {
  AppendHeader(message, field, bytes.size());
  message.append(bytes);
}

}  // namespace sluice::wire

#endif  // SLUICE_TESTS_NETWORKS_WIRE_H_
