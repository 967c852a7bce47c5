#include "model/onnx/onnx_tensor.h"

#include <algorithm>
#include <cstring>
#include <set>
#include <string>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_format.h"
#include "base/status_macros.h"

namespace sluice {
namespace {

using onnx::TensorProto;

absl::Status Annotate(const absl::Status& status, const std::string& name) {
  return absl::Status(status.code(),
                      absl::StrFormat("tensor \"%s\": %s", name, std::string(status.message())));
}

absl::StatusOr<Shape> ShapeOf(const TensorProto& tensor) {
  for (const std::int64_t dim : tensor.dims()) {
    if (dim < 0) {
      return absl::InvalidArgumentError(absl::StrFormat("it has a dimension of %d", dim));
    }
  }
  return Shape(tensor.dims().begin(), tensor.dims().end());
}

// Which field of TensorProto holds elements of a type that are not raw.
std::uint32_t TypedField(DataType type) {
  switch (type) {
    case DataType::kFloat32:
      return TensorProto::kFloatDataFieldNumber;
    case DataType::kFloat64:
      return TensorProto::kDoubleDataFieldNumber;
    case DataType::kInt64:
      return TensorProto::kInt64DataFieldNumber;
    case DataType::kUint32:
    case DataType::kUint64:
      return TensorProto::kUint64DataFieldNumber;
    default:
      return TensorProto::kInt32DataFieldNumber;
  }
}

absl::Status WrongLength(std::uint64_t found, Bytes want) {
  return absl::InvalidArgumentError(absl::StrFormat(
      "it has %d bytes of contents, want %d for its type and shape", found, want.count()));
}

// The low bytes of each element, which is how every typed field stores narrower types.
template <typename Elements>
absl::StatusOr<std::vector<std::byte>> Narrow(const Elements& elements, const Value& value) {
  const auto width = static_cast<std::size_t>(SizeOf(value.type).count());
  const Bytes size = TensorBytes(value.type, value.shape);
  const auto count = static_cast<std::size_t>(elements.size());
  if (Bytes::Of(count) * width != size) return WrongLength(count * width, size);
  std::vector<std::byte> bytes(count * width);
  for (std::size_t i = 0; i < count; ++i) {
    const auto element = elements[static_cast<int>(i)];
    static_assert(sizeof(element) >= 4);
    std::memcpy(bytes.data() + i * width, &element, std::min(width, sizeof(element)));
  }
  return bytes;
}

// The contents of a tensor that was parsed whole.
absl::StatusOr<std::vector<std::byte>> Parsed(const TensorProto& tensor, const Value& value) {
  const Bytes size = TensorBytes(value.type, value.shape);
  const int given = (tensor.raw_data().empty() ? 0 : 1) + (tensor.float_data().empty() ? 0 : 1) +
                    (tensor.int32_data().empty() ? 0 : 1) + (tensor.int64_data().empty() ? 0 : 1) +
                    (tensor.double_data().empty() ? 0 : 1) + (tensor.uint64_data().empty() ? 0 : 1);
  if (given > 1) return absl::InvalidArgumentError("its contents are given twice");
  if (!tensor.raw_data().empty() || size == Bytes()) {
    if (Bytes::Of(tensor.raw_data().size()) != size) {
      return WrongLength(tensor.raw_data().size(), size);
    }
    const auto* raw = reinterpret_cast<const std::byte*>(tensor.raw_data().data());
    return std::vector<std::byte>(raw, raw + tensor.raw_data().size());
  }
  switch (TypedField(value.type)) {
    case TensorProto::kFloatDataFieldNumber:
      return Narrow(tensor.float_data(), value);
    case TensorProto::kDoubleDataFieldNumber:
      return Narrow(tensor.double_data(), value);
    case TensorProto::kInt64DataFieldNumber:
      return Narrow(tensor.int64_data(), value);
    case TensorProto::kUint64DataFieldNumber:
      return Narrow(tensor.uint64_data(), value);
    default:
      return Narrow(tensor.int32_data(), value);
  }
}

struct ExternalEntry {
  std::string location;
  std::uint64_t offset = 0;
  std::optional<std::uint64_t> length;
};

absl::StatusOr<ExternalEntry> ReadEntry(const TensorProto& tensor) {
  ExternalEntry entry;
  std::set<std::string> seen;
  for (const onnx::StringStringEntryProto& pair : tensor.external_data()) {
    if (!seen.insert(pair.key()).second) {
      return absl::InvalidArgumentError(
          absl::StrFormat("its external data has the key \"%s\" twice", pair.key()));
    }
    std::uint64_t number = 0;
    const bool is_number = absl::SimpleAtoi(pair.value(), &number);
    if (pair.key() == "location") {
      entry.location = pair.value();
    } else if (pair.key() == "offset" || pair.key() == "length") {
      if (!is_number) {
        return absl::InvalidArgumentError(absl::StrFormat(
            "its external data has %s \"%s\", want a number of bytes", pair.key(), pair.value()));
      }
      if (pair.key() == "offset") {
        entry.offset = number;
      } else {
        entry.length = number;
      }
    }
  }
  if (entry.location.empty()) {
    return absl::InvalidArgumentError("its external data names no location");
  }
  return entry;
}

}  // namespace

std::optional<DataType> DataTypeFromOnnx(std::int64_t type) {
  switch (type) {
    case TensorProto::FLOAT:
      return DataType::kFloat32;
    case TensorProto::DOUBLE:
      return DataType::kFloat64;
    case TensorProto::FLOAT16:
      return DataType::kFloat16;
    case TensorProto::BFLOAT16:
      return DataType::kBfloat16;
    case TensorProto::INT8:
      return DataType::kInt8;
    case TensorProto::INT16:
      return DataType::kInt16;
    case TensorProto::INT32:
      return DataType::kInt32;
    case TensorProto::INT64:
      return DataType::kInt64;
    case TensorProto::UINT8:
      return DataType::kUint8;
    case TensorProto::UINT16:
      return DataType::kUint16;
    case TensorProto::UINT32:
      return DataType::kUint32;
    case TensorProto::UINT64:
      return DataType::kUint64;
    case TensorProto::BOOL:
      return DataType::kBool;
    default:
      return std::nullopt;
  }
}

OnnxTensors::OnnxTensors(std::shared_ptr<const ModelFile> model, std::filesystem::path folder,
                         std::filesystem::path root, Bytes max_tensor)
    : model_(std::move(model)),
      folder_(std::move(folder)),
      root_(std::move(root)),
      max_tensor_(max_tensor) {}

absl::StatusOr<Value> OnnxTensors::Read(const TensorProto& tensor, const TensorContents& contents) {
  Value value;
  value.name = tensor.name();
  const std::optional<DataType> type = DataTypeFromOnnx(tensor.data_type());
  if (!type) {
    return Annotate(absl::UnimplementedError(absl::StrFormat(
                        "element type %d of the format is not supported", tensor.data_type())),
                    value.name);
  }
  value.type = *type;
  absl::StatusOr<Shape> shape = ShapeOf(tensor);
  if (!shape.ok()) return Annotate(shape.status(), value.name);
  value.shape = *std::move(shape);
  const Bytes size = TensorBytes(value.type, value.shape);
  if (size > max_tensor_) {
    return Annotate(absl::ResourceExhaustedError(absl::StrFormat(
                        "shape %s takes %s, the limit is %s", FormatShape(value.shape),
                        FormatBytes(size), FormatBytes(max_tensor_))),
                    value.name);
  }
  MaybeConstant constant = std::shared_ptr<const Constant>();
  if (tensor.data_location() == TensorProto::EXTERNAL) {
    constant = External(tensor, size);
  } else if (contents.field != 0) {
    constant = InFile(contents, value);
  } else {
    absl::StatusOr<std::vector<std::byte>> bytes = Parsed(tensor, value);
    if (!bytes.ok()) return Annotate(bytes.status(), value.name);
    constant = InlineConstant(*std::move(bytes));
  }
  if (!constant.ok()) return Annotate(constant.status(), value.name);
  value.constant = *std::move(constant);
  return value;
}

void Widen(Value& constant) {
  if (!IsShortFloat(constant.type)) return;
  constant.constant = WidenedConstant(std::move(constant.constant), constant.type);
  constant.type = DataType::kFloat32;
}

OnnxTensors::MaybeConstant OnnxTensors::InFile(const TensorContents& contents, const Value& value) {
  const Bytes size = TensorBytes(value.type, value.shape);
  if (contents.field == TensorProto::kRawDataFieldNumber) {
    if (contents.size != size) return WrongLength(contents.size.count(), size);
    return FileConstant(model_, contents.begin, size);
  }
  const std::uint32_t want = TypedField(value.type);
  if (contents.field != want) {
    return absl::InvalidArgumentError(
        absl::StrFormat("its contents are in field %d, want field %d for %s", contents.field, want,
                        ProtocolName(value.type)));
  }
  if (want == TensorProto::kFloatDataFieldNumber || want == TensorProto::kDoubleDataFieldNumber) {
    if (contents.size != size) return WrongLength(contents.size.count(), size);
    return FileConstant(model_, contents.begin, size);
  }
  return VarintConstant(model_, contents.begin, contents.size, value.type,
                        ElementCount(value.shape));
}

OnnxTensors::MaybeConstant OnnxTensors::External(const TensorProto& tensor, Bytes size) {
  SLUICE_ASSIGN_OR_RETURN(const ExternalEntry entry, ReadEntry(tensor));
  if (entry.length && Bytes::Of(*entry.length) != size) return WrongLength(*entry.length, size);
  SLUICE_ASSIGN_OR_RETURN(std::shared_ptr<const ModelFile> file, OpenExternal(entry.location));
  if (Bytes::Of(entry.offset) + size > file->size()) {
    return absl::DataLossError(absl::StrFormat(
        "it lies at bytes %d to %d of \"%s\", which has %d", entry.offset,
        (Bytes::Of(entry.offset) + size).count(), file->path().string(), file->size().count()));
  }
  return FileConstant(std::move(file), Bytes::Of(entry.offset), size);
}

absl::StatusOr<std::shared_ptr<const ModelFile>> OnnxTensors::OpenExternal(
    const std::string& location) {
  const std::filesystem::path named = location;
  if (named.is_absolute() || location.find('\0') != std::string::npos ||
      std::ranges::find(named, "..") != named.end()) {
    return absl::InvalidArgumentError(absl::StrFormat(
        "its external data is at \"%s\", want a path from the model's folder without \"..\"",
        absl::CHexEscape(location)));
  }
  const auto known = by_location_.find(location);
  if (known != by_location_.end()) return known->second;
  SLUICE_ASSIGN_OR_RETURN(std::shared_ptr<const ModelFile> file,
                          ModelFile::Open(folder_ / named, root_));
  by_location_.emplace(location, file);
  return file;
}

std::vector<std::filesystem::path> OnnxTensors::external_files() const {
  std::vector<std::filesystem::path> files;
  for (const auto& [location, file] : by_location_) files.push_back(file->path());
  std::ranges::sort(files);
  files.erase(std::unique(files.begin(), files.end()), files.end());
  return files;
}

}  // namespace sluice
