// base/bytes.h
//
// An amount of memory or storage; never negative.

#ifndef SLUICE_BASE_BYTES_H_
#define SLUICE_BASE_BYTES_H_

#include <compare>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace sluice {

class Bytes {
 public:
  constexpr Bytes() = default;
  static constexpr Bytes Of(std::uint64_t count) { return Bytes(count); }
  static constexpr Bytes Max() { return Bytes(std::numeric_limits<std::uint64_t>::max()); }
  constexpr std::uint64_t count() const { return count_; }

  // Saturate, so that `a + b <= budget` cannot pass by wrapping.
  friend constexpr Bytes operator+(Bytes a, Bytes b) {
    const std::uint64_t sum = a.count_ + b.count_;
    return sum < a.count_ ? Max() : Bytes(sum);
  }
  friend constexpr Bytes operator*(Bytes a, std::uint64_t times) {
    std::uint64_t product = 0;
    return __builtin_mul_overflow(a.count_, times, &product) ? Max() : Bytes(product);
  }
  // Saturates at zero.
  friend constexpr Bytes operator-(Bytes a, Bytes b) {
    return a.count_ < b.count_ ? Bytes() : Bytes(a.count_ - b.count_);
  }
  constexpr Bytes& operator+=(Bytes b) { return *this = *this + b; }
  constexpr Bytes& operator-=(Bytes b) { return *this = *this - b; }
  friend constexpr auto operator<=>(Bytes, Bytes) = default;

 private:
  constexpr explicit Bytes(std::uint64_t count) : count_(count) {}
  std::uint64_t count_ = 0;
};

constexpr Bytes operator""_KiB(unsigned long long n) { return Bytes::Of(n) * 1024; }
constexpr Bytes operator""_MiB(unsigned long long n) { return Bytes::Of(n) * (1024 * 1024); }

// The least multiple of `alignment` that is not below `size`; saturates. Requires: a power of two.
constexpr Bytes AlignUp(Bytes size, Bytes alignment) {
  const std::uint64_t mask = alignment.count() - 1;
  const Bytes raised = size + Bytes::Of(mask);
  return Bytes::Of(raised.count() & ~mask);
}

// Sizes on disk and of mappings are multiples of this.
inline constexpr Bytes kPageSize = Bytes::Of(4096);
// Buffers of an arena start at multiples of this, one cache line.
inline constexpr Bytes kBufferAlignment = Bytes::Of(64);

// "96 MiB", "1.5 GiB", "512 B": for people, two digits after the point at most.
std::string FormatBytes(Bytes bytes);

// Reads "96MiB", "1.5 GiB", "64MB", "4096" or "512k": binary units KiB MiB GiB TiB (K M G T alone
// too), decimal units KB MB GB TB, or plain bytes.
// Fails: INVALID_ARGUMENT, with what was found and what was wanted.
absl::StatusOr<Bytes> ParseBytes(std::string_view text);

}  // namespace sluice

#endif  // SLUICE_BASE_BYTES_H_
