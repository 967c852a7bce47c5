#include "model/onnx/onnx_summary.h"

#include <unordered_set>
#include <utility>

#include "absl/strings/str_format.h"
#include "base/status_macros.h"
#include "model/model_file.h"
#include "model/onnx/onnx_structure.h"
#include "model/onnx/onnx_tensor.h"

namespace sluice {
namespace {

std::string DimensionText(const onnx::TensorShapeProto::Dimension& dimension) {
  if (dimension.has_dim_value() && dimension.dim_value() >= 0) {
    return absl::StrFormat("%d", dimension.dim_value());
  }
  return dimension.dim_param().empty() ? "?" : dimension.dim_param();
}

OnnxPort PortOf(const onnx::ValueInfoProto& value) {
  OnnxPort port{.name = value.name(), .type = std::nullopt, .dims = {}};
  if (!value.type().has_tensor_type()) return port;
  const auto& tensor = value.type().tensor_type();
  port.type = DataTypeFromOnnx(tensor.elem_type());
  for (const auto& dimension : tensor.shape().dim()) port.dims.push_back(DimensionText(dimension));
  return port;
}

void CountOperators(const OnnxGraph& graph, OnnxSummary& summary) {
  for (const onnx::NodeProto& node : graph.proto.node()) {
    const bool standard = node.domain().empty() || node.domain() == "ai.onnx";
    ++summary.operators[standard ? node.op_type() : node.domain() + "." + node.op_type()];
  }
  summary.nodes += static_cast<std::size_t>(graph.proto.node_size());
  for (const auto& [place, inner] : graph.subgraphs) CountOperators(*inner, summary);
}

OnnxSummary Summarize(const OnnxStructure& structure) {
  OnnxSummary summary;
  const onnx::ModelProto& model = structure.model;
  const onnx::GraphProto& graph = structure.graph.proto;
  summary.producer = model.producer_name();
  for (const onnx::OperatorSetIdProto& import : model.opset_import()) {
    if (import.domain().empty() || import.domain() == "ai.onnx") summary.opset = import.version();
  }
  std::unordered_set<std::string> initializers;
  for (const onnx::TensorProto& tensor : graph.initializer()) {
    initializers.insert(tensor.name());
  }
  for (const onnx::ValueInfoProto& input : graph.input()) {
    if (!initializers.contains(input.name())) summary.inputs.push_back(PortOf(input));
  }
  for (const onnx::ValueInfoProto& output : graph.output()) {
    summary.outputs.push_back(PortOf(output));
  }
  CountOperators(structure.graph, summary);
  return summary;
}

}  // namespace

absl::StatusOr<OnnxSummary> SummarizeOnnx(const std::filesystem::path& path,
                                          const ImportOptions& options) {
  const absl::StatusOr<std::shared_ptr<const ModelFile>> file = ModelFile::Open(path);
  absl::Status failed = file.status();
  if (file.ok()) {
    const absl::StatusOr<OnnxStructure> structure =
        ReadOnnxStructure(**file, options.max_structure, options.max_nodes);
    if (structure.ok()) return Summarize(*structure);
    failed = structure.status();
  }
  return absl::Status(failed.code(),
                      absl::StrFormat("\"%s\": %s", path.string(), std::string(failed.message())));
}

}  // namespace sluice
