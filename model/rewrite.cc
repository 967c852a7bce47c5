#include "model/rewrite.h"

#include <algorithm>
#include <vector>

#include "base/status_macros.h"

namespace sluice {

std::size_t DropUnused(Graph& graph) {
  std::vector<bool> used(graph.values.size(), false);
  for (const ValueId output : graph.outputs) used[Index(output)] = true;
  std::vector<bool> node_used(graph.nodes.size(), false);
  std::size_t dropped = 0;
  for (std::size_t i = graph.nodes.size(); i-- > 0;) {
    const Node& node = graph.nodes[i];
    if (!used[Index(node.output)]) {
      ++dropped;
      continue;
    }
    node_used[i] = true;
    for (const std::optional<ValueId>& input : node.inputs) {
      if (input) used[Index(*input)] = true;
    }
  }
  // A caller may still supply an input that nothing reads.
  for (const ValueId input : graph.inputs) used[Index(input)] = true;
  std::vector<ValueId> renumbered(graph.values.size());
  std::vector<Value> values;
  for (std::size_t i = 0; i < graph.values.size(); ++i) {
    renumbered[i] = At<ValueId>(values.size());
    if (used[i]) values.push_back(std::move(graph.values[i]));
  }
  dropped += graph.values.size() - values.size();
  graph.values = std::move(values);
  std::vector<Node> nodes;
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    if (node_used[i]) nodes.push_back(std::move(graph.nodes[i]));
  }
  graph.nodes = std::move(nodes);
  const auto renumber = [&](ValueId& id) { id = renumbered[Index(id)]; };
  for (Node& node : graph.nodes) {
    renumber(node.output);
    for (std::optional<ValueId>& input : node.inputs) {
      if (input) renumber(*input);
    }
  }
  std::ranges::for_each(graph.inputs, renumber);
  std::ranges::for_each(graph.outputs, renumber);
  return dropped;
}

absl::Status Simplify(Graph& graph) {
  DropUnused(graph);
  return absl::OkStatus();
}

}  // namespace sluice
