#include "client/infer_inputs.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <filesystem>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_format.h"
#include "base/status_macros.h"
#include "client/file.h"
#include "client/npy.h"
#include "client/tensor_set.h"

namespace sluice {
namespace {

enum class FileKind { kNpy, kRaw, kPicture };

// SplitMix64 (Steele, Lea, Flood 2014).
class RandomBits {
 public:
  explicit RandomBits(std::uint64_t seed) : state_(seed) {}
  std::uint64_t Next() {
    std::uint64_t z = state_ += 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
  }

 private:
  std::uint64_t state_;
};

absl::Status Refuse(std::string_view found, std::string_view wanted) {
  return absl::InvalidArgumentError(absl::StrFormat("got %s, want %s", found, wanted));
}

std::string NamesOf(std::span<const TensorInfo> inputs) {
  std::string names;
  for (const TensorInfo& input : inputs) {
    absl::StrAppendFormat(&names, "%s%s %s %s", names.empty() ? "" : "; ", input.name,
                          input.datatype, FormatShape(input.shape));
  }
  return names.empty() ? "none" : names;
}

absl::StatusOr<FileKind> KindOf(const std::string& file) {
  const std::string ending =
      absl::AsciiStrToLower(std::filesystem::path(file).extension().string());
  if (ending == ".npy") return FileKind::kNpy;
  if (ending == ".bin" || ending == ".raw") return FileKind::kRaw;
  for (const char* known : {".png", ".jpg", ".jpeg", ".ppm", ".pgm"}) {
    if (ending == known) return FileKind::kPicture;
  }
  SLUICE_ASSIGN_OR_RETURN(const std::string contents, ReadFile(file, kMaxTensorFile));
  if (LooksLikePicture(contents)) return FileKind::kPicture;
  if (contents.substr(0, 6) == "\x93NUMPY") return FileKind::kNpy;
  return absl::InvalidArgumentError(absl::StrFormat(
      "%s: got a file of an unknown kind, want .npy, raw values named .bin, or a picture (PNG, "
      "JPEG, PPM, PGM)",
      file));
}

// The input that a file is for. Without a name the model must have one input only.
absl::StatusOr<const TensorInfo*> InputFor(const NamedFile& named,
                                           std::span<const TensorInfo> wanted) {
  if (named.name.empty()) {
    if (wanted.size() == 1) return &wanted.front();
    return Refuse(absl::StrFormat("file %s without a name", named.file),
                  absl::StrFormat("NAME=FILE with one of the model's %d inputs: %s", wanted.size(),
                                  NamesOf(wanted)));
  }
  for (const TensorInfo& input : wanted) {
    if (input.name == named.name) return &input;
  }
  return Refuse(absl::StrFormat("input \"%s\"", named.name),
                absl::StrFormat("one of the model's: %s", NamesOf(wanted)));
}

absl::StatusOr<Tensor> ReadRaw(const NamedFile& named, const TensorInfo& input) {
  const absl::StatusOr<std::uint64_t> bytes = TensorBytes(input.datatype, input.shape);
  if (!bytes.ok()) {
    return absl::InvalidArgumentError(absl::StrFormat(
        "%s: raw values need a known type and shape, and input \"%s\" is %s %s: want a .npy file",
        named.file, input.name, input.datatype, FormatShape(input.shape)));
  }
  // One byte more than wanted is enough to know that a file is too long.
  SLUICE_ASSIGN_OR_RETURN(std::string data, ReadFile(named.file, kMaxTensorFile));
  if (data.size() != *bytes) {
    return absl::InvalidArgumentError(
        absl::StrFormat("%s: got %d bytes, want %d for input \"%s\" %s %s", named.file, data.size(),
                        *bytes, input.name, input.datatype, FormatShape(input.shape)));
  }
  return Tensor{.name = input.name,
                .datatype = input.datatype,
                .shape = input.shape,
                .data = std::move(data)};
}

absl::Status LoadFile(const NamedFile& named, std::span<const TensorInfo> wanted,
                      const PictureOptions& options, LoadedInputs& loaded) {
  SLUICE_ASSIGN_OR_RETURN(const FileKind kind, KindOf(named.file));
  SLUICE_ASSIGN_OR_RETURN(const TensorInfo* input, InputFor(named, wanted));
  Tensor tensor;
  if (kind == FileKind::kNpy) {
    SLUICE_ASSIGN_OR_RETURN(tensor, ReadNpy(named.file));
    tensor.name = input->name;
  } else if (kind == FileKind::kRaw) {
    SLUICE_ASSIGN_OR_RETURN(tensor, ReadRaw(named, *input));
  } else {
    SLUICE_ASSIGN_OR_RETURN(Picture picture, ReadPicture(named.file));
    SLUICE_ASSIGN_OR_RETURN(
        tensor, PictureTensor(picture, input->name, input->datatype, input->shape, options));
    if (!loaded.picture.has_value()) loaded.picture = std::move(picture);
  }
  loaded.tensors.push_back(std::move(tensor));
  return absl::OkStatus();
}

template <typename T>
void FillWith(std::uint64_t below, RandomBits& random, std::string& data) {
  for (std::size_t at = 0; at < data.size(); at += sizeof(T)) {
    const T value = static_cast<T>(random.Next() % below);
    std::memcpy(data.data() + at, &value, sizeof(T));
  }
}

template <typename T>
void FillFloats(RandomBits& random, std::string& data) {
  for (std::size_t at = 0; at < data.size(); at += sizeof(T)) {
    const T value = static_cast<T>(random.Next() >> 40) / static_cast<T>(1 << 24);
    std::memcpy(data.data() + at, &value, sizeof(T));
  }
}

// Multiples of 1/1024, which both 16-bit formats and the way to them hold exactly, but for
// bfloat16: its 8 bits take the upper ones.
void FillHalves(bool brain, RandomBits& random, std::string& data) {
  for (std::size_t at = 0; at < data.size(); at += sizeof(std::uint16_t)) {
    const float value = static_cast<float>(random.Next() >> 54) / 1024;
    const auto bits = std::bit_cast<std::uint32_t>(value);
    // The exponent's bias is 127 in 32 bits and 15 in FP16; zero has neither exponent nor fraction.
    const std::uint32_t half = bits == 0 ? 0 : (bits - (std::uint32_t{112} << 23)) >> 13;
    const auto stored = static_cast<std::uint16_t>(brain ? bits >> 16 : half);
    std::memcpy(data.data() + at, &stored, sizeof stored);
  }
}

absl::Status FillRandom(RandomBits& random, Tensor& tensor) {
  const std::string_view type = tensor.datatype;
  if (type == "FP32") {
    FillFloats<float>(random, tensor.data);
  } else if (type == "FP64") {
    FillFloats<double>(random, tensor.data);
  } else if (type == "FP16" || type == "BF16") {
    FillHalves(type == "BF16", random, tensor.data);
  } else if (type == "BOOL") {
    FillWith<std::uint8_t>(2, random, tensor.data);
  } else if (type == "UINT8") {
    FillWith<std::uint8_t>(256, random, tensor.data);
  } else if (type == "INT8") {
    FillWith<std::uint8_t>(10, random, tensor.data);
  } else if (type == "INT16" || type == "UINT16") {
    FillWith<std::uint16_t>(10, random, tensor.data);
  } else if (type == "INT32" || type == "UINT32") {
    FillWith<std::uint32_t>(10, random, tensor.data);
  } else if (type == "INT64" || type == "UINT64") {
    FillWith<std::uint64_t>(10, random, tensor.data);
  } else {
    return Refuse(absl::StrFormat("--random for input \"%s\" of type %s", tensor.name, type),
                  "a .npy file for it");
  }
  return absl::OkStatus();
}

// Zeros or random values for each input that has none yet.
absl::Status FillTheRest(std::span<const TensorInfo> wanted, const InputArguments& arguments,
                         LoadedInputs& loaded) {
  RandomBits random(arguments.seed.value_or(0));
  for (const TensorInfo& input : wanted) {
    const bool given = std::ranges::any_of(
        loaded.tensors, [&](const Tensor& tensor) { return tensor.name == input.name; });
    if (given) continue;
    const absl::StatusOr<std::uint64_t> bytes = TensorBytes(input.datatype, input.shape);
    if (!bytes.ok() || Bytes::Of(*bytes) > kMaxTensorFile) {
      return Refuse(absl::StrFormat("input \"%s\" %s %s", input.name, input.datatype,
                                    FormatShape(input.shape)),
                    "a .npy file for it: its values cannot be made up");
    }
    Tensor tensor{.name = input.name,
                  .datatype = input.datatype,
                  .shape = input.shape,
                  .data = std::string(*bytes, '\0')};
    if (arguments.seed.has_value()) SLUICE_RETURN_IF_ERROR(FillRandom(random, tensor));
    loaded.tensors.push_back(std::move(tensor));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<NamedFile> ParseNamedFile(std::string_view text) {
  const std::size_t equals = text.find('=');
  NamedFile named;
  if (equals == std::string_view::npos) {
    named.file = std::string(text);
  } else {
    named.name = std::string(text.substr(0, equals));
    named.file = std::string(text.substr(equals + 1));
  }
  if (named.file.empty() || equals == 0) {
    return Refuse(absl::StrFormat("\"%s\"", text), "NAME=FILE, or FILE for a model's only input");
  }
  return named;
}

absl::StatusOr<double> ParseNumber(std::string_view text) {
  const std::size_t slash = text.find('/');
  double value = 0, divisor = 1;
  const bool read = absl::SimpleAtod(std::string(text.substr(0, slash)), &value) &&
                    (slash == std::string_view::npos ||
                     absl::SimpleAtod(std::string(text.substr(slash + 1)), &divisor));
  if (!read || !std::isfinite(value / divisor)) {
    return Refuse(absl::StrFormat("\"%s\"", text), "a number such as 0.5 or 1/255");
  }
  return value / divisor;
}

absl::StatusOr<std::array<double, 3>> ParseThreeNumbers(std::string_view text) {
  std::vector<double> numbers;
  std::size_t begin = 0;
  while (begin <= text.size()) {
    const std::size_t end = std::min(text.find(',', begin), text.size());
    SLUICE_ASSIGN_OR_RETURN(const double number, ParseNumber(text.substr(begin, end - begin)));
    numbers.push_back(number);
    begin = end + 1;
  }
  if (numbers.size() == 1) numbers.assign(3, numbers.front());
  if (numbers.size() != 3) {
    return Refuse(absl::StrFormat("\"%s\"", text), "three numbers R,G,B, or one for all");
  }
  return std::array<double, 3>{numbers[0], numbers[1], numbers[2]};
}

absl::StatusOr<LoadedInputs> LoadInputs(std::span<const TensorInfo> wanted,
                                        const InputArguments& arguments) {
  LoadedInputs loaded;
  if (!arguments.folder.empty()) {
    SLUICE_ASSIGN_OR_RETURN(loaded.tensors, ReadTensorSet(arguments.folder));
  }
  for (const NamedFile& named : arguments.files) {
    SLUICE_RETURN_IF_ERROR(LoadFile(named, wanted, arguments.picture, loaded));
  }
  if (arguments.zeros || arguments.seed.has_value()) {
    SLUICE_RETURN_IF_ERROR(FillTheRest(wanted, arguments, loaded));
  }
  if (loaded.tensors.empty()) {
    return Refuse("no input", absl::StrFormat("--input, --inputs, --zeros or --random for: %s",
                                              NamesOf(wanted)));
  }
  return loaded;
}

}  // namespace sluice
