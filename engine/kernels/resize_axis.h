// engine/kernels/resize_axis.h
//
// What a resize takes along one dimension, as a table: input positions and weights for each output
// position. Every resize is made of these.

#ifndef SLUICE_ENGINE_KERNELS_RESIZE_AXIS_H_
#define SLUICE_ENGINE_KERNELS_RESIZE_AXIS_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "engine/kernels/makers.h"

namespace sluice::kernels {

// Sizes above this are refused: the tables are held in memory.
inline constexpr std::int64_t kMostResized = 1 << 24;

// Taps lie side by side: at[tap * out + o].
struct ResizeAxis {
  std::size_t in, out, taps;
  std::vector<std::int32_t> at;
  std::vector<float> weights;
  std::vector<bool> outside;  // Of each output position, of kTfCropAndResize: shows nothing of x.
};

// Whether dimension `d` stays as it is.
bool IsIdentity(const Resize& operation, std::size_t d, std::int64_t in, std::int64_t out);

// Input positions for each output position.
std::size_t ResizeTaps(const Resize& operation, std::size_t d, std::int64_t in, std::int64_t out);

// Requires: in is positive, neither is above kMostResized.
ResizeAxis MakeResizeAxis(const Resize& operation, std::size_t d, std::int64_t in,
                          std::int64_t out);

// Any resize of any type, element by element.
absl::StatusOr<Kernel> MakeAnyResize(const Resize& operation, const Problem& problem);

}  // namespace sluice::kernels

#endif  // SLUICE_ENGINE_KERNELS_RESIZE_AXIS_H_
