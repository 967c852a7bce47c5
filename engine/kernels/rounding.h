// engine/kernels/rounding.h
//
// Real numbers to integers of few bits, in steps that compilers vectorise for any instruction set.

#ifndef SLUICE_ENGINE_KERNELS_ROUNDING_H_
#define SLUICE_ENGINE_KERNELS_ROUNDING_H_

#include <cstdint>
#include <limits>

namespace sluice::kernels {

// saturate(round half to even(v) + zero), to a Q of at most 16 bits; NaN gives the least Q.
// The bounds are integers, so that saturating before rounding is the same; the numbers left are so
// small that adding and taking away 1.5 * 2^23 rounds them.
template <typename Q>
class Saturation {
 public:
  static_assert(sizeof(Q) <= 2);

  // Requires: an integer in Q's range.
  explicit Saturation(float zero)
      : low_(static_cast<float>(std::numeric_limits<Q>::min()) - zero),
        high_(static_cast<float>(std::numeric_limits<Q>::max()) - zero),
        zero_(static_cast<std::int32_t>(zero)) {}

  Q Round(float v) const {
    constexpr float kShift = 12582912.0f;
    v = v > low_ ? v : low_;
    v = v < high_ ? v : high_;
    return static_cast<Q>(static_cast<std::int32_t>((v + kShift) - kShift) + zero_);
  }

 private:
  float low_, high_;
  std::int32_t zero_;
};

}  // namespace sluice::kernels

#endif  // SLUICE_ENGINE_KERNELS_ROUNDING_H_
