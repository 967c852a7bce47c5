#include "model/graph_editor.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace sluice {

GraphEditor::GraphEditor(Graph& graph)
    : graph_(graph),
      removed_(graph.nodes.size(), false),
      producers_(graph.values.size()),
      users_(graph.values.size()),
      is_output_(graph.values.size(), false) {
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    producers_[Index(graph.nodes[i].output)] = i;
    for (const std::optional<ValueId>& input : graph.nodes[i].inputs) {
      if (input) users_[Index(*input)].push_back(i);
    }
  }
  for (const ValueId output : ReadAtEnd(graph)) is_output_[Index(output)] = true;
}

GraphEditor::~GraphEditor() {
  std::size_t kept = 0;
  for (std::size_t i = 0; i < graph_.nodes.size(); ++i) {
    if (removed_[i]) continue;
    if (kept != i) graph_.nodes[kept] = std::move(graph_.nodes[i]);
    ++kept;
  }
  graph_.nodes.resize(kept);
}

std::optional<std::size_t> GraphEditor::PrivateProducer(ValueId id) const {
  if (is_output(id) || users(id).size() != 1) return std::nullopt;
  return producer(id);
}

ValueId GraphEditor::Add(Value value) {
  producers_.emplace_back();
  users_.emplace_back();
  is_output_.push_back(false);
  return graph_.Add(std::move(value));
}

void GraphEditor::Forget(std::size_t node) {
  for (const std::optional<ValueId>& input : graph_.nodes[node].inputs) {
    if (!input) continue;
    std::vector<std::size_t>& users = users_[Index(*input)];
    users.erase(std::ranges::find(users, node));
  }
}

void GraphEditor::SetInputs(std::size_t node, std::vector<std::optional<ValueId>> inputs) {
  Forget(node);
  graph_.nodes[node].inputs = std::move(inputs);
  for (const std::optional<ValueId>& input : graph_.nodes[node].inputs) {
    if (input) users_[Index(*input)].push_back(node);
  }
}

void GraphEditor::ReplaceUses(ValueId from, ValueId to) {
  SLUICE_CHECK(from != to);
  for (const std::size_t user : users_[Index(from)]) {
    // A node that reads it twice is listed twice: each turn replaces one input.
    auto& inputs = graph_.nodes[user].inputs;
    *std::ranges::find(inputs, std::optional<ValueId>(from)) = to;
    users_[Index(to)].push_back(user);
  }
  users_[Index(from)].clear();
}

void GraphEditor::Remove(std::size_t node) {
  SLUICE_CHECK(!removed_[node]);
  Forget(node);
  graph_.nodes[node].inputs.clear();
  removed_[node] = true;
  producers_[Index(graph_.nodes[node].output)].reset();
}

void GraphEditor::TakeOutput(std::size_t node, std::size_t from) {
  const ValueId output = graph_.nodes[from].output;
  Remove(from);
  producers_[Index(graph_.nodes[node].output)].reset();
  graph_.nodes[node].output = output;
  producers_[Index(output)] = node;
}

void GraphEditor::MoveInto(std::size_t node, std::size_t from) {
  const ValueId output = graph_.nodes[from].output;
  std::vector<std::optional<ValueId>> inputs = graph_.nodes[node].inputs;
  Remove(node);
  SetInputs(from, std::move(inputs));
  graph_.nodes[from].name = graph_.nodes[node].name;
  graph_.nodes[from].source_op = graph_.nodes[node].source_op;
  graph_.nodes[from].operation = std::move(graph_.nodes[node].operation);
  producers_[Index(output)] = from;
}

}  // namespace sluice
