#include "model/rewrite.h"

#include <algorithm>
#include <vector>

#include "base/status_macros.h"
#include "model/graph_editor.h"
#include "model/rewrite_stages.h"

namespace sluice {
namespace {

// Whether a permutation keeps the order of all dimensions that are not 1, so that no element moves.
bool MovesNothing(const std::vector<std::int64_t>& perm, const Shape& x) {
  std::int64_t last = -1;
  for (const std::int64_t from : perm) {
    if (x[static_cast<std::size_t>(from)] == 1) continue;
    if (from < last) return false;
    last = from;
  }
  return true;
}

// Whether the node's output is its first input: shape, type and elements.
bool IsIdentity(const GraphEditor& editor, std::size_t i) {
  const Node& node = editor.node(i);
  const Value& x = editor.input_value(i, 0);
  const Value& y = editor.value(node.output);
  if (x.shape != y.shape || x.type != y.type) return false;
  const auto zero = [](std::int64_t n) { return n == 0; };
  const auto one = [](std::int64_t n) { return n == 1; };
  if (const auto* op = std::get_if<Slice>(&node.operation)) {
    return std::ranges::all_of(op->starts, zero) && std::ranges::all_of(op->steps, one);
  }
  if (const auto* op = std::get_if<Transpose>(&node.operation)) {
    return MovesNothing(op->perm, x.shape);
  }
  if (const auto* op = std::get_if<Unary>(&node.operation)) {
    return op->kind == Unary::Kind::kLinear && op->alpha == 1 && op->beta == 0;
  }
  if (std::holds_alternative<Concat>(node.operation)) return node.inputs.size() == 1;
  return std::holds_alternative<Reshape>(node.operation) ||
         std::holds_alternative<Cast>(node.operation) ||
         std::holds_alternative<Expand>(node.operation) ||
         std::holds_alternative<Pad>(node.operation);
}

// Readers of the output read the input, or the one that computes the input computes the output.
bool Bypass(GraphEditor& editor, std::size_t i) {
  const ValueId x = *editor.node(i).inputs[0], y = editor.node(i).output;
  if (!editor.is_output(y)) {
    editor.ReplaceUses(y, x);
    editor.Remove(i);
    return true;
  }
  // A caller asks for `y` by name, so it stays.
  const std::optional<std::size_t> producer = editor.PrivateProducer(x);
  if (!producer) return false;
  editor.TakeOutput(*producer, i);
  return true;
}

// Two reshapes or two transposes in a row are one.
bool Merge(GraphEditor& editor, std::size_t i) {
  const std::optional<std::size_t> producer = editor.producer(*editor.node(i).inputs[0]);
  if (!producer) return false;
  const Operation& before = editor.node(*producer).operation;
  if (std::holds_alternative<Reshape>(editor.node(i).operation) &&
      std::holds_alternative<Reshape>(before)) {
    editor.SetInputs(i, {editor.node(*producer).inputs[0]});
    return true;
  }
  auto* second = std::get_if<Transpose>(&editor.operation(i));
  const auto* first = std::get_if<Transpose>(&before);
  if (first == nullptr || second == nullptr) return false;
  for (std::int64_t& from : second->perm) from = first->perm[static_cast<std::size_t>(from)];
  editor.SetInputs(i, {editor.node(*producer).inputs[0]});
  return true;
}

}  // namespace

std::size_t DropIdentities(Graph& graph) {
  std::size_t applied = 0;
  {
    GraphEditor editor(graph);
    for (std::size_t i = 0; i < editor.node_count(); ++i) {
      if (editor.removed(i)) continue;
      if (Merge(editor, i)) ++applied;
      if (IsIdentity(editor, i)) {
        applied += Bypass(editor, i) ? 1 : 0;
        continue;
      }
      const auto* transpose = std::get_if<Transpose>(&editor.node(i).operation);
      if (transpose != nullptr && MovesNothing(transpose->perm, editor.input_value(i, 0).shape)) {
        editor.operation(i) = Reshape{};
        ++applied;
        Merge(editor, i);
      }
    }
  }
  if (applied > 0) DropUnused(graph);
  return applied;
}

std::size_t DropUnused(Graph& graph) {
  std::vector<bool> used(graph.values.size(), false);
  for (const ValueId output : ReadAtEnd(graph)) used[Index(output)] = true;
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
  for (Value& value : values) {
    if (!value.dynamic) continue;
    // Of a value that no caller sees, what its count is does not matter any more.
    const std::size_t count = Index(value.dynamic->count);
    if (used[count]) {
      value.dynamic->count = renumbered[count];
    } else {
      value.dynamic.reset();
    }
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
  std::size_t applied = 0;
  DropUnused(graph);
  DropIdentities(graph);
  SLUICE_RETURN_IF_ERROR(FuseQuantized(graph, applied));
  SLUICE_RETURN_IF_ERROR(RecogniseNorms(graph, applied));
  DropUnused(graph);
  SLUICE_RETURN_IF_ERROR(Recognise(graph, applied));
  RecogniseGelus(graph, applied);
  DropUnused(graph);
  SLUICE_RETURN_IF_ERROR(FoldChannelAffines(graph, applied));
  FuseTails(graph, applied);
  DropIdentities(graph);
  AbsorbTransposes(graph, applied);
  DropUnused(graph);
  return absl::OkStatus();
}

}  // namespace sluice
