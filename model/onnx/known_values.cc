#include "model/onnx/known_values.h"

#include <optional>
#include <utility>

#include "absl/strings/str_format.h"
#include "base/status_macros.h"
#include "model/host_tensor.h"

namespace sluice {

void KnownValues::FindProducers(const Graph& graph) {
  for (; nodes_seen_ < graph.nodes.size(); ++nodes_seen_) {
    producers_[Index(graph.nodes[nodes_seen_].output)] = nodes_seen_;
  }
}

const Node* KnownValues::ProducerOf(const Graph& graph, ValueId id) const {
  const auto found = producers_.find(Index(id));
  return found == producers_.end() ? nullptr : &graph.nodes[found->second];
}

absl::StatusOr<KnownValues::Known> KnownValues::EvaluateInput(const Graph& graph,
                                                              ValueId id) const {
  const Value& value = graph.value(id);
  if (value.constant != nullptr) return Known{value.constant, {}};
  const auto given = contents_.find(value.name);
  if (given == contents_.end()) return Known{};
  const Bytes size = TensorBytes(value.type, value.shape);
  if (Bytes::Of(given->second.size()) != size) {
    return absl::InvalidArgumentError(absl::StrFormat(
        "the contents given for input \"%s\" have %d bytes, want %d for %s %s", value.name,
        given->second.size(), size.count(), ProtocolName(value.type), FormatShape(value.shape)));
  }
  if (size > kMaxFolded) return Known{};
  return Known{InlineConstant(given->second), {value.name}};
}

// Folds a copy of the node whose inputs are constants.
absl::StatusOr<KnownValues::Known> KnownValues::EvaluateNode(const Graph& graph,
                                                             const Node& node) const {
  Graph alone;
  Node copy = node;
  Known result;
  for (std::optional<ValueId>& input : copy.inputs) {
    if (!input) continue;
    const Known& known = known_.at(Index(*input));
    if (known.constant == nullptr) return Known{};
    result.inputs.insert(known.inputs.begin(), known.inputs.end());
    Value value = graph.value(*input);
    value.constant = known.constant;
    input = alone.Add(std::move(value));
  }
  copy.output = alone.Add(graph.value(node.output));
  SLUICE_ASSIGN_OR_RETURN(result.constant, Fold(alone, copy));
  return result;
}

// Without recursion: a chain may be as long as the file.
absl::StatusOr<std::shared_ptr<const Constant>> KnownValues::Evaluate(const Graph& graph,
                                                                      ValueId id) {
  FindProducers(graph);
  std::vector<ValueId> pending = {id};
  while (!pending.empty()) {
    const ValueId next = pending.back();
    if (known_.contains(Index(next))) {
      pending.pop_back();
      continue;
    }
    const Node* producer = ProducerOf(graph, next);
    if (producer == nullptr || graph.value(next).constant != nullptr) {
      SLUICE_ASSIGN_OR_RETURN(known_[Index(next)], EvaluateInput(graph, next));
      continue;
    }
    const std::size_t before = pending.size();
    for (const std::optional<ValueId>& input : producer->inputs) {
      if (input && !known_.contains(Index(*input))) pending.push_back(*input);
    }
    if (pending.size() > before) continue;
    SLUICE_ASSIGN_OR_RETURN(known_[Index(next)], EvaluateNode(graph, *producer));
  }
  const Known& known = known_.at(Index(id));
  if (known.constant != nullptr) used_.insert(known.inputs.begin(), known.inputs.end());
  return known.constant;
}

std::string KnownValues::DependsOn(const Graph& graph, ValueId id) {
  FindProducers(graph);
  std::set<std::size_t> seen;
  std::set<std::string> names;
  std::vector<ValueId> pending = {id};
  while (!pending.empty()) {
    const ValueId next = pending.back();
    pending.pop_back();
    if (!seen.insert(Index(next)).second || graph.value(next).constant != nullptr) continue;
    const Node* producer = ProducerOf(graph, next);
    if (producer == nullptr) {
      names.insert(graph.value(next).name);
      continue;
    }
    for (const std::optional<ValueId>& input : producer->inputs) {
      if (input) pending.push_back(*input);
    }
  }
  std::string text;
  std::size_t left = names.size();
  for (const std::string& name : names) {
    --left;
    absl::StrAppendFormat(&text, "\"%s\"%s", name, left > 1 ? ", " : left == 1 ? " and " : "");
  }
  return text;
}

}  // namespace sluice
