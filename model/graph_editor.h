// model/graph_editor.h
//
// Changes a graph while it knows who makes and who uses each value.
//
// Threads: one at a time. Borrows the graph; nobody else changes it meanwhile.

#ifndef SLUICE_MODEL_GRAPH_EDITOR_H_
#define SLUICE_MODEL_GRAPH_EDITOR_H_

#include <cstddef>
#include <optional>
#include <span>
#include <vector>

#include "model/graph.h"

namespace sluice {

class GraphEditor {
 public:
  // Requires: a valid graph.
  explicit GraphEditor(Graph& graph);
  // Takes removed nodes out of the graph.
  ~GraphEditor();
  GraphEditor(const GraphEditor&) = delete;
  GraphEditor& operator=(const GraphEditor&) = delete;

  // Nodes keep their places while the editor lives; removed ones too.
  std::size_t node_count() const { return graph_.nodes.size(); }
  bool removed(std::size_t node) const { return removed_[node]; }
  const Node& node(std::size_t i) const { return graph_.nodes[i]; }
  Operation& operation(std::size_t node) { return graph_.nodes[node].operation; }
  const Value& value(ValueId id) const { return graph_.value(id); }
  const Value& input_value(std::size_t node, std::size_t i) const {
    return value(*graph_.nodes[node].inputs[i]);
  }

  // The node that computes a value; nullopt for inputs and constants.
  std::optional<std::size_t> producer(ValueId id) const { return producers_[Index(id)]; }
  // Inputs that read a value, by node; one that reads it twice counts twice.
  const std::vector<std::size_t>& users(ValueId id) const { return users_[Index(id)]; }
  bool is_output(ValueId id) const { return is_output_[Index(id)]; }
  // The node that computes a value which one node reads, and no caller sees: `reader` may take its
  // place.
  std::optional<std::size_t> PrivateProducer(ValueId id) const;

  ValueId Add(Value value);
  void SetInputs(std::size_t node, std::vector<std::optional<ValueId>> inputs);
  // Every node that read `from` reads `to`. Outputs of the graph stay.
  void ReplaceUses(ValueId from, ValueId to);
  void Remove(std::size_t node);
  // `node` computes `output` in the place of the node that did, which is removed. What `node`
  // computed until now has no producer any more. Requires: nobody else reads that.
  void TakeOutput(std::size_t node, std::size_t from);
  // As TakeOutput, but `from` keeps its place in the order and becomes what `node` was. For when
  // `node` needs what is computed between the two.
  void MoveInto(std::size_t node, std::size_t from);

 private:
  void Forget(std::size_t node);  // Drops it from the users of its inputs.

  Graph& graph_;
  std::vector<bool> removed_;
  std::vector<std::optional<std::size_t>> producers_;
  std::vector<std::vector<std::size_t>> users_;
  std::vector<bool> is_output_;
};

}  // namespace sluice

#endif  // SLUICE_MODEL_GRAPH_EDITOR_H_
