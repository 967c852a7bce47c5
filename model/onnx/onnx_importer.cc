#include "model/onnx/onnx_importer.h"

#include <algorithm>
#include <optional>
#include <system_error>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "absl/strings/str_format.h"
#include "base/status_macros.h"
#include "model/model_file.h"
#include "model/onnx/input_dims.h"
#include "model/onnx/onnx_node.h"
#include "model/onnx/onnx_structure.h"
#include "model/onnx/onnx_tensor.h"
#include "model/onnx/unsupported_list.h"
#include "model/rewrite.h"

namespace sluice {
namespace {

constexpr std::int64_t kNewestOpset = 21;

std::string NameOf(const onnx::NodeProto& node) {
  if (!node.name().empty() || node.output_size() == 0) return node.name();
  return node.output(0);
}

bool IsStandardDomain(const std::string& domain) { return domain.empty() || domain == "ai.onnx"; }

const OnnxOperator* FindOperator(const onnx::NodeProto& node) {
  const bool contrib = node.domain() == "com.microsoft";
  if (!contrib && !IsStandardDomain(node.domain())) return nullptr;
  const std::span<const OnnxOperator> known = contrib ? KnownContribOperators() : KnownOperators();
  const auto found = std::ranges::find(known, node.op_type(), &OnnxOperator::name);
  return found == known.end() ? nullptr : &*found;
}

absl::StatusOr<std::int64_t> OpsetOf(const onnx::ModelProto& model) {
  std::optional<std::int64_t> opset;
  for (const onnx::OperatorSetIdProto& import : model.opset_import()) {
    if (!IsStandardDomain(import.domain())) continue;
    if (opset && *opset != import.version()) {
      return absl::InvalidArgumentError(
          absl::StrFormat("the file states opsets %d and %d", *opset, import.version()));
    }
    opset = import.version();
  }
  // Files from before the format's version 3 state none and mean the first.
  if (!opset) opset = 1;
  if (*opset >= 1 && *opset <= kNewestOpset) return *opset;
  return absl::UnimplementedError(
      absl::StrFormat("the file has opset %d, want 1 to %d", *opset, kNewestOpset));
}

class Importer {
 public:
  Importer(const OnnxStructure& structure, OnnxTensors& tensors, const ImportOptions& options,
           std::int64_t opset)
      : structure_(structure),
        file_(structure.model.graph()),
        tensors_(tensors),
        options_(options),
        opset_(opset),
        known_(options.values) {}

  absl::StatusOr<Graph> Import();
  // Inputs whose contents the graph was made for.
  std::vector<std::string> specialised() const { return known_.used(); }

 private:
  absl::Status IndexNames();
  void MarkNeeded();
  void ListUnknownOperators();
  absl::Status ReadInputs();
  absl::Status ReadInitializers();
  absl::Status TranslateNodes();
  absl::Status TranslateNode(int index);
  absl::StatusOr<std::vector<std::optional<ValueId>>> InputsOf(const onnx::NodeProto& node,
                                                               bool& poisoned) const;
  absl::Status Bind(OnnxNode& node, std::size_t values_before, ValueId first);
  absl::StatusOr<ValueId> Own(OnnxNode& node, std::size_t values_before, ValueId id);
  absl::Status ReadOutputs();
  ValueId Convert(ValueId id, DataType type);
  ValueId Rounded(const onnx::ValueInfoProto& output, ValueId id);
  absl::Status Missing() const;
  std::string Versioned(const onnx::NodeProto& node) const;

  const OnnxStructure& structure_;
  const onnx::GraphProto& file_;
  OnnxTensors& tensors_;
  const ImportOptions& options_;
  std::int64_t opset_;
  KnownValues known_;

