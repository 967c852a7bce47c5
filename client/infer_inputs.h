// client/infer_inputs.h
//
// From the command line and files to the input tensors of a request.

#ifndef SLUICE_CLIENT_INFER_INPUTS_H_
#define SLUICE_CLIENT_INFER_INPUTS_H_

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "client/picture.h"
#include "client/picture_tensor.h"
#include "client/tensor.h"

namespace sluice {

struct NamedFile {
  std::string name;  // Empty: the model's only input.
  std::string file;
};

// "NAME=FILE", split at the first "=", or "FILE".
// Fails: INVALID_ARGUMENT, an empty name before "=", or no file.
absl::StatusOr<NamedFile> ParseNamedFile(std::string_view text);

// "0.5" or "1/255". Fails: INVALID_ARGUMENT, no finite number.
absl::StatusOr<double> ParseNumber(std::string_view text);
// "0.485,0.456,0.406", or one number for all three. Fails: as ParseNumber.
absl::StatusOr<std::array<double, 3>> ParseThreeNumbers(std::string_view text);

struct InputArguments {
  std::vector<NamedFile> files = {};
  std::string folder = {};  // A tensor set.
  bool zeros = false;       // For inputs that nothing else gives.
  // Likewise, random values; the same seed, the same values.
  std::optional<std::uint64_t> seed = {};
  PictureOptions picture = {};
};

struct LoadedInputs {
  std::vector<Tensor> tensors;
  std::optional<Picture> picture;  // The first picture, as it was read.
};

// The kind of a file is told by its name: .npy; .bin and .raw, values in the model's type and
// shape; .png .jpg .jpeg .ppm .pgm, pictures. Any other name is told by the first bytes.
// Random floats lie in [0, 1), UINT8 in 0..255, other integers in 0..9.
// Fails: INVALID_ARGUMENT, an input of another name where the model's shape is needed, no input at
//        all, and what ReadNpy, ReadPicture, PictureTensor and ReadTensorSet say.
absl::StatusOr<LoadedInputs> LoadInputs(std::span<const TensorInfo> wanted,
                                        const InputArguments& arguments);

}  // namespace sluice

#endif  // SLUICE_CLIENT_INFER_INPUTS_H_
