#include "model/onnx/onnx_importer.h"

#include <optional>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "base/status_macros.h"
#include "model/host_tensor.h"
#include "model/model_file.h"
#include "model/onnx/graph_translator.h"
#include "model/onnx/input_dims.h"
#include "model/onnx/onnx_structure.h"
#include "model/onnx/onnx_tensor.h"
#include "model/rewrite.h"

namespace sluice {
namespace {

constexpr std::int64_t kNewestOpset = 21;

bool IsStandardDomain(const std::string& domain) { return domain.empty() || domain == "ai.onnx"; }

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
      : file_(structure.graph.proto),
        shared_{.structure = structure,
                .tensors = tensors,
                .options = options,
                .opset = opset,
                .values = options.values},
        main_(shared_, structure.graph, nullptr) {}

  absl::StatusOr<Graph> Import();
  // Inputs whose contents the graph was made for.
  std::map<std::string, std::vector<std::byte>> specialised() const {
    std::map<std::string, std::vector<std::byte>> contents;
    for (const std::string& name : shared_.known.used()) contents[name] = shared_.values.at(name);
    return contents;
  }
  // What unrolling has added to the graph, as far as it is not dropped again.
  Bytes unrolled() const { return shared_.inlined == 0 ? Bytes() : kUnrolledNode * nodes_; }

 private:
  absl::Status ReadInputs();
  absl::Status ReadNumbers(const Value& input);
  absl::Status CheckGivenNames() const;
  absl::Status ReadOutputs();
  ValueId Convert(ValueId id, DataType type);
  ValueId Rounded(const onnx::ValueInfoProto& output, ValueId id);
  absl::Status Missing() const;

  const onnx::GraphProto& file_;
  Translation shared_;
  GraphTranslator main_;
  std::size_t nodes_ = 0;  // Of the finished graph.
};

ValueId Importer::Convert(ValueId id, DataType type) {
  Graph& graph = shared_.graph;
  const Value& x = graph.value(id);
  Value y{.name = absl::StrFormat("%s as %s", x.name, ProtocolName(type)),
          .type = type,
          .shape = x.shape,
          .constant = nullptr,
          .dynamic = x.dynamic};
  const ValueId converted = graph.Add(std::move(y));
  graph.nodes.push_back(
      {.name = {}, .source_op = "Cast", .operation = Cast{}, .inputs = {id}, .output = converted});
  return converted;
}

// An output of 16-bit floats, which was computed in FP32.
ValueId Importer::Rounded(const onnx::ValueInfoProto& output, ValueId id) {
  Graph& graph = shared_.graph;
  const std::optional<DataType> type = DataTypeFromOnnx(output.type().tensor_type().elem_type());
  if (!type || !IsShortFloat(*type) || graph.value(id).type != DataType::kFloat32) return id;
  const ValueId rounded = Convert(id, *type);
  graph.value(id).name += " in FP32";
  graph.value(rounded).name = output.name();
  main_.Name(output.name(), rounded);
  return rounded;
}

// Numbers that were given for an input become its contents.
absl::Status Importer::ReadNumbers(const Value& input) {
  const auto given = shared_.options.numbers.find(input.name);
  if (given == shared_.options.numbers.end()) return absl::OkStatus();
  const std::uint64_t count = ElementCount(input.shape);
  if (given->second.size() != count) {
    return absl::InvalidArgumentError(
        absl::StrFormat("values of input \"%s\": got %d numbers, want %d for %s", input.name,
                        given->second.size(), count, FormatShape(input.shape)));
  }
  absl::StatusOr<std::vector<std::byte>> packed = PackNumbers(input.type, given->second);
  if (!packed.ok()) {
    return absl::InvalidArgumentError(absl::StrFormat("values of input \"%s\": %s", input.name,
                                                      std::string(packed.status().message())));
  }
  shared_.values.insert_or_assign(input.name, *std::move(packed));
  return absl::OkStatus();
}

absl::Status Importer::CheckGivenNames() const {
  for (const auto& [name, numbers] : shared_.options.numbers) {
    if (shared_.values.contains(name)) continue;
    std::vector<std::string> names;
    for (const ValueId id : shared_.graph.inputs) names.push_back(shared_.graph.value(id).name);
    return absl::InvalidArgumentError(absl::StrFormat(
        "values: there is no input \"%s\"; there are: %s", name, absl::StrJoin(names, ", ")));
  }
  return absl::OkStatus();
}

absl::Status Importer::ReadInputs() {
  const ImportOptions& options = shared_.options;
  std::vector<const onnx::ValueInfoProto*> inputs;
  for (const onnx::ValueInfoProto& input : file_.input()) {
    if (!main_.IsInitializer(input.name())) inputs.push_back(&input);
  }
  SLUICE_RETURN_IF_ERROR(CheckDimKeys(inputs, options.dims));
  for (const onnx::ValueInfoProto* input : inputs) {
    absl::StatusOr<Value> value = ReadInput(*input, options.dims);
    if (absl::IsUnimplemented(value.status())) {
      shared_.unsupported.Add(std::string(value.status().message()), input->name());
      main_.Poison(input->name());
      continue;
    }
    SLUICE_RETURN_IF_ERROR(value.status());
    if (TensorBytes(value->type, value->shape) > options.max_tensor) {
      return absl::ResourceExhaustedError(
          absl::StrFormat("input \"%s\" has shape %s, the limit for a tensor is %s", input->name(),
                          FormatShape(value->shape), FormatBytes(options.max_tensor)));
    }
    SLUICE_RETURN_IF_ERROR(ReadNumbers(*value));
    const ValueId id = shared_.graph.Add(*std::move(value));
    shared_.graph.inputs.push_back(id);
    const bool widens = IsShortFloat(shared_.graph.value(id).type);
    main_.Name(input->name(), widens ? Convert(id, DataType::kFloat32) : id);
  }
  return CheckGivenNames();
}

absl::Status Importer::ReadOutputs() {
  if (file_.output_size() == 0) return absl::InvalidArgumentError("the graph has no outputs");
  for (const onnx::ValueInfoProto& output : file_.output()) {
    const std::optional<ValueId> found = main_.Find(output.name());
    if (!found) {
      return absl::InvalidArgumentError(
          absl::StrFormat("output \"%s\" is not computed by any node", output.name()));
    }
    shared_.graph.outputs.push_back(Rounded(output, *found));
  }
  return absl::OkStatus();
}

absl::Status Importer::Missing() const {
  const UnsupportedList& unsupported = shared_.unsupported;
  if (shared_.options.missing != nullptr) *shared_.options.missing = unsupported.things();
  return unsupported.ToStatus();
}

absl::StatusOr<Graph> Importer::Import() {
  SLUICE_RETURN_IF_ERROR(main_.Prepare());
  const absl::Status inputs = ReadInputs();
  // Giving dimensions to a model that cannot run would be wasted effort.
  if (!inputs.ok() && !shared_.unsupported.empty()) return Missing();
  SLUICE_RETURN_IF_ERROR(inputs);
  SLUICE_RETURN_IF_ERROR(main_.Translate());
  if (!shared_.unsupported.empty()) return Missing();
  SLUICE_RETURN_IF_ERROR(ReadOutputs());
  Graph& graph = shared_.graph;
  graph.name = file_.name();
  DropUnused(graph);
  nodes_ = graph.nodes.size();
  SLUICE_RETURN_IF_ERROR(Validate(graph));
  return std::move(graph);
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
  model.structure_memory = structure.memory + importer.unrolled();
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
