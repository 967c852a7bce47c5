#include "client/tensor_set.h"

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_format.h"
#include "base/status_macros.h"
#include "client/file.h"
#include "nlohmann/json.hpp"

namespace sluice {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::string_view kSchema = "tensor-set/1";
constexpr Bytes kMaxIndex = Bytes::Of(1024 * 1024);

absl::Status Refuse(const std::filesystem::path& file, std::string_view found,
                    std::string_view wanted) {
  return absl::InvalidArgumentError(
      absl::StrFormat("%s: got %s, want %s", file.string(), found, wanted));
}

// The string under `key`; empty when it is missing or no string.
std::string StringAt(const Json& object, const char* key) {
  if (!object.is_object()) return "";
  const auto found = object.find(key);
  return found != object.end() && found->is_string() ? found->get<std::string>() : "";
}

absl::StatusOr<std::vector<std::int64_t>> ShapeOf(const Json& entry,
                                                  const std::filesystem::path& index) {
  std::vector<std::int64_t> shape;
  const auto found = entry.find("shape");
  const bool is_list = found != entry.end() && found->is_array();
  if (is_list) {
    for (const Json& dimension : *found) {
      if (!dimension.is_number_unsigned() || dimension.get<std::uint64_t>() > INT64_MAX) {
        return Refuse(index, "dimension " + dimension.dump(), "a whole number of 0 or more");
      }
      shape.push_back(dimension.get<std::int64_t>());
    }
  }
  if (!is_list) return Refuse(index, "a tensor without shape", "\"shape\": [...]");
  return shape;
}

absl::StatusOr<Tensor> ReadEntry(const Json& entry, const std::filesystem::path& folder,
                                 const std::filesystem::path& index) {
  Tensor tensor;
  tensor.name = StringAt(entry, "name");
  const std::string dtype = StringAt(entry, "dtype");
  const std::filesystem::path file = StringAt(entry, "file");
  if (tensor.name.empty() || file.empty()) {
    return Refuse(index, "a tensor without name or file", "name, dtype, shape and file");
  }
  const ElementType* type = FindSetType(dtype);
  if (type == nullptr) {
    return Refuse(index, absl::StrFormat("dtype \"%s\" of tensor \"%s\"", dtype, tensor.name),
                  "float32, float16, uint8, int64, bool, ...");
  }
  if (file != file.filename() || file == "." || file == "..") {
    return Refuse(index, absl::StrFormat("file \"%s\"", file.string()),
                  "the name of a file in the same folder");
  }
  tensor.datatype = std::string(type->datatype);
  SLUICE_ASSIGN_OR_RETURN(tensor.shape, ShapeOf(entry, index));
  const absl::StatusOr<std::uint64_t> bytes = TensorBytes(tensor.datatype, tensor.shape);
  if (!bytes.ok()) return Refuse(index, FormatShape(tensor.shape), "a shape that fits memory");
  SLUICE_ASSIGN_OR_RETURN(tensor.data, ReadFile(folder / file, kMaxTensorFile));
  if (tensor.data.size() != *bytes) {
    return Refuse(folder / file, absl::StrFormat("%d bytes", tensor.data.size()),
                  absl::StrFormat("%d for %s %s", *bytes, dtype, FormatShape(tensor.shape)));
  }
  return tensor;
}

}  // namespace

absl::StatusOr<std::vector<Tensor>> ReadTensorSet(const std::filesystem::path& folder) {
  const std::filesystem::path index = folder / "tensors.json";
  SLUICE_ASSIGN_OR_RETURN(const std::string text, ReadFile(index, kMaxIndex));
  const Json set = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (set.is_discarded()) return Refuse(index, "text that is not JSON", "a tensor set");
  if (StringAt(set, "schema") != kSchema) {
    return Refuse(index, absl::StrFormat("schema \"%s\"", StringAt(set, "schema")),
                  absl::StrFormat("\"%s\"", kSchema));
  }
  const auto entries = set.find("tensors");
  if (entries == set.end() || !entries->is_array()) {
    return Refuse(index, "no list of tensors", "\"tensors\": [...]");
  }
  std::vector<Tensor> tensors;
  for (const Json& entry : *entries) {
    SLUICE_ASSIGN_OR_RETURN(Tensor tensor, ReadEntry(entry, folder, index));
    tensors.push_back(std::move(tensor));
  }
  return tensors;
}

absl::Status WriteTensorSet(const std::filesystem::path& folder,
                            const std::vector<Tensor>& tensors) {
  SLUICE_RETURN_IF_ERROR(MakeFolder(folder));
  Json set = {{"schema", kSchema}, {"tensors", Json::array()}};
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const Tensor& tensor = tensors[i];
    const ElementType* type = FindDatatype(tensor.datatype);
    if (type == nullptr) {
      return absl::InvalidArgumentError(
          absl::StrFormat("tensor \"%s\": got type %s, want one with a fixed element size",
                          tensor.name, tensor.datatype));
    }
    const std::string file = absl::StrFormat("%02d.bin", i);
    SLUICE_RETURN_IF_ERROR(WriteFile(folder / file, tensor.data));
    set["tensors"].push_back(
        Json{{"name", tensor.name}, {"dtype", type->set}, {"shape", tensor.shape}, {"file", file}});
  }
  return WriteFile(folder / "tensors.json",
                   set.dump(1, ' ', false, Json::error_handler_t::replace) + "\n");
}

}  // namespace sluice
