#include "server/typed_contents.h"

#include <cstdint>
#include <cstring>
#include <limits>
#include <optional>
#include <string_view>

#include "absl/status/status.h"
#include "absl/strings/str_format.h"
#include "base/status_macros.h"

namespace sluice {
namespace {

using inference::InferTensorContents;

struct Field {
  std::string_view name;
  int elements;
};

std::vector<Field> FieldsOf(const InferTensorContents& contents) {
  return {{"bool_contents", contents.bool_contents_size()},
          {"int_contents", contents.int_contents_size()},
          {"int64_contents", contents.int64_contents_size()},
          {"uint_contents", contents.uint_contents_size()},
          {"uint64_contents", contents.uint64_contents_size()},
          {"fp32_contents", contents.fp32_contents_size()},
          {"fp64_contents", contents.fp64_contents_size()},
          {"bytes_contents", contents.bytes_contents_size()}};
}

// Empty for types that travel raw only.
std::string_view FieldFor(DataType type) {
  switch (type) {
    case DataType::kBool:
      return "bool_contents";
    case DataType::kInt8:
    case DataType::kInt16:
    case DataType::kInt32:
      return "int_contents";
    case DataType::kInt64:
      return "int64_contents";
    case DataType::kUint8:
    case DataType::kUint16:
    case DataType::kUint32:
      return "uint_contents";
    case DataType::kUint64:
      return "uint64_contents";
    case DataType::kFloat32:
      return "fp32_contents";
    case DataType::kFloat64:
      return "fp64_contents";
    case DataType::kFloat16:
    case DataType::kBfloat16:
      return "";
  }
  return "";
}

absl::Status CheckFields(const InferTensorContents& contents, const PortInfo& port,
                         const std::string& where) {
  const std::string_view wanted = FieldFor(port.type);
  int elements = 0;
  for (const Field& field : FieldsOf(contents)) {
    if (field.name == wanted) {
      elements = field.elements;
    } else if (field.elements > 0) {
      return wanted.empty() ? absl::InvalidArgumentError(absl::StrFormat(
                                  "%s: got %s, want raw_input_contents: %s has no typed field",
                                  where, field.name, ProtocolName(port.type)))
                            : absl::InvalidArgumentError(
                                  absl::StrFormat("%s: got %s, want %s for datatype %s", where,
                                                  field.name, wanted, ProtocolName(port.type)));
    }
  }
  const std::uint64_t want = ElementCount(port.shape);
  if (!wanted.empty() && static_cast<std::uint64_t>(elements) != want) {
    return absl::InvalidArgumentError(
        absl::StrFormat("%s: got %d elements in %s, want %d for shape %s", where, elements, wanted,
                        want, FormatShape(port.shape)));
  }
  return absl::OkStatus();
}

template <typename Element, typename Values>
absl::StatusOr<std::vector<std::byte>> Convert(const Values& values, DataType type,
                                               const std::string& where) {
  std::vector<std::byte> bytes(static_cast<std::size_t>(values.size()) * sizeof(Element));
  std::byte* to = bytes.data();
  for (int i = 0; i < values.size(); ++i) {
    const auto value = values.Get(i);
    const auto element = static_cast<Element>(value);
    if constexpr (std::numeric_limits<Element>::is_integer) {
      if (static_cast<decltype(value)>(element) != value) {
        return absl::InvalidArgumentError(absl::StrFormat("%s: got %d as element %d, want %s",
                                                          where, value, i, ProtocolName(type)));
      }
    }
    std::memcpy(to, &element, sizeof(Element));
    to += sizeof(Element);
  }
  return bytes;
}

}  // namespace

bool HasContents(const InferTensorContents& contents) {
  for (const Field& field : FieldsOf(contents)) {
    if (field.elements > 0) return true;
  }
  return false;
}

absl::StatusOr<std::vector<std::byte>> ConvertContents(const InferTensorContents& contents,
                                                       const PortInfo& port,
                                                       const std::string& where) {
  SLUICE_RETURN_IF_ERROR(CheckFields(contents, port, where));
  const DataType type = port.type;
  switch (type) {
    case DataType::kBool:
      return Convert<std::uint8_t>(contents.bool_contents(), type, where);
    case DataType::kInt8:
      return Convert<std::int8_t>(contents.int_contents(), type, where);
    case DataType::kInt16:
      return Convert<std::int16_t>(contents.int_contents(), type, where);
    case DataType::kInt32:
      return Convert<std::int32_t>(contents.int_contents(), type, where);
    case DataType::kInt64:
      return Convert<std::int64_t>(contents.int64_contents(), type, where);
    case DataType::kUint8:
      return Convert<std::uint8_t>(contents.uint_contents(), type, where);
    case DataType::kUint16:
      return Convert<std::uint16_t>(contents.uint_contents(), type, where);
    case DataType::kUint32:
      return Convert<std::uint32_t>(contents.uint_contents(), type, where);
    case DataType::kUint64:
      return Convert<std::uint64_t>(contents.uint64_contents(), type, where);
    case DataType::kFloat32:
      return Convert<float>(contents.fp32_contents(), type, where);
    case DataType::kFloat64:
      return Convert<double>(contents.fp64_contents(), type, where);
    case DataType::kFloat16:
    case DataType::kBfloat16:
      break;  // Raw only: nothing has come in typed fields.
  }
  return std::vector<std::byte>();
}

}  // namespace sluice
