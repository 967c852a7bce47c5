// Boxes of images, sampled or pooled to one size.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <type_traits>
#include <utility>

#include "engine/kernels/element.h"
#include "engine/kernels/makers.h"
#include "engine/kernels/parallel.h"

namespace sluice::kernels {
namespace {

// Boxes come from a caller: far beyond any image they are as good as at its edge.
float Bounded(float x) {
  constexpr float kFar = 1e7f;
  return std::isnan(x) ? 0 : std::clamp(x, -kFar, kFar);
}

struct Images {
  std::int64_t count, channels, height, width;
  std::size_t plane() const { return static_cast<std::size_t>(height * width); }
};

struct RoiAlignRun {
  RoiAlign operation;
  Images images;
  std::size_t boxes;

  // Four neighbours and their weights; what is more than a pixel outside is nothing.
  struct Sample {
    std::size_t at[4] = {};
    float weights[4] = {};
  };
  Sample SampleAt(float y, float x) const {
    Sample sample;
    const auto height = static_cast<float>(images.height), width = static_cast<float>(images.width);
    if (y < -1 || y > height || x < -1 || x > width) return sample;
    y = std::max(y, 0.0f);
    x = std::max(x, 0.0f);
    const auto top = std::min(static_cast<std::int64_t>(y), images.height - 1);
    const auto left = std::min(static_cast<std::int64_t>(x), images.width - 1);
    const std::int64_t bottom = std::min(top + 1, images.height - 1);
    const std::int64_t right = std::min(left + 1, images.width - 1);
    const float low_y = std::min(y - static_cast<float>(top), 1.0f);
    const float low_x = std::min(x - static_cast<float>(left), 1.0f);
    const float fy = top == bottom ? 0 : low_y, fx = left == right ? 0 : low_x;
    const std::int64_t at[4] = {top * images.width + left, top * images.width + right,
                                bottom * images.width + left, bottom * images.width + right};
    const float weights[4] = {(1 - fy) * (1 - fx), (1 - fy) * fx, fy * (1 - fx), fy * fx};
    for (int k = 0; k < 4; ++k) {
      sample.at[k] = static_cast<std::size_t>(at[k]);
      sample.weights[k] = weights[k];
    }
    return sample;
  }

  // One for each pixel of a bin; no more where it is far larger than the image, so that a box
  // cannot keep us for ever.
  static std::int64_t Samples(float bin, std::int64_t size) {
    return std::clamp<std::int64_t>(static_cast<std::int64_t>(std::ceil(bin)), 0, 2 * size + 64);
  }

  struct Box {
    float y, x, bin_height, bin_width;
    std::int64_t samples_y, samples_x;
  };
  Box BoxFrom(float x1, float y1, float x2, float y2) const {
    const float scale = operation.spatial_scale, shift = operation.half_pixel ? 0.5f : 0.0f;
    Box box{.y = Bounded(y1 * scale - shift),
            .x = Bounded(x1 * scale - shift),
            .bin_height = 0,
            .bin_width = 0,
            .samples_y = operation.sampling_ratio,
            .samples_x = operation.sampling_ratio};
    float height = Bounded(y2 * scale - shift) - box.y, width = Bounded(x2 * scale - shift) - box.x;
    if (!operation.half_pixel) {
      height = std::max(height, 1.0f);
      width = std::max(width, 1.0f);
    }
    box.bin_height = height / static_cast<float>(operation.height);
    box.bin_width = width / static_cast<float>(operation.width);
    if (operation.sampling_ratio == 0) {
      box.samples_y = Samples(box.bin_height, images.height);
      box.samples_x = Samples(box.bin_width, images.width);
    }
    return box;
  }

  template <typename T>
  float Bin(const T* plane, const Box& box, std::int64_t i, std::int64_t j) const {
    float sum = 0, largest = 0;
    bool first = true;
    for (std::int64_t sy = 0; sy < box.samples_y; ++sy) {
      const float y = box.y + (static_cast<float>(i) + (static_cast<float>(sy) + 0.5f) /
                                                           static_cast<float>(box.samples_y)) *
                                  box.bin_height;
      if (y < -1 || y > static_cast<float>(images.height)) {  // A whole row of nothing.
        largest = first ? 0 : std::max(largest, 0.0f);
        first = false;
        continue;
      }
      for (std::int64_t sx = 0; sx < box.samples_x; ++sx) {
        const float x = box.x + (static_cast<float>(j) + (static_cast<float>(sx) + 0.5f) /
                                                             static_cast<float>(box.samples_x)) *
                                    box.bin_width;
        const Sample sample = SampleAt(y, x);
        for (int k = 0; k < 4; ++k) {
          const float part =
              sample.weights[k] * static_cast<float>(Convert<Wide<T>>(plane[sample.at[k]]));
          sum += part;
          largest = first ? part : std::max(largest, part);
          first = false;
        }
      }
    }
    if (operation.kind == RoiAlign::Kind::kMax) return largest;
    const std::int64_t count = std::max<std::int64_t>(box.samples_y * box.samples_x, 1);
    return sum / static_cast<float>(count);
  }

