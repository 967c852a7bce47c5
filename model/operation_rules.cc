#include "model/operation_rules.h"

#include <algorithm>

namespace sluice::rules {

absl::Status CheckOneType(Inputs inputs, const Value& y, std::size_t first, std::size_t last) {
  for (std::size_t i = first; i < std::min(inputs.size(), last); ++i) {
    if (inputs[i] != nullptr && inputs[i]->type != y.type) {
      return Wrong("input %u is %s, want the output's %s", i, ProtocolName(inputs[i]->type),
                   ProtocolName(y.type));
    }
  }
  return absl::OkStatus();
}

absl::Status CheckType(const Value& value, DataType wanted) {
  if (value.type == wanted) return absl::OkStatus();
  return Wrong("\"%s\" is %s, want %s", value.name, ProtocolName(value.type), ProtocolName(wanted));
}

absl::Status CheckIndexType(const Value& value) {
  if (value.type == DataType::kInt32 || value.type == DataType::kInt64) return absl::OkStatus();
  return Wrong("\"%s\" is %s, want INT32 or INT64", value.name, ProtocolName(value.type));
}

absl::Status CheckAxis(std::int64_t axis, const Shape& shape) {
  if (axis >= 0 && static_cast<std::size_t>(axis) < shape.size()) return absl::OkStatus();
  return Wrong("axis %d is not in the shape %s", axis, FormatShape(shape));
}

}  // namespace sluice::rules
