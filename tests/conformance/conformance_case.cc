#include "tests/conformance/conformance_case.h"

#include <onnx/onnx_pb.h>

#include <algorithm>
#include <array>
#include <fstream>
#include <functional>
#include <set>
#include <utility>

#include "absl/strings/str_format.h"
#include "base/status_macros.h"
#include "model/onnx/onnx_tensor.h"

namespace sluice {
namespace {

constexpr std::string_view kGroups[] = {"node", "simple", "pytorch-converted", "pytorch-operator"};

template <typename Message>
absl::StatusOr<Message> Parse(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  Message message;
  if (file && message.ParseFromIstream(&file)) return message;
  return absl::DataLossError(absl::StrFormat("cannot parse \"%s\"", path.string()));
}

// Operators that make a test one of another class, wherever they stand.
struct ClassOfOperators {
  ConformanceClass kind;
  std::set<std::string> operators;
};
const std::vector<ClassOfOperators>& Classes() {
  static const std::vector<ClassOfOperators> classes = {
      {ConformanceClass::kLoss, {"SoftmaxCrossEntropyLoss", "NegativeLogLikelihoodLoss"}},
      {ConformanceClass::kTraining, {"Adagrad", "Adam", "Momentum", "Gradient"}},
      {ConformanceClass::kSignal,
       {"DFT", "STFT", "HannWindow", "HammingWindow", "BlackmanWindow", "MelWeightMatrix"}},
      {ConformanceClass::kRandom,
       {"RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike", "Bernoulli",
        "Multinomial"}},
      {ConformanceClass::kString, {"StringNormalizer", "TfIdfVectorizer"}},
  };
  return classes;
}

using VisitNode = std::function<void(const onnx::NodeProto&)>;
void ForEachNode(const onnx::GraphProto& graph, const VisitNode& visit) {
  for (const onnx::NodeProto& node : graph.node()) {
    visit(node);
    for (const onnx::AttributeProto& attribute : node.attribute()) {
      if (attribute.has_g()) ForEachNode(attribute.g(), visit);
    }
  }
}

bool Trains(const onnx::NodeProto& node, const onnx::GraphProto& graph) {
  for (const onnx::AttributeProto& attribute : node.attribute()) {
    if (attribute.name() == "training_mode" && attribute.i() != 0) return true;
  }
  // Dropout's third input.
  if (node.op_type() != "Dropout" || node.input_size() < 3 || node.input(2).empty()) return false;
  return graph.name().find("training") != std::string::npos;
}

// Classes that the types of inputs and outputs decide.
ConformanceClass ClassOfTypes(const onnx::GraphProto& graph) {
  for (const auto* ports : {&graph.input(), &graph.output()}) {
    for (const onnx::ValueInfoProto& port : *ports) {
      if (!port.type().has_tensor_type()) return ConformanceClass::kSequence;
      const int type = port.type().tensor_type().elem_type();
      if (type == onnx::TensorProto::STRING) return ConformanceClass::kString;
      if (type == onnx::TensorProto::BFLOAT16) return ConformanceClass::kBfloat16;
    }
  }
  return ConformanceClass::kCore;
}

// Losses written out as other operators.
bool IsExpandedLoss(const onnx::GraphProto& graph) {
  return graph.name().starts_with("test_nllloss_") || graph.name().starts_with("test_sce_");
}

ConformanceClass ClassOf(const onnx::GraphProto& graph) {
  ConformanceClass kind = IsExpandedLoss(graph) ? ConformanceClass::kLoss : ConformanceClass::kCore;
  ForEachNode(graph, [&](const onnx::NodeProto& node) {
    for (const ClassOfOperators& each : Classes()) {
      if (each.operators.contains(node.op_type())) kind = each.kind;
    }
    if (kind == ConformanceClass::kCore && Trains(node, graph)) kind = ConformanceClass::kTraining;
    if (kind == ConformanceClass::kCore &&
        (node.op_type().starts_with("Sequence") || node.op_type().starts_with("Optional") ||
         node.op_type() == "SplitToSequence")) {
      kind = ConformanceClass::kSequence;
    }
  });
  return kind == ConformanceClass::kCore ? ClassOfTypes(graph) : kind;
}

// One tensor of the test, under the name that the graph gives it.
absl::StatusOr<Value> ReadTensor(const std::filesystem::path& path, const std::string& name) {
  SLUICE_ASSIGN_OR_RETURN(const onnx::TensorProto tensor, Parse<onnx::TensorProto>(path));
  OnnxTensors tensors(nullptr, path.parent_path(), path.parent_path(), Bytes::Of(1u << 30));
  SLUICE_ASSIGN_OR_RETURN(Value value, tensors.Read(tensor, {}));
  value.name = name;
  return value;
}

}  // namespace

std::string_view Name(ConformanceClass kind) {
  constexpr std::array<std::string_view, 8> kNames = {
      "core", "loss", "training", "sequence or optional", "string", "signal", "random", "bfloat16"};
  return kNames[static_cast<std::size_t>(kind)];
}

absl::StatusOr<std::vector<ConformanceCase>> FindConformanceCases(
    const std::filesystem::path& data) {
  std::vector<ConformanceCase> cases;
  std::error_code error;
  for (const std::string_view group : kGroups) {
    for (const auto& entry : std::filesystem::directory_iterator(data / group, error)) {
      if (!std::filesystem::exists(entry.path() / "model.onnx")) continue;
      cases.push_back({std::string(group), entry.path().filename().string(), entry.path()});
    }
  }
  if (cases.empty()) {
    return absl::NotFoundError(absl::StrFormat("no tests in \"%s\"", data.string()));
  }
  std::ranges::stable_sort(cases, {}, &ConformanceCase::name);
  std::ranges::stable_sort(cases, {}, [](const ConformanceCase& test) {
    return std::ranges::find(kGroups, test.group) - std::begin(kGroups);
  });
  return cases;
}

absl::StatusOr<ConformanceTest> ReadConformanceTest(const ConformanceCase& test) {
  SLUICE_ASSIGN_OR_RETURN(const onnx::ModelProto model,
                          Parse<onnx::ModelProto>(test.folder / "model.onnx"));
  ConformanceTest read;
  read.kind = ClassOf(model.graph());
  if (read.kind != ConformanceClass::kCore) return read;
  std::set<std::string> initializers;
  for (const onnx::TensorProto& tensor : model.graph().initializer()) {
    initializers.insert(tensor.name());
  }
  const std::filesystem::path data = test.folder / "test_data_set_0";
  for (const onnx::ValueInfoProto& input : model.graph().input()) {
    const auto path = data / absl::StrFormat("input_%d.pb", read.inputs.size());
    // What has an initialiser may come without contents.
    if (initializers.contains(input.name()) && !std::filesystem::exists(path)) continue;
    SLUICE_ASSIGN_OR_RETURN(Value value, ReadTensor(path, input.name()));
    read.inputs.push_back(std::move(value));
  }
  for (const onnx::ValueInfoProto& output : model.graph().output()) {
    const auto path = data / absl::StrFormat("output_%d.pb", read.outputs.size());
    SLUICE_ASSIGN_OR_RETURN(Value value, ReadTensor(path, output.name()));
    read.outputs.push_back(std::move(value));
  }
  return read;
}

}  // namespace sluice
