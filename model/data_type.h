// model/data_type.h
//
// Element types of tensors, and shapes.

#ifndef SLUICE_MODEL_DATA_TYPE_H_
#define SLUICE_MODEL_DATA_TYPE_H_

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/bytes.h"

namespace sluice {

enum class DataType : std::uint8_t {
  kFloat32,
  kFloat64,
  kFloat16,
  kBfloat16,
  kInt8,
  kInt16,
  kInt32,
  kInt64,
  kUint8,
  kUint16,
  kUint32,
  kUint64,
  kBool,
};

Bytes SizeOf(DataType type);
bool IsShortFloat(DataType type);  // kFloat16 or kBfloat16.
// The Open Inference Protocol's word: "FP32", "INT64", "BOOL", ...
std::string_view ProtocolName(DataType type);
std::optional<DataType> DataTypeFromProtocolName(std::string_view name);

// Dimensions, outermost first; every one known and not negative. Empty for a scalar.
using Shape = std::vector<std::int64_t>;

// Saturates, so a shape read from a file cannot overflow. 1 for a scalar.
std::uint64_t ElementCount(std::span<const std::int64_t> shape);
Bytes TensorBytes(DataType type, std::span<const std::int64_t> shape);  // Saturates.
// "[1,3,224,224]"
std::string FormatShape(std::span<const std::int64_t> shape);

}  // namespace sluice

#endif  // SLUICE_MODEL_DATA_TYPE_H_
