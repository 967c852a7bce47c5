#include "model/onnx/input_dims.h"

#include <algorithm>
#include <array>
#include <optional>
#include <set>

#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "base/status_macros.h"
#include "model/onnx/onnx_tensor.h"

namespace sluice {
namespace {

using Dims = std::map<std::string, std::int64_t>;
using Dimension = onnx::TensorShapeProto::Dimension;

constexpr std::array<const char*, 4> kRoles = {"batch", "channels", "height", "width"};
constexpr int kMaxRank = 64;
constexpr std::size_t kMostListed = 500;  // Characters of the keys in an error.

absl::StatusOr<std::int64_t> Checked(const std::string& key, std::int64_t value) {
  if (value > 0) return value;
  return absl::InvalidArgumentError(
      absl::StrFormat("dims.%s is %d, want a positive number", key, value));
}

absl::StatusOr<std::int64_t> ValueOf(const std::string& input, int axis, int rank,
                                     const Dimension& dimension, const Dims& dims) {
  const std::string place = absl::StrFormat("%s[%d]", input, axis);
  const auto by_place = dims.find(place);
  // Some exporters write a negative number for "any".
  if (dimension.has_dim_value() && dimension.dim_value() >= 0) {
    if (by_place != dims.end() && by_place->second != dimension.dim_value()) {
      return absl::InvalidArgumentError(absl::StrFormat("dims.%s is %d, the file fixes it to %d",
                                                        place, by_place->second,
                                                        dimension.dim_value()));
    }
    return dimension.dim_value();
  }
  if (by_place != dims.end()) return Checked(place, by_place->second);
  const auto by_name = dims.find(dimension.dim_param());
  if (!dimension.dim_param().empty() && by_name != dims.end()) {
    return Checked(dimension.dim_param(), by_name->second);
  }
  const char* role = rank == 4 ? kRoles[static_cast<std::size_t>(axis)] : nullptr;
  if (role != nullptr) {
    if (const auto by_role = dims.find(role); by_role != dims.end()) {
      return Checked(role, by_role->second);
    }
  }
  return absl::InvalidArgumentError(absl::StrFormat(
      "input \"%s\": dimension %d (%s) is symbolic and has no value; give one in the model "
      "description, such as dims: { \"%s\": 1 }%s",
      input, axis,
      dimension.dim_param().empty() ? std::string("unnamed") : "\"" + dimension.dim_param() + "\"",
      dimension.dim_param().empty() ? place : dimension.dim_param(),
      role == nullptr ? std::string() : absl::StrFormat(" or dims: { %s: 1 }", role)));
}

// "x[0]" and "N" for a dimension that has both.
std::set<std::string> DimKeys(const onnx::ValueInfoProto& input) {
  std::set<std::string> keys;
  const onnx::TensorShapeProto& shape = input.type().tensor_type().shape();
  const int rank = std::min(shape.dim_size(), kMaxRank);
  for (int axis = 0; axis < rank; ++axis) {
    keys.insert(absl::StrFormat("%s[%d]", input.name(), axis));
    if (!shape.dim(axis).dim_param().empty()) keys.insert(shape.dim(axis).dim_param());
  }
  return keys;
}

}  // namespace

absl::Status CheckDimKeys(std::span<const onnx::ValueInfoProto* const> inputs, const Dims& dims) {
  if (dims.empty()) return absl::OkStatus();
  std::set<std::string> known(kRoles.begin(), kRoles.end());  // Also where the file fixes them.
  for (const onnx::ValueInfoProto* input : inputs) known.merge(DimKeys(*input));
  for (const auto& [key, value] : dims) {
    if (known.contains(key)) continue;
    return absl::InvalidArgumentError(
        absl::StrFormat("dims.%s: no input has such a dimension, want one of %s", key,
                        absl::StrJoin(known, ", ").substr(0, kMostListed)));
  }
  return absl::OkStatus();
}

absl::StatusOr<Value> ReadInput(const onnx::ValueInfoProto& input, const Dims& dims) {
  if (!input.type().has_tensor_type()) {
    return absl::UnimplementedError(absl::StrFormat("input \"%s\" is not a tensor", input.name()));
  }
  const auto& tensor = input.type().tensor_type();
  const std::optional<DataType> type = DataTypeFromOnnx(tensor.elem_type());
  if (!type) {
    return absl::UnimplementedError(absl::StrFormat(
        "input \"%s\": element type %d is not supported", input.name(), tensor.elem_type()));
  }
  if (!tensor.has_shape()) {
    return absl::InvalidArgumentError(absl::StrFormat(
        "input \"%s\" has no shape in the file, not even its number of dimensions", input.name()));
  }
  const int rank = tensor.shape().dim_size();
  if (rank > kMaxRank) {
    return absl::InvalidArgumentError(absl::StrFormat(
        "input \"%s\" has %d dimensions, want at most %d", input.name(), rank, kMaxRank));
  }
  Value value{.name = input.name(), .type = *type, .shape = {}, .constant = nullptr};
  for (int axis = 0; axis < rank; ++axis) {
    SLUICE_ASSIGN_OR_RETURN(const std::int64_t dim,
                            ValueOf(input.name(), axis, rank, tensor.shape().dim(axis), dims));
    value.shape.push_back(dim);
  }
  return value;
}

}  // namespace sluice
