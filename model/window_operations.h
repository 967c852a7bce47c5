// model/window_operations.h
//
// Operations that slide a window over spatial dimensions, or sample there.
//
// See model/operation.h for what all of these share.

#ifndef SLUICE_MODEL_WINDOW_OPERATIONS_H_
#define SLUICE_MODEL_WINDOW_OPERATIONS_H_

#include <cstdint>
#include <vector>

#include "model/elementwise_operations.h"

namespace sluice {

// Inputs: x [N, C, spatial...], weights, bias [M] (may be absent), c: weight scale [M] (may be
// absent: what batch normalisation left, for the weights of output channel m while packing), then
// whatever epilogues name. Where there is a scale or an epilogue, weights and bias are constant.
// Weights are [M, C / groups, kernel...]; of a transposed convolution [C, M / groups, kernel...].
struct Convolution {
  std::vector<std::int64_t> kernel, strides, dilations;
  std::vector<std::int64_t> pads_begin, pads_end;
  std::int64_t groups = 1;
  bool transposed = false;  // pads_end is chosen so that the output shape follows from it.
  std::vector<Epilogue> epilogues;
};

// Windows over the spatial dimensions. A global pool has a kernel as large as its input.
struct Pool {
  enum class Kind : std::uint8_t { kMax, kAverage };
  Kind kind = Kind::kMax;
  std::vector<std::int64_t> kernel, strides, dilations;
  std::vector<std::int64_t> pads_begin, pads_end;  // pads_end includes what ceil_mode adds.
  bool count_include_pad = false;
};

// For each window of a max pool, where in x its largest element lies: an index into all of x, as
// kInt64. `pool.kind` is kMax.
struct PoolIndices {
  Pool pool;
  bool column_major = false;  // Of the spatial dimensions: the first one is fastest.
};

// Local response normalisation across channels.
struct Lrn {
  std::int64_t size = 1;
  float alpha = 1e-4f, beta = 0.75f, bias = 1;
};

// Input: x [N, C, spatial...]; the output's shape gives the sizes. Input coordinates come from
// output ones by `coordinates`, with scale[d] = output / input size as the file stated it: where
// that is no whole number of elements, kAlignCorners and kHalfPixelSymmetric take the broken
// length. Integers are interpolated as floats and lose what is behind the point.
struct Resize {
  enum class Mode : std::uint8_t { kNearest, kLinear, kCubic };
  enum class Coordinates : std::uint8_t {
    kHalfPixel,
    kPytorchHalfPixel,
    kAlignCorners,
    kAsymmetric,
    kHalfPixelSymmetric,
    kTfHalfPixel,
    kTfCropAndResize
  };
  enum class Rounding : std::uint8_t { kRoundPreferFloor, kRoundPreferCeil, kFloor, kCeil };
  Mode mode = Mode::kNearest;
  Coordinates coordinates = Coordinates::kHalfPixel;
  Rounding rounding = Rounding::kRoundPreferFloor;
  float cubic_coefficient = -0.75f;
  bool exclude_outside = false;    // Positions outside x weigh nothing, rather than show its edge.
  bool antialias = false;          // Wider windows where the output is smaller.
  float extrapolation = 0;         // Of kTfCropAndResize, for what lies outside x.
  std::vector<float> scales = {};  // For every dimension of x, N and C included.
  // Of kTfCropAndResize, for every dimension: the part of x that is shown, from 0 to 1.
  std::vector<float> crop_begin = {}, crop_end = {};
};

// Inputs: x [N, C, spatial...], grid [N, out spatial..., spatial count]: where to sample, from -1
// to 1 along each dimension, the last one first.
struct GridSample {
  enum class Mode : std::uint8_t { kNearest, kLinear, kCubic };
  enum class Padding : std::uint8_t { kZeros, kBorder, kReflection };
  Mode mode = Mode::kLinear;
  Padding padding = Padding::kZeros;
  bool align_corners = false;
};

// Inputs: x [N, C, H, W], boxes [R, 4] (x1, y1, x2, y2), the image of each box [R] (an integer
// type). The output is [R, C, height, width].
struct RoiAlign {
  enum class Kind : std::uint8_t { kAverage, kMax };
  Kind kind = Kind::kAverage;
  std::int64_t height = 1, width = 1;
  std::int64_t sampling_ratio = 0;  // 0: chosen by the size of each box.
  float spatial_scale = 1;
  bool half_pixel = false;
};

// The largest element of each of height x width bins of a box. Inputs: x [N, C, H, W], boxes
// [R, 5] (image, x1, y1, x2, y2). The output is [R, C, height, width].
struct MaxRoiPool {
  std::int64_t height = 1, width = 1;
  float spatial_scale = 1;
};

}  // namespace sluice

#endif  // SLUICE_MODEL_WINDOW_OPERATIONS_H_
