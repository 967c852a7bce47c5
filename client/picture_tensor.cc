#include "client/picture_tensor.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_format.h"
#include "base/status_macros.h"
#include "client/file.h"

namespace sluice {
namespace {

bool IsChannels(std::int64_t dimension) { return dimension == 1 || dimension == 3; }

absl::Status NoPicture(std::string_view tensor, std::span<const std::int64_t> shape,
                       std::string_view wanted) {
  return absl::InvalidArgumentError(
      absl::StrFormat("input \"%s\" does not take a picture: got shape %s, want %s", tensor,
                      FormatShape(shape), wanted));
}

// The picture's planes in the tensor's order, as numbers.
std::vector<float> ChannelValues(const Picture& picture, std::size_t channel,
                                 const PictureShape& shape, const PictureOptions& options) {
  const std::size_t source =
      shape.channels == 1 ? 0 : (options.order == ChannelOrder::kBgr ? 2 - channel : channel);
  std::vector<float> values(shape.height * shape.width);
  for (std::size_t i = 0; i < values.size(); ++i) {
    const std::uint8_t* pixel = picture.rgb.data() + i * 3;
    const double byte = shape.channels == 1 ? 0.299 * pixel[0] + 0.587 * pixel[1] + 0.114 * pixel[2]
                                            : pixel[source];
    values[i] = static_cast<float>((byte * options.scale - options.mean[source]) /
                                   options.deviation[source]);
  }
  return values;
}

void Store(float value, bool as_byte, std::size_t index, std::string& data) {
  if (as_byte) {
    data[index] =
        static_cast<char>(static_cast<std::uint8_t>(std::clamp(std::lround(value), 0L, 255L)));
  } else {
    std::memcpy(data.data() + index * sizeof(float), &value, sizeof(float));
  }
}

}  // namespace

absl::StatusOr<PictureShape> ReadPictureShape(std::string_view tensor,
                                              std::span<const std::int64_t> shape,
                                              std::optional<Layout> layout) {
  if (std::ranges::any_of(shape, [](std::int64_t dimension) { return dimension < 1; })) {
    return NoPicture(tensor, shape, "no open or empty dimension");
  }
  const auto at = [&](std::size_t i) { return static_cast<std::size_t>(shape[i]); };
  PictureShape result;
  if (shape.size() == 2) {
    return PictureShape{
        .layout = Layout::kNchw, .batch = 1, .channels = 1, .height = at(0), .width = at(1)};
  }
  if (shape.size() != 3 && shape.size() != 4) {
    return NoPicture(tensor, shape, "2 to 4 dimensions");
  }
  const std::size_t first = shape.size() - 3;
  if (!layout.has_value()) {
    if (IsChannels(shape[first])) {
      layout = Layout::kNchw;
    } else if (IsChannels(shape.back())) {
      layout = Layout::kNhwc;
    }
  }
  const std::size_t channels = layout == Layout::kNhwc ? shape.size() - 1 : first;
  if (!layout.has_value() || !IsChannels(shape[channels])) {
    return NoPicture(tensor, shape, "1 or 3 channels, before (nchw) or after (nhwc) the sides");
  }
  result.layout = *layout;
  result.batch = first == 1 ? at(0) : 1;
  result.channels = at(channels);
  const std::size_t height = layout == Layout::kNchw ? first + 1 : first;
  result.height = at(height);
  result.width = at(height + 1);
  return result;
}

absl::StatusOr<Tensor> PictureTensor(const Picture& picture, std::string_view name,
                                     std::string_view datatype, std::span<const std::int64_t> shape,
                                     const PictureOptions& options) {
  if (datatype != "FP32" && datatype != "UINT8") {
    return absl::InvalidArgumentError(absl::StrFormat(
        "input \"%s\" does not take a picture: got type %s, want FP32 or UINT8", name, datatype));
  }
  for (const double deviation : options.deviation) {
    if (!(std::abs(deviation) > 0)) {
      return absl::InvalidArgumentError("got a deviation of 0, want another number");
    }
  }
  SLUICE_ASSIGN_OR_RETURN(const PictureShape place, ReadPictureShape(name, shape, options.layout));
  SLUICE_ASSIGN_OR_RETURN(const std::uint64_t bytes, TensorBytes(datatype, shape));
  if (Bytes::Of(bytes) > kMaxTensorFile || place.width > kMaxPixels / place.height) {
    return NoPicture(name, shape, "at most 2 GiB");
  }
  const Picture resized = Resize(picture, place.width, place.height);
  Tensor tensor{.name = std::string(name),
                .datatype = std::string(datatype),
                .shape = {shape.begin(), shape.end()},
                .data = std::string(bytes, '\0')};
  const std::size_t pixels = place.width * place.height;
  const bool as_byte = datatype == "UINT8";
  for (std::size_t channel = 0; channel < place.channels; ++channel) {
    const std::vector<float> values = ChannelValues(resized, channel, place, options);
    for (std::size_t i = 0; i < pixels; ++i) {
      Store(values[i], as_byte,
            place.layout == Layout::kNchw ? channel * pixels + i : i * place.channels + channel,
            tensor.data);
    }
  }
  const std::size_t one = tensor.data.size() / place.batch;
  for (std::size_t n = 1; n < place.batch; ++n) {
    std::memcpy(tensor.data.data() + n * one, tensor.data.data(), one);
  }
  return tensor;
}

}  // namespace sluice
