// client/picture_tensor.h
//
// A picture becomes the input tensor of a network.
//
//   value = (byte * scale - mean[channel]) / std[channel]

#ifndef SLUICE_CLIENT_PICTURE_TENSOR_H_
#define SLUICE_CLIENT_PICTURE_TENSOR_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "absl/status/statusor.h"
#include "client/picture.h"
#include "client/tensor.h"

namespace sluice {

enum class Layout { kNchw, kNhwc };
enum class ChannelOrder { kRgb, kBgr };

struct PictureOptions {
  std::optional<Layout> layout = {};  // Absent: guessed from the shape.
  ChannelOrder order = ChannelOrder::kRgb;
  double scale = 1;
  std::array<double, 3> mean = {0, 0, 0};       // Red, green, blue, whatever the order.
  std::array<double, 3> deviation = {1, 1, 1};  // Likewise.
};

// Where height and width stand in a picture's tensor.
struct PictureShape {
  Layout layout = Layout::kNchw;
  std::size_t batch = 1, channels = 3, height = 1, width = 1;
};

// Ranks 4 (batch first), 3 (no batch) and 2 (grey); one or three channels. A layout is guessed by
// the place of the channels; where both would do, channels come first.
// Fails: INVALID_ARGUMENT, no such shape, or an open dimension; names the tensor and the shape.
absl::StatusOr<PictureShape> ReadPictureShape(std::string_view tensor,
                                              std::span<const std::int64_t> shape,
                                              std::optional<Layout> layout);

// Resizes and lays the picture out, as FP32, or as UINT8 where `datatype` says so (rounded, within
// 0 to 255). One channel takes the brightness (ITU-R BT.601), with red's mean and deviation. Each
// place of the batch gets the same picture.
// Fails: INVALID_ARGUMENT, as ReadPictureShape, another type, or a deviation of zero.
absl::StatusOr<Tensor> PictureTensor(const Picture& picture, std::string_view name,
                                     std::string_view datatype, std::span<const std::int64_t> shape,
                                     const PictureOptions& options);

}  // namespace sluice

#endif  // SLUICE_CLIENT_PICTURE_TENSOR_H_
