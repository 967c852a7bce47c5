// planner/draw.h
//
// Seeded numbers, for choices that are the same on every machine and for generated problems. A fuzz
// target draws from the fuzzer's bytes instead; one generator serves both.

#ifndef SLUICE_PLANNER_DRAW_H_
#define SLUICE_PLANNER_DRAW_H_

#include <cstddef>
#include <cstdint>
#include <random>
#include <span>

namespace sluice {

// The same numbers for a seed on every machine.
class Draw {
 public:
  explicit Draw(std::uint64_t seed) : engine_(seed) {}

  // In [0, n). Requires: n > 0.
  std::uint64_t Below(std::uint64_t n) { return engine_() % n; }

 private:
  std::mt19937_64 engine_;
};

// Numbers made of bytes, two at a time; zeros when they run out, so every input means something.
class FuzzerBytes {
 public:
  FuzzerBytes(const std::uint8_t* data, std::size_t size) : bytes_(data, size) {}

  // In [0, min(n, 65536)). Requires: n > 0.
  std::uint64_t Below(std::uint64_t n) { return (Next() << 8 | Next()) % n; }

 private:
  std::uint64_t Next() {
    if (bytes_.empty()) return 0;
    const std::uint8_t first = bytes_.front();
    bytes_ = bytes_.subspan(1);
    return first;
  }
  std::span<const std::uint8_t> bytes_;
};

}  // namespace sluice

#endif  // SLUICE_PLANNER_DRAW_H_
