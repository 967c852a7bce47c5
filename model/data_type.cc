#include "model/data_type.h"

#include <array>
#include <string>

#include "base/check.h"

namespace sluice {
namespace {

struct TypeInfo {
  DataType type;
  std::uint8_t size;
  std::string_view protocol_name;
};

constexpr std::array<TypeInfo, 13> kTypes = {{
    {DataType::kFloat32, 4, "FP32"},
    {DataType::kFloat64, 8, "FP64"},
    {DataType::kFloat16, 2, "FP16"},
    {DataType::kBfloat16, 2, "BF16"},
    {DataType::kInt8, 1, "INT8"},
    {DataType::kInt16, 2, "INT16"},
    {DataType::kInt32, 4, "INT32"},
    {DataType::kInt64, 8, "INT64"},
    {DataType::kUint8, 1, "UINT8"},
    {DataType::kUint16, 2, "UINT16"},
    {DataType::kUint32, 4, "UINT32"},
    {DataType::kUint64, 8, "UINT64"},
    {DataType::kBool, 1, "BOOL"},
}};

const TypeInfo& InfoOf(DataType type) {
  for (const TypeInfo& info : kTypes) {
    if (info.type == type) return info;
  }
  SLUICE_CHECK(false);
  return kTypes[0];
}

}  // namespace

Bytes SizeOf(DataType type) { return Bytes::Of(InfoOf(type).size); }

bool IsShortFloat(DataType type) {
  return type == DataType::kFloat16 || type == DataType::kBfloat16;
}

std::string_view ProtocolName(DataType type) { return InfoOf(type).protocol_name; }

std::optional<DataType> DataTypeFromProtocolName(std::string_view name) {
  for (const TypeInfo& info : kTypes) {
    if (info.protocol_name == name) return info.type;
  }
  return std::nullopt;
}

std::uint64_t ElementCount(std::span<const std::int64_t> shape) {
  // A zero wins over any overflow, wherever it stands.
  Bytes count = Bytes::Of(1);
  for (const std::int64_t dim : shape) {
    if (dim == 0) return 0;
    count = count * static_cast<std::uint64_t>(dim);
  }
  return count.count();
}

Bytes TensorBytes(DataType type, std::span<const std::int64_t> shape) {
  return SizeOf(type) * ElementCount(shape);
}

std::string FormatShape(std::span<const std::int64_t> shape) {
  std::string text = "[";
  for (const std::int64_t dim : shape) {
    if (text.size() > 1) text += ',';
    text += std::to_string(dim);
  }
  return text + "]";
}

}  // namespace sluice
