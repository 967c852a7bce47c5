// engine/kernels/byte_output.h
//
// What becomes of the sums of a convolution of bytes.

#ifndef SLUICE_ENGINE_KERNELS_BYTE_OUTPUT_H_
#define SLUICE_ENGINE_KERNELS_BYTE_OUTPUT_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>

#include "absl/status/statusor.h"
#include "engine/kernels/makers.h"
#include "engine/kernels/rounding.h"

namespace sluice::kernels {

// Sums as they are (INT32), or times a factor, bounded, and as FP32 or rounded to bytes.
struct ByteOutput {
  DataType type = DataType::kInt32;
  float low = -std::numeric_limits<float>::infinity();
  float high = std::numeric_limits<float>::infinity();

  // Fails: UNIMPLEMENTED, a tail that is more than one bound.
  static absl::StatusOr<ByteOutput> Of(const Convolution& operation, const Problem& problem);

  // Elements [at, at + count) of the output from their sums. `zero`: of the output; may be null.
  void Write(const std::uint32_t* sums, std::int64_t count, float factor, const std::byte* zero,
             std::int64_t at, std::byte* output) const {
    switch (type) {
      case DataType::kInt8:
        return WriteBytes<std::int8_t>(sums, count, factor, zero, at, output);
      case DataType::kUint8:
        return WriteBytes<std::uint8_t>(sums, count, factor, zero, at, output);
      case DataType::kFloat32:
        for (std::int64_t i = 0; i < count; ++i) {
          reinterpret_cast<float*>(output)[at + i] = Tail(sums[i], factor);
        }
        return;
      default:
        for (std::int64_t i = 0; i < count; ++i) {
          reinterpret_cast<std::uint32_t*>(output)[at + i] = sums[i];
        }
    }
  }

 private:
  float Tail(std::uint32_t sum, float factor) const {
    const float v = static_cast<float>(static_cast<std::int32_t>(sum)) * factor;
    return std::min(std::max(v, low), high);
  }
  template <typename Q>
  void WriteBytes(const std::uint32_t* sums, std::int64_t count, float factor,
                  const std::byte* zero, std::int64_t at, std::byte* output) const {
    const float moved = zero == nullptr ? 0 : static_cast<float>(*reinterpret_cast<const Q*>(zero));
    const Saturation<Q> saturation(moved);
    Q* y = reinterpret_cast<Q*>(output) + at;
    for (std::int64_t i = 0; i < count; ++i) {
      y[i] = saturation.Round(Tail(sums[i], factor));
    }
  }
};

// A kernel that works on tiles of the output (byte_tiles.h); nullopt where the machine has no
// instructions for that, or the weights do not fit them.
absl::StatusOr<std::optional<Kernel>> MakeTiled(const Convolution& operation,
                                                const Problem& problem);

}  // namespace sluice::kernels

#endif  // SLUICE_ENGINE_KERNELS_BYTE_OUTPUT_H_