  template <typename T>
  void Run(const T* x, const T* boxes_at, const std::byte* image_of, bool wide, T* y) const {
    const auto channels = static_cast<std::size_t>(images.channels);
    const auto bins = static_cast<std::size_t>(operation.height * operation.width);
    ParallelFor(
        boxes * channels, boxes * channels * bins * 16, [&](std::size_t begin, std::size_t end) {
          for (std::size_t item = begin; item < end; ++item) {
            const std::size_t r = item / channels;
            const auto coordinate = [&](std::size_t k) {
              return static_cast<float>(Convert<Wide<T>>(boxes_at[4 * r + k]));
            };
            const std::int64_t image = wide ? reinterpret_cast<const std::int64_t*>(image_of)[r]
                                            : reinterpret_cast<const std::int32_t*>(image_of)[r];
            T* to = y + item * bins;
            if (image < 0 || image >= images.count || images.plane() == 0) {
              std::fill_n(to, bins, T{});
              continue;
            }
            const T* plane =
                x + (static_cast<std::size_t>(image) * channels + item % channels) * images.plane();
            const Box box = BoxFrom(coordinate(0), coordinate(1), coordinate(2), coordinate(3));
            for (std::int64_t i = 0; i < operation.height; ++i) {
              for (std::int64_t j = 0; j < operation.width; ++j) {
                *to++ = Convert<T>(Bin(plane, box, i, j));
              }
            }
          }
        });
  }
};

struct MaxRoiPoolRun {
  MaxRoiPool operation;
  Images images;
  std::size_t boxes;

  // The pixels of bin `i` of `bins` along a dimension of `size`.
  static std::pair<std::int64_t, std::int64_t> Bin(float begin, float end, std::int64_t bins,
                                                   std::int64_t i, std::int64_t size) {
    const auto first = static_cast<std::int64_t>(begin), last = static_cast<std::int64_t>(end);
    const float bin =
        static_cast<float>(std::max<std::int64_t>(last - first + 1, 1)) / static_cast<float>(bins);
    const auto at = static_cast<float>(i);
    const auto low = static_cast<std::int64_t>(std::floor(at * bin)) + first;
    const auto high = static_cast<std::int64_t>(std::ceil((at + 1) * bin)) + first;
    return {std::clamp<std::int64_t>(low, 0, size), std::clamp<std::int64_t>(high, 0, size)};
  }

  template <typename T>
  void Run(const T* x, const T* boxes_at, T* y) const {
    const auto channels = static_cast<std::size_t>(images.channels);
    const auto bins = static_cast<std::size_t>(operation.height * operation.width);
    ParallelFor(
        boxes * channels, boxes * channels * images.plane(),
        [&](std::size_t begin, std::size_t end) {
          for (std::size_t item = begin; item < end; ++item) {
            const T* box = boxes_at + item / channels * 5;
            const auto corner = [&](std::size_t k) {
              return std::round(
                  Bounded(static_cast<float>(Convert<Wide<T>>(box[k])) * operation.spatial_scale));
            };
            const float image = static_cast<float>(Convert<Wide<T>>(box[0]));
            T* to = y + item * bins;
            if (!(image >= 0 && image < static_cast<float>(images.count))) {
              std::fill_n(to, bins, T{});
              continue;
            }
            const T* plane =
                x + (static_cast<std::size_t>(image) * channels + item % channels) * images.plane();
            for (std::int64_t i = 0; i < operation.height; ++i) {
              const auto [top, bottom] =
                  Bin(corner(2), corner(4), operation.height, i, images.height);
              for (std::int64_t j = 0; j < operation.width; ++j, ++to) {
                const auto [left, right] =
                    Bin(corner(1), corner(3), operation.width, j, images.width);
                const T* largest = nullptr;
                for (std::int64_t row = top; row < bottom; ++row) {
                  for (std::int64_t column = left; column < right; ++column) {
                    const T* at = plane + row * images.width + column;
                    if (largest == nullptr || Convert<Wide<T>>(*largest) < Convert<Wide<T>>(*at)) {
                      largest = at;
                    }
                  }
                }
                *to = largest == nullptr ? T{} : *largest;
              }
            }
          }
        });
  }
};

Images ImagesOf(const Shape& x) { return {x[0], x[1], x[2], x[3]}; }

template <typename T>
constexpr bool kIsReal = kIsShort<T> || std::is_floating_point_v<T>;

}  // namespace

absl::StatusOr<Kernel> Make(const RoiAlign& operation, const Problem& problem) {
  const Value& x = problem.input(0);
  Kernel kernel;
  kernel.name = problem.KernelName("");
  kernel.run = [run = RoiAlignRun{operation, ImagesOf(x.shape),
                                  static_cast<std::size_t>(problem.output().shape[0])},
                type = x.type, wide = problem.input(2).type == DataType::kInt64](
                   std::span<const std::byte* const> inputs, std::byte* output, std::byte*) {
    WithElement(type, [&]<typename T>() {
      if constexpr (kIsReal<T>) {
        run.Run(reinterpret_cast<const T*>(inputs[0]), reinterpret_cast<const T*>(inputs[1]),
                inputs[2], wide, reinterpret_cast<T*>(output));
      }
    });
  };
  return kernel;
}

absl::StatusOr<Kernel> Make(const MaxRoiPool& operation, const Problem& problem) {
  const Value& x = problem.input(0);
  Kernel kernel;
  kernel.name = problem.KernelName("");
  kernel.run = [run = MaxRoiPoolRun{operation, ImagesOf(x.shape),
                                    static_cast<std::size_t>(problem.output().shape[0])},
                type = x.type](std::span<const std::byte* const> inputs, std::byte* output,
                               std::byte*) {
    WithElement(type, [&]<typename T>() {
      if constexpr (kIsReal<T>) {
        run.Run(reinterpret_cast<const T*>(inputs[0]), reinterpret_cast<const T*>(inputs[1]),
                reinterpret_cast<T*>(output));
      }
    });
  };
  return kernel;
}

}  // namespace sluice::kernels