  Graph graph_;
  Bytes generated_;
  UnsupportedList unsupported_;
  std::unordered_map<std::string, int> producers_;     // Which node makes a value.
  std::unordered_map<std::string, int> initializers_;  // Which initialiser a value is.
  std::unordered_set<std::string> needed_;             // Values that some output depends on.
  std::vector<bool> node_needed_;
  std::unordered_map<std::string, ValueId> values_;  // What exists so far.
  std::unordered_set<std::string> poisoned_;         // What would, were all of it supported.
};

std::string Importer::Versioned(const onnx::NodeProto& node) const {
  if (IsStandardDomain(node.domain())) return absl::StrFormat("%s-%d", node.op_type(), opset_);
  for (const onnx::OperatorSetIdProto& import : structure_.model.opset_import()) {
    if (import.domain() != node.domain()) continue;
    return absl::StrFormat("%s.%s-%d", node.domain(), node.op_type(), import.version());
  }
  return node.domain() + "." + node.op_type();
}

absl::Status Importer::IndexNames() {
  std::unordered_set<std::string> taken;
  for (int i = 0; i < file_.initializer_size(); ++i) {
    const std::string& name = file_.initializer(i).name();
    if (name.empty() || !initializers_.emplace(name, i).second) {
      return absl::InvalidArgumentError(
          absl::StrFormat("initialiser \"%s\" has no name or one that is taken", name));
    }
    taken.insert(name);
  }
  // Up to version 3 of the format initialisers are listed as inputs too; a name may be both.
  std::unordered_set<std::string> inputs;
  for (const onnx::ValueInfoProto& input : file_.input()) {
    if (input.name().empty() || !inputs.insert(input.name()).second) {
      return absl::InvalidArgumentError(
          absl::StrFormat("input \"%s\" has no name or one that is taken", input.name()));
    }
    taken.insert(input.name());
  }
  for (int i = 0; i < file_.node_size(); ++i) {
    for (const std::string& output : file_.node(i).output()) {
      if (output.empty()) continue;
      if (!taken.insert(output).second) {
        return absl::InvalidArgumentError(
            absl::StrFormat("node \"%s\" (%s): its output \"%s\" is computed twice",
                            NameOf(file_.node(i)), file_.node(i).op_type(), output));
      }
      producers_.emplace(output, i);
    }
  }
  return absl::OkStatus();
}

// Marks what the outputs need, without recursion: a chain may be as long as the file.
void Importer::MarkNeeded() {
  node_needed_.assign(static_cast<std::size_t>(file_.node_size()), false);
  std::vector<std::string> pending;
  for (const onnx::ValueInfoProto& output : file_.output()) pending.push_back(output.name());
  while (!pending.empty()) {
    const std::string name = std::move(pending.back());
    pending.pop_back();
    if (!needed_.insert(name).second) continue;
    const auto producer = producers_.find(name);
    if (producer == producers_.end()) continue;
    const auto index = static_cast<std::size_t>(producer->second);
    if (node_needed_[index]) continue;
    node_needed_[index] = true;
    for (const std::string& input : file_.node(producer->second).input()) {
      if (!input.empty()) pending.push_back(input);
    }
  }
}

void Importer::ListUnknownOperators() {
  for (int i = 0; i < file_.node_size(); ++i) {
    const onnx::NodeProto& node = file_.node(i);
    if (!node_needed_[static_cast<std::size_t>(i)] || FindOperator(node) != nullptr) continue;
    unsupported_.Add(Versioned(node), NameOf(node));
  }
}

ValueId Importer::Convert(ValueId id, DataType type) {
  const Value& x = graph_.value(id);
  Value y{.name = absl::StrFormat("%s as %s", x.name, ProtocolName(type)),
          .type = type,
          .shape = x.shape,
          .constant = nullptr,
          .dynamic = x.dynamic};
  const ValueId converted = graph_.Add(std::move(y));
  graph_.nodes.push_back(
      {.name = {}, .source_op = "Cast", .operation = Cast{}, .inputs = {id}, .output = converted});
  return converted;
}

// An output of 16-bit floats, which was computed in FP32.
ValueId Importer::Rounded(const onnx::ValueInfoProto& output, ValueId id) {
  const std::optional<DataType> type = DataTypeFromOnnx(output.type().tensor_type().elem_type());
  if (!type || !IsShortFloat(*type) || graph_.value(id).type != DataType::kFloat32) return id;
  const ValueId rounded = Convert(id, *type);
  graph_.value(id).name += " in FP32";
  graph_.value(rounded).name = output.name();
  values_[output.name()] = rounded;
  return rounded;
}

absl::Status Importer::ReadInputs() {
  std::vector<const onnx::ValueInfoProto*> inputs;
  for (const onnx::ValueInfoProto& input : file_.input()) {
    if (!initializers_.contains(input.name())) inputs.push_back(&input);
  }
  SLUICE_RETURN_IF_ERROR(CheckDimKeys(inputs, options_.dims));
  for (const onnx::ValueInfoProto& input : file_.input()) {
    if (initializers_.contains(input.name())) continue;
    absl::StatusOr<Value> value = ReadInput(input, options_.dims);
    if (absl::IsUnimplemented(value.status())) {
      unsupported_.Add(std::string(value.status().message()), input.name());
      poisoned_.insert(input.name());
      continue;
    }
    SLUICE_RETURN_IF_ERROR(value.status());
    if (TensorBytes(value->type, value->shape) > options_.max_tensor) {
      return absl::ResourceExhaustedError(
          absl::StrFormat("input \"%s\" has shape %s, the limit for a tensor is %s", input.name(),
                          FormatShape(value->shape), FormatBytes(options_.max_tensor)));
    }
    const ValueId id = graph_.Add(*std::move(value));
    graph_.inputs.push_back(id);
    const bool widens = IsShortFloat(graph_.value(id).type);
    values_.emplace(input.name(), widens ? Convert(id, DataType::kFloat32) : id);
  }
  return absl::OkStatus();
}

absl::Status Importer::ReadInitializers() {
  for (int i = 0; i < file_.initializer_size(); ++i) {
    const onnx::TensorProto& tensor = file_.initializer(i);
    if (!needed_.contains(tensor.name())) continue;
    absl::StatusOr<Value> value =
        tensors_.Read(tensor, structure_.initializers[static_cast<std::size_t>(i)]);
    if (absl::IsUnimplemented(value.status())) {
      unsupported_.Add(absl::StrFormat("tensors of element type %d", tensor.data_type()),
                       tensor.name());
      poisoned_.insert(tensor.name());
      continue;
    }
    SLUICE_RETURN_IF_ERROR(value.status());
    Widen(*value);
    values_.emplace(tensor.name(), graph_.Add(*std::move(value)));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<std::optional<ValueId>>> Importer::InputsOf(const onnx::NodeProto& node,
                                                                       bool& poisoned) const {
  std::vector<std::optional<ValueId>> inputs;
  for (const std::string& name : node.input()) {
    if (name.empty()) {
      inputs.emplace_back(std::nullopt);
      continue;
    }
    const auto found = values_.find(name);
    if (found != values_.end()) {
      inputs.emplace_back(found->second);
      continue;
    }
    if (!poisoned_.contains(name)) {
      return absl::InvalidArgumentError(
          absl::StrFormat("its input \"%s\" is %s", name,
                          producers_.contains(name)
                              ? "computed by a later node: the graph has a cycle or is unsorted"
                              : "no input, initialiser or output of a node"));
    }
    poisoned = true;
    inputs.emplace_back(std::nullopt);
  }
  // Absent inputs at the end are as good as none.
  while (!inputs.empty() && !inputs.back() && !poisoned) inputs.pop_back();
  return inputs;
}

absl::Status CheckInputCount(const OnnxOperator& op, const OnnxNode& node) {
  bool complete = node.input_count() >= op.least_inputs && node.input_count() <= op.most_inputs;
  for (std::size_t i = 0; complete && i < op.least_inputs; ++i)
    complete = node.input(i).has_value();
  if (complete) return absl::OkStatus();
  return absl::InvalidArgumentError(
      op.most_inputs == SIZE_MAX
          ? absl::StrFormat("got %d inputs, want at least %d", node.input_count(), op.least_inputs)
          : absl::StrFormat("got %d inputs, want %d to %d", node.input_count(), op.least_inputs,
                            op.most_inputs));
}

absl::Status Importer::TranslateNodes() {
  for (int i = 0; i < file_.node_size(); ++i) {
    if (!node_needed_[static_cast<std::size_t>(i)]) continue;
    const absl::Status status = TranslateNode(i);
    if (status.ok()) continue;
    const onnx::NodeProto& node = file_.node(i);
    if (!absl::IsUnimplemented(status)) {
      return absl::Status(status.code(),
                          absl::StrFormat("node \"%s\" (%s): %s", NameOf(node), Versioned(node),
                                          std::string(status.message())));
    }
    if (!status.message().empty()) {
      unsupported_.Add(Versioned(node) + ": " + std::string(status.message()), NameOf(node));
    }
    for (const std::string& output : node.output()) poisoned_.insert(output);
  }
  return absl::OkStatus();
}

// UNIMPLEMENTED without a message: what is missing is on the list already.
absl::Status Importer::TranslateNode(int index) {
  const onnx::NodeProto& proto = file_.node(index);
  bool poisoned = false;
  SLUICE_ASSIGN_OR_RETURN(auto inputs, InputsOf(proto, poisoned));
  const OnnxOperator* op = FindOperator(proto);
  if (op == nullptr || poisoned) return absl::UnimplementedError("");
  OnnxNode node({graph_, tensors_, structure_, options_.max_tensor, generated_, known_}, index,
                opset_, std::move(inputs));
  SLUICE_RETURN_IF_ERROR(CheckInputCount(*op, node));
  const std::size_t values_before = graph_.values.size();
  SLUICE_ASSIGN_OR_RETURN(const ValueId first, op->translate(node));
  SLUICE_RETURN_IF_ERROR(node.attribute_error());
  return Bind(node, values_before, first);
}

// A value of the node's own: operators that change nothing return what another node made.
absl::StatusOr<ValueId> Importer::Own(OnnxNode& node, std::size_t values_before, ValueId id) {
  if (Index(id) >= values_before) return id;
  return node.EmitReshape(id, graph_.value(id).shape);
}

absl::Status Importer::Bind(OnnxNode& node, std::size_t values_before, ValueId first) {
  for (std::size_t i = 0; i < node.output_count(); ++i) {
    const std::string& name = node.proto().output(static_cast<int>(i));
    const std::optional<ValueId> made = i == 0 ? first : node.extra_output(i);
    if (name.empty()) continue;
    if (!made) {
      if (!needed_.contains(name)) continue;
      return absl::UnimplementedError(absl::StrFormat("output %d is used", i));
    }
    SLUICE_ASSIGN_OR_RETURN(const ValueId id, Own(node, values_before, *made));
    graph_.value(id).name = name;
    values_.emplace(name, id);
  }
  return absl::OkStatus();
}

absl::Status Importer::ReadOutputs() {
  if (file_.output_size() == 0) return absl::InvalidArgumentError("the graph has no outputs");
  for (const onnx::ValueInfoProto& output : file_.output()) {
    const auto found = values_.find(output.name());
    if (found == values_.end()) {
      return absl::InvalidArgumentError(
          absl::StrFormat("output \"%s\" is not computed by any node", output.name()));
    }
    graph_.outputs.push_back(Rounded(output, found->second));
  }
  return absl::OkStatus();
}

absl::Status Importer::Missing() const {
  if (options_.missing != nullptr) *options_.missing = unsupported_.things();
  return unsupported_.ToStatus();
}

absl::StatusOr<Graph> Importer::Import() {
  SLUICE_RETURN_IF_ERROR(IndexNames());
  MarkNeeded();
  ListUnknownOperators();
  const absl::Status inputs = ReadInputs();
  // Giving dimensions to a model that cannot run would be wasted effort.
  if (!inputs.ok() && !unsupported_.empty()) return Missing();
  SLUICE_RETURN_IF_ERROR(inputs);
  SLUICE_RETURN_IF_ERROR(ReadInitializers());
  SLUICE_RETURN_IF_ERROR(TranslateNodes());
  if (!unsupported_.empty()) return Missing();
  SLUICE_RETURN_IF_ERROR(ReadOutputs());
  graph_.name = file_.name();
  DropUnused(graph_);
  SLUICE_RETURN_IF_ERROR(Validate(graph_));
  return std::move(graph_);
}

absl::StatusOr<std::optional<std::filesystem::path>> RootOf(const ImportOptions& options) {
  if (options.root.empty()) return std::nullopt;
  std::error_code error;
  std::filesystem::path canonical = std::filesystem::canonical(options.root, error);
  if (!error) return canonical;
  return absl::NotFoundError(
      absl::StrFormat("cannot open folder \"%s\": %s", options.root.string(), error.message()));
}

absl::StatusOr<ImportedModel> ImportFrom(const std::filesystem::path& path,
                                         const ImportOptions& options) {
  SLUICE_ASSIGN_OR_RETURN(const std::optional<std::filesystem::path> root, RootOf(options));
  SLUICE_ASSIGN_OR_RETURN(const std::shared_ptr<const ModelFile> file, ModelFile::Open(path, root));
  const std::filesystem::path folder = file->path().parent_path();
  SLUICE_ASSIGN_OR_RETURN(const OnnxStructure structure,
                          ReadOnnxStructure(*file, options.max_structure, options.max_nodes));
  ImportedModel model;
  SLUICE_ASSIGN_OR_RETURN(model.opset, OpsetOf(structure.model));
  OnnxTensors tensors(file, folder, root.value_or(folder), options.max_tensor);
  Importer importer(structure, tensors, options, model.opset);
  SLUICE_ASSIGN_OR_RETURN(model.graph, importer.Import());
  model.specialised = importer.specialised();
  model.files = tensors.external_files();
  model.files.insert(model.files.begin(), file->path());
  model.producer = structure.model.producer_name();
  model.structure_hash = structure.hash;
  model.structure_memory = structure.memory;
  return model;
}

}  // namespace

absl::StatusOr<ImportedModel> ImportOnnx(const std::filesystem::path& path,
                                         const ImportOptions& options) {
  absl::StatusOr<ImportedModel> model = ImportFrom(path, options);
  if (model.ok()) return model;
  return absl::Status(
      model.status().code(),
      absl::StrFormat("\"%s\": %s", path.string(), std::string(model.status().message())));
}

}  // namespace sluice
