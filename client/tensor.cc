#include "client/tensor.h"

#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "absl/status/status.h"
#include "absl/strings/str_format.h"
#include "base/status_macros.h"

namespace sluice {
namespace {

constexpr std::array<ElementType, 13> kTypes = {{
    {"BOOL", "|b1", "bool", 1},
    {"UINT8", "|u1", "uint8", 1},
    {"UINT16", "<u2", "uint16", 2},
    {"UINT32", "<u4", "uint32", 4},
    {"UINT64", "<u8", "uint64", 8},
    {"INT8", "|i1", "int8", 1},
    {"INT16", "<i2", "int16", 2},
    {"INT32", "<i4", "int32", 4},
    {"INT64", "<i8", "int64", 8},
    {"FP16", "<f2", "float16", 2},
    {"BF16", "", "bfloat16", 2},
    {"FP32", "<f4", "float32", 4},
    {"FP64", "<f8", "float64", 8},
}};

const ElementType* Find(std::string_view ElementType::*field, std::string_view name) {
  if (name.empty()) return nullptr;
  for (const ElementType& type : kTypes) {
    if (type.*field == name) return &type;
  }
  return nullptr;
}

double HalfToDouble(std::uint16_t bits) {
  const double sign = (bits & 0x8000u) != 0 ? -1.0 : 1.0;
  const int exponent = (bits >> 10) & 0x1f;
  const int fraction = bits & 0x3ff;
  if (exponent == 0x1f) {
    return fraction == 0 ? sign * std::numeric_limits<double>::infinity()
                         : std::numeric_limits<double>::quiet_NaN();
  }
  if (exponent == 0) return sign * std::ldexp(fraction, -24);
  return sign * std::ldexp(1024 + fraction, exponent - 25);
}

double BrainToDouble(std::uint16_t bits) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16);
}

template <typename T, typename Convert>
void Append(std::string_view data, std::vector<double>& values, Convert convert) {
  for (std::size_t at = 0; at + sizeof(T) <= data.size(); at += sizeof(T)) {
    T value;
    std::memcpy(&value, data.data() + at, sizeof(T));
    values.push_back(convert(value));
  }
}

template <typename T>
void Append(std::string_view data, std::vector<double>& values) {
  Append<T>(data, values, [](T value) { return static_cast<double>(value); });
}

}  // namespace

const ElementType* FindDatatype(std::string_view datatype) {
  return Find(&ElementType::datatype, datatype);
}
const ElementType* FindNpyType(std::string_view descr) { return Find(&ElementType::npy, descr); }
const ElementType* FindSetType(std::string_view name) { return Find(&ElementType::set, name); }

std::string KnownDatatypes() {
  std::string names;
  for (const ElementType& type : kTypes) {
    absl::StrAppendFormat(&names, "%s%s", names.empty() ? "" : ", ", type.datatype);
  }
  return names;
}

std::optional<std::uint64_t> ElementCount(std::span<const std::int64_t> shape) {
  std::int64_t product = 1;
  bool empty = false;
  for (const std::int64_t dimension : shape) {
    if (dimension < 0) return std::nullopt;
    if (dimension == 0) {
      empty = true;
    } else if (__builtin_mul_overflow(product, dimension, &product)) {
      return std::nullopt;
    }
  }
  return empty ? 0 : static_cast<std::uint64_t>(product);
}

absl::StatusOr<std::uint64_t> TensorBytes(std::string_view datatype,
                                          std::span<const std::int64_t> shape) {
  const ElementType* type = FindDatatype(datatype);
  if (type == nullptr) {
    return absl::InvalidArgumentError(
        absl::StrFormat("got type \"%s\", want one of %s", datatype, KnownDatatypes()));
  }
  const std::optional<std::uint64_t> count = ElementCount(shape);
  std::uint64_t bytes = 0;
  if (!count.has_value() || __builtin_mul_overflow(*count, type->bytes, &bytes) ||
      bytes > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max())) {
    return absl::InvalidArgumentError(
        absl::StrFormat("got shape %s, want dimensions of 0 or more whose product fits 63 bits",
                        FormatShape(shape)));
  }
  return bytes;
}

std::string FormatShape(std::span<const std::int64_t> shape) {
  std::string text = "[";
  for (const std::int64_t dimension : shape) {
    absl::StrAppendFormat(&text, "%s%d", text.size() > 1 ? ", " : "", dimension);
  }
  return text + "]";
}

absl::StatusOr<std::vector<double>> Values(const Tensor& tensor) {
  SLUICE_ASSIGN_OR_RETURN(const std::uint64_t bytes, TensorBytes(tensor.datatype, tensor.shape));
  if (bytes != tensor.data.size()) {
    return absl::InvalidArgumentError(
        absl::StrFormat("tensor \"%s\": got %d bytes, want %d for %s %s", tensor.name,
                        tensor.data.size(), bytes, tensor.datatype, FormatShape(tensor.shape)));
  }
  std::vector<double> values;
  values.reserve(bytes / FindDatatype(tensor.datatype)->bytes);
  const std::string_view type = tensor.datatype;
  if (type == "BOOL" || type == "UINT8") Append<std::uint8_t>(tensor.data, values);
  if (type == "UINT16") Append<std::uint16_t>(tensor.data, values);
  if (type == "UINT32") Append<std::uint32_t>(tensor.data, values);
  if (type == "UINT64") Append<std::uint64_t>(tensor.data, values);
  if (type == "INT8") Append<std::int8_t>(tensor.data, values);
  if (type == "INT16") Append<std::int16_t>(tensor.data, values);
  if (type == "INT32") Append<std::int32_t>(tensor.data, values);
  if (type == "INT64") Append<std::int64_t>(tensor.data, values);
  if (type == "FP16") Append<std::uint16_t>(tensor.data, values, HalfToDouble);
  if (type == "BF16") Append<std::uint16_t>(tensor.data, values, BrainToDouble);
  if (type == "FP32") Append<float>(tensor.data, values);
  if (type == "FP64") Append<double>(tensor.data, values);
  return values;
}

}  // namespace sluice
