#include "model/graph.h"

#include <utility>
#include <variant>

#include "absl/strings/str_format.h"
#include "base/status_macros.h"
#include "model/matrix_view.h"
#include "model/shape_rule.h"

namespace sluice {
namespace {

absl::Status Broken(const Node& node, std::string_view rule) {
  return absl::InternalError(
      absl::StrFormat("node \"%s\" (%s): %s", node.name, Name(node.operation), rule));
}

absl::Status CheckValues(const Graph& graph) {
  for (const Value& value : graph.values) {
    for (const std::int64_t dim : value.shape) {
      if (dim < 0) {
        return absl::InternalError(
            absl::StrFormat("value \"%s\" has shape %s", value.name, FormatShape(value.shape)));
      }
    }
    const Bytes size = TensorBytes(value.type, value.shape);
    if (value.constant != nullptr && value.constant->size() != size) {
      return absl::InternalError(absl::StrFormat("constant \"%s\" has %d bytes, want %d",
                                                 value.name, value.constant->size().count(),
                                                 size.count()));
    }
  }
  return absl::OkStatus();
}

// Marks what exists before the first node runs.
absl::StatusOr<std::vector<bool>> DefinedAtStart(const Graph& graph) {
  std::vector<bool> defined(graph.values.size(), false);
  for (std::size_t i = 0; i < graph.values.size(); ++i) {
    defined[i] = graph.values[i].constant != nullptr;
  }
  for (const ValueId input : graph.inputs) {
    if (Index(input) >= graph.values.size() || defined[Index(input)]) {
      return absl::InternalError(absl::StrFormat(
          "graph input %d is not a value, is a constant or is listed twice", Index(input)));
    }
    defined[Index(input)] = true;
  }
  return defined;
}

}  // namespace

ValueId Graph::Add(Value value) {
  values.push_back(std::move(value));
  return At<ValueId>(values.size() - 1);
}

std::vector<ValueId> ReadAtEnd(const Graph& graph) {
  std::vector<ValueId> read = graph.outputs;
  for (const ValueId output : graph.outputs) {
    if (graph.value(output).dynamic) read.push_back(graph.value(output).dynamic->count);
  }
  return read;
}

Bytes WeightBytes(const Graph& graph) {
  std::vector<bool> counted(graph.values.size(), false);
  Bytes total;
  for (const Node& node : graph.nodes) {
    for (const std::optional<ValueId>& input : node.inputs) {
      if (!input || counted[Index(*input)] || graph.value(*input).constant == nullptr) continue;
      counted[Index(*input)] = true;
      total += graph.value(*input).constant->size();
    }
  }
  return total;
}

std::uint64_t MacCount(const Graph& graph, const Node& node) {
  const std::uint64_t outputs = ElementCount(graph.value(node.output).shape);
  if (const auto* op = std::get_if<Convolution>(&node.operation)) {
    const Shape& weights = graph.value(*node.inputs[1]).shape;
    const Shape& x = graph.value(*node.inputs[0]).shape;
    const std::uint64_t each = ElementCount(std::span(weights).subspan(1));
    return (Bytes::Of(op->transposed ? ElementCount(x) : outputs) * each).count();
  }
  if (std::holds_alternative<FullyConnected>(node.operation)) {
    return outputs * static_cast<std::uint64_t>(graph.value(*node.inputs[0]).shape.back());
  }
  if (const auto* op = std::get_if<MatMul>(&node.operation)) {
    const MatrixView a = ViewA(*op, graph.value(*node.inputs[0]).shape);
    return outputs * static_cast<std::uint64_t>(a.shape.back());
  }
  return 0;
}

namespace {

absl::Status CheckDynamic(const Graph& graph, const Value& value,
                          const std::vector<bool>& defined) {
  if (!value.dynamic) return absl::OkStatus();
  const std::size_t count = Index(value.dynamic->count);
  if (value.dynamic->axis < value.shape.size() && count < graph.values.size() && defined[count] &&
      graph.values[count].type == DataType::kInt64 && graph.values[count].shape.empty()) {
    return absl::OkStatus();
  }
  return absl::InternalError(
      absl::StrFormat("graph output \"%s\" has a dimension %u whose size nothing computes",
                      value.name, value.dynamic->axis));
}

}  // namespace

absl::Status Validate(const Graph& graph) {
  SLUICE_RETURN_IF_ERROR(CheckValues(graph));
  SLUICE_ASSIGN_OR_RETURN(std::vector<bool> defined, DefinedAtStart(graph));
  for (const Node& node : graph.nodes) {
    for (const std::optional<ValueId>& input : node.inputs) {
      if (input && Index(*input) >= graph.values.size()) return Broken(node, "no such input");
      if (input && !defined[Index(*input)]) {
        return Broken(node, absl::StrFormat("input \"%s\" is used before it is computed",
                                            graph.value(*input).name));
      }
    }
    if (Index(node.output) >= graph.values.size()) return Broken(node, "no such output");
    if (defined[Index(node.output)]) return Broken(node, "its output is computed twice");
    defined[Index(node.output)] = true;
    const absl::Status shapes = CheckShapes(graph, node);
    if (!shapes.ok()) return Broken(node, std::string(shapes.message()));
  }
  for (const ValueId output : graph.outputs) {
    if (Index(output) >= graph.values.size() || !defined[Index(output)]) {
      return absl::InternalError(
          absl::StrFormat("graph output %d is never computed", Index(output)));
    }
    SLUICE_RETURN_IF_ERROR(CheckDynamic(graph, graph.value(output), defined));
  }
  return absl::OkStatus();
}

}  // namespace sluice
