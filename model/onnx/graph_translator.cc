#include "model/onnx/graph_translator.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_format.h"
#include "base/status_macros.h"

namespace sluice {
namespace {

bool IsStandardDomain(const std::string& domain) { return domain.empty() || domain == "ai.onnx"; }

const OnnxOperator* FindOperator(const onnx::NodeProto& node) {
  const bool contrib = node.domain() == "com.microsoft";
  if (!contrib && !IsStandardDomain(node.domain())) return nullptr;
  const std::span<const OnnxOperator> known = contrib ? KnownContribOperators() : KnownOperators();
  const auto found = std::ranges::find(known, node.op_type(), &OnnxOperator::name);
  return found == known.end() ? nullptr : &*found;
}

// The operator with the version that the file asks for.
std::string Versioned(const Translation& shared, const onnx::NodeProto& node) {
  if (IsStandardDomain(node.domain())) {
    return absl::StrFormat("%s-%d", node.op_type(), shared.opset);
  }
  for (const onnx::OperatorSetIdProto& import : shared.structure.model.opset_import()) {
    if (import.domain() != node.domain()) continue;
    return absl::StrFormat("%s.%s-%d", node.domain(), node.op_type(), import.version());
  }
  return node.domain() + "." + node.op_type();
}

using GraphPlace = std::pair<int, int>;

// The graphs that a node carries.
template <typename Visit>
void ForEachSubgraph(const OnnxGraph& graph, int node, const Visit& visit) {
  for (auto at = graph.subgraphs.lower_bound(GraphPlace{node, 0});
       at != graph.subgraphs.end() && at->first.first == node; ++at) {
    visit(*at->second);
  }
}

// Every name that a graph reads, wherever it is from.
void AddNamesRead(const OnnxGraph& graph, std::vector<std::string>& names) {
  for (int i = 0; i < graph.proto.node_size(); ++i) {
    for (const std::string& input : graph.proto.node(i).input()) {
      if (!input.empty()) names.push_back(input);
    }
    ForEachSubgraph(graph, i, [&](const OnnxGraph& inner) { AddNamesRead(inner, names); });
  }
  for (const onnx::ValueInfoProto& output : graph.proto.output()) names.push_back(output.name());
}

// All that a graph holds, for nodes that are never translated.
void ListUnknown(Translation& shared, const OnnxGraph& graph) {
  for (int i = 0; i < graph.proto.node_size(); ++i) {
    const onnx::NodeProto& node = graph.proto.node(i);
    if (FindOperator(node) == nullptr) {
      shared.unsupported.Add(Versioned(shared, node), NameOf(node));
    }
    ForEachSubgraph(graph, i, [&](const OnnxGraph& inner) { ListUnknown(shared, inner); });
  }
}

absl::Status CheckInputCount(const OnnxOperator& op, const OnnxNode& node) {
  bool complete = node.input_count() >= op.least_inputs && node.input_count() <= op.most_inputs;
  for (std::size_t i = 0; complete && i < op.least_inputs; ++i) {
    complete = node.input(i).has_value();
  }
  if (complete) return absl::OkStatus();
  return absl::InvalidArgumentError(
      op.most_inputs == SIZE_MAX
          ? absl::StrFormat("got %d inputs, want at least %d", node.input_count(), op.least_inputs)
          : absl::StrFormat("got %d inputs, want %d to %d", node.input_count(), op.least_inputs,
                            op.most_inputs));
}

}  // namespace

std::string NameOf(const onnx::NodeProto& node) {
  if (!node.name().empty() || node.output_size() == 0) return node.name();
  return node.output(0);
}

absl::Status GraphTranslator::IndexNames() {
  const onnx::GraphProto& file = file_.proto;
  std::unordered_set<std::string> taken;
  for (int i = 0; i < file.initializer_size(); ++i) {
    const std::string& name = file.initializer(i).name();
    if (name.empty() || !initializers_.emplace(name, i).second) {
      return absl::InvalidArgumentError(
          absl::StrFormat("initialiser \"%s\" has no name or one that is taken", name));
    }
    taken.insert(name);
  }
  // Up to version 3 of the format initialisers are listed as inputs too; a name may be both.
  std::unordered_set<std::string> inputs;
  for (const onnx::ValueInfoProto& input : file.input()) {
    if (input.name().empty() || !inputs.insert(input.name()).second) {
      return absl::InvalidArgumentError(
          absl::StrFormat("input \"%s\" has no name or one that is taken", input.name()));
    }
    taken.insert(input.name());
  }
  for (int i = 0; i < file.node_size(); ++i) {
    for (const std::string& output : file.node(i).output()) {
      if (output.empty()) continue;
      if (!taken.insert(output).second) {
        return absl::InvalidArgumentError(
            absl::StrFormat("node \"%s\" (%s): its output \"%s\" is computed twice",
                            NameOf(file.node(i)), file.node(i).op_type(), output));
      }
      producers_.emplace(output, i);
    }
  }
  return absl::OkStatus();
}

// Marks what the outputs need, without recursion: a chain may be as long as the file. Of a graph
// that a node carries all is needed: which of its nodes are, is not known before it is translated.
void GraphTranslator::MarkNeeded() {
  const onnx::GraphProto& file = file_.proto;
  node_needed_.assign(static_cast<std::size_t>(file.node_size()), false);
  std::vector<std::string> pending;
  for (const onnx::ValueInfoProto& output : file.output()) pending.push_back(output.name());
  while (!pending.empty()) {
    const std::string name = std::move(pending.back());
    pending.pop_back();
    if (!needed_.insert(name).second) continue;
    const auto producer = producers_.find(name);
    if (producer == producers_.end()) continue;
    const auto index = static_cast<std::size_t>(producer->second);
    if (node_needed_[index]) continue;
    node_needed_[index] = true;
    for (const std::string& input : file.node(producer->second).input()) {
      if (!input.empty()) pending.push_back(input);
    }
    ForEachSubgraph(file_, producer->second,
                    [&](const OnnxGraph& inner) { AddNamesRead(inner, pending); });
  }
}

void GraphTranslator::ListUnknownOperators() {
  for (int i = 0; i < file_.proto.node_size(); ++i) {
    const onnx::NodeProto& node = file_.proto.node(i);
    if (!node_needed_[static_cast<std::size_t>(i)] || FindOperator(node) != nullptr) continue;
    shared_.unsupported.Add(Versioned(shared_, node), NameOf(node));
  }
}

absl::Status GraphTranslator::Prepare() {
  SLUICE_RETURN_IF_ERROR(IndexNames());
  MarkNeeded();
  ListUnknownOperators();
  return absl::OkStatus();
}

std::optional<ValueId> GraphTranslator::Find(const std::string& name) const {
  for (const GraphTranslator* graph = this; graph != nullptr; graph = graph->outer_) {
    const auto found = graph->values_.find(name);
    if (found != graph->values_.end()) return found->second;
  }
  return std::nullopt;
}

bool GraphTranslator::IsPoisoned(const std::string& name) const {
  for (const GraphTranslator* graph = this; graph != nullptr; graph = graph->outer_) {
    if (graph->poisoned_.contains(name)) return true;
  }
  return false;
}

bool GraphTranslator::IsMadeLater(const std::string& name) const {
  for (const GraphTranslator* graph = this; graph != nullptr; graph = graph->outer_) {
    if (graph->producers_.contains(name)) return true;
  }
  return false;
}

absl::Status GraphTranslator::ReadInitializers() {
  for (int i = 0; i < file_.proto.initializer_size(); ++i) {
    const onnx::TensorProto& tensor = file_.proto.initializer(i);
    if (!needed_.contains(tensor.name())) continue;
    absl::StatusOr<Value> value =
        shared_.tensors.Read(tensor, file_.initializers[static_cast<std::size_t>(i)]);
    if (absl::IsUnimplemented(value.status())) {
      shared_.unsupported.Add(absl::StrFormat("tensors of element type %d", tensor.data_type()),
                              tensor.name());
      Poison(tensor.name());
      continue;
    }
    SLUICE_RETURN_IF_ERROR(value.status());
    Widen(*value);
    values_.emplace(tensor.name(), shared_.graph.Add(*std::move(value)));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<std::optional<ValueId>>> GraphTranslator::InputsOf(
    const onnx::NodeProto& node, bool& poisoned) const {
  std::vector<std::optional<ValueId>> inputs;
  for (const std::string& name : node.input()) {
    if (name.empty()) {
      inputs.emplace_back(std::nullopt);
      continue;
    }
    const std::optional<ValueId> found = Find(name);
    if (found) {
      inputs.emplace_back(found);
      continue;
    }
    if (!IsPoisoned(name)) {
      return absl::InvalidArgumentError(absl::StrFormat(
          "its input \"%s\" is %s", name,
          IsMadeLater(name) ? "computed by a later node: the graph has a cycle or is unsorted"
                            : "no input, initialiser or output of a node"));
    }
    poisoned = true;
    inputs.emplace_back(std::nullopt);
  }
  // Absent inputs at the end are as good as none.
  while (!inputs.empty() && !inputs.back() && !poisoned) inputs.pop_back();
  return inputs;
}

absl::Status GraphTranslator::Translate() {
  SLUICE_RETURN_IF_ERROR(ReadInitializers());
  for (int i = 0; i < file_.proto.node_size(); ++i) {
    if (!node_needed_[static_cast<std::size_t>(i)]) continue;
    const absl::Status status = TranslateNode(i);
    if (status.ok()) continue;
    const onnx::NodeProto& node = file_.proto.node(i);
    if (!absl::IsUnimplemented(status)) {
      return absl::Status(status.code(),
                          absl::StrFormat("node \"%s\" (%s): %s", NameOf(node),
                                          Versioned(shared_, node), std::string(status.message())));
    }
    if (!status.message().empty()) {
      shared_.unsupported.Add(Versioned(shared_, node) + ": " + std::string(status.message()),
                              NameOf(node));
    }
    for (const std::string& output : node.output()) Poison(output);
  }
  return absl::OkStatus();
}

// UNIMPLEMENTED without a message: what is missing is on the list already.
absl::Status GraphTranslator::TranslateNode(int index) {
  const onnx::NodeProto& proto = file_.proto.node(index);
  bool poisoned = false;
  SLUICE_ASSIGN_OR_RETURN(auto inputs, InputsOf(proto, poisoned));
  const OnnxOperator* op = FindOperator(proto);
  if (op == nullptr || poisoned) {
    ForEachSubgraph(file_, index, [&](const OnnxGraph& inner) { ListUnknown(shared_, inner); });
    return absl::UnimplementedError("");
  }
  OnnxNode node({.graph = shared_.graph,
                 .tensors = shared_.tensors,
                 .file = file_,
                 .scope = *this,
                 .max_tensor = shared_.options.max_tensor,
                 .generated = shared_.generated,
                 .known = shared_.known},
                index, shared_.opset, std::move(inputs));
  SLUICE_RETURN_IF_ERROR(CheckInputCount(*op, node));
  const std::size_t values_before = shared_.graph.values.size();
  SLUICE_ASSIGN_OR_RETURN(const ValueId first, op->translate(node));
  SLUICE_RETURN_IF_ERROR(node.attribute_error());
  return Bind(node, values_before, first);
}

// A value of the node's own: operators that change nothing return what another node made.
absl::StatusOr<ValueId> GraphTranslator::Own(OnnxNode& node, std::size_t values_before,
                                             ValueId id) const {
  if (Index(id) >= values_before) return id;
  return node.EmitReshape(id, shared_.graph.value(id).shape);
}

absl::Status GraphTranslator::Bind(OnnxNode& node, std::size_t values_before, ValueId first) {
  for (std::size_t i = 0; i < node.output_count(); ++i) {
    const std::string& name = node.proto().output(static_cast<int>(i));
    const std::optional<ValueId> made = i == 0 ? first : node.extra_output(i);
    if (name.empty()) continue;
    if (!made) {
      if (!needed_.contains(name)) continue;
      return absl::UnimplementedError(absl::StrFormat("output %d is used", i));
    }
    SLUICE_ASSIGN_OR_RETURN(const ValueId id, Own(node, values_before, *made));
    shared_.graph.value(id).name = name;
    values_.emplace(name, id);
  }
  return absl::OkStatus();
}

// Unrolled, a small file may become a large graph.
absl::Status GraphTranslator::BookInlined() const {
  const std::size_t nodes = ++shared_.inlined + shared_.graph.nodes.size();
  const ImportOptions& options = shared_.options;
  if (nodes > options.max_nodes) {
    return absl::ResourceExhaustedError(
        absl::StrFormat("unrolled, the graph has more than %d nodes", options.max_nodes));
  }
  if (kUnrolledNode * nodes <= options.max_structure) return absl::OkStatus();
  return absl::ResourceExhaustedError(absl::StrFormat("unrolled, the graph takes more than %s",
                                                      FormatBytes(options.max_structure)));
}

absl::StatusOr<std::vector<ValueId>> GraphTranslator::Inline(
    int node, std::string_view name, std::span<const ValueId> inputs) const {
  const onnx::NodeProto& proto = file_.proto.node(node);
  const auto attribute = std::ranges::find(proto.attribute(), name, &onnx::AttributeProto::name);
  const auto slot = static_cast<int>(attribute - proto.attribute().begin());
  const auto found = file_.subgraphs.find(GraphPlace{node, slot});
  if (attribute == proto.attribute().end() || found == file_.subgraphs.end()) {
    return absl::InvalidArgumentError(absl::StrFormat("attribute \"%s\" holds no graph", name));
  }
  SLUICE_RETURN_IF_ERROR(BookInlined());
  const OnnxGraph& body = *found->second;
  if (static_cast<std::size_t>(body.proto.input_size()) != inputs.size()) {
    return absl::InvalidArgumentError(absl::StrFormat(
        "the graph \"%s\" has %d inputs, want %d", name, body.proto.input_size(), inputs.size()));
  }
  GraphTranslator inner(shared_, body, this);
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    inner.Name(body.proto.input(static_cast<int>(i)).name(), inputs[i]);
  }
  SLUICE_RETURN_IF_ERROR(inner.Prepare());
  SLUICE_RETURN_IF_ERROR(inner.Translate());
  std::vector<ValueId> outputs;
  for (const onnx::ValueInfoProto& output : body.proto.output()) {
    const std::optional<ValueId> made = inner.Find(output.name());
    if (made) {
      outputs.push_back(*made);
    } else if (inner.IsPoisoned(output.name())) {
      return absl::UnimplementedError("");
    } else {
      return absl::InvalidArgumentError(absl::StrFormat(
          "output \"%s\" of the graph \"%s\" is not computed by any node", output.name(), name));
    }
  }
  return outputs;
}

absl::StatusOr<std::vector<ValueId>> OnnxNode::Inline(std::string_view attribute,
                                                      std::span<const ValueId> inputs) const {
  return context_.scope.Inline(index_, attribute, inputs);
}

}  // namespace sluice
