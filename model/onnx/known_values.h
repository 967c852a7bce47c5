// model/onnx/known_values.h
//
// What computed values of a graph are, where that follows from contents of its inputs that the
// caller of the import gave. Shapes that depend on such values become known that way.

#ifndef SLUICE_MODEL_ONNX_KNOWN_VALUES_H_
#define SLUICE_MODEL_ONNX_KNOWN_VALUES_H_

#include <cstddef>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "absl/status/statusor.h"
#include "model/graph.h"

namespace sluice {

// Threads: one at a time. Owns: borrows the contents.
class KnownValues {
 public:
  // Contents of inputs by name, row-major.
  explicit KnownValues(const std::map<std::string, std::vector<std::byte>>& contents)
      : contents_(contents) {}

  // The contents of a value of `graph`, which has only grown since the last call; null when they
  // depend on something else, are larger than kMaxFolded, or come from an operation that folding
  // does not know. Fails: INVALID_ARGUMENT, given contents of another size; what Fold returns.
  absl::StatusOr<std::shared_ptr<const Constant>> Evaluate(const Graph& graph, ValueId id);

  // Inputs whose contents decided something, by name, each once.
  std::vector<std::string> used() const { return {used_.begin(), used_.end()}; }

  // The inputs that a value depends on, for errors: `"a" and "b"`; empty when there are none.
  std::string DependsOn(const Graph& graph, ValueId id);

 private:
  struct Known {
    std::shared_ptr<const Constant> constant;  // Null: cannot be known.
    std::set<std::string> inputs;              // What it follows from.
  };
  absl::StatusOr<Known> EvaluateInput(const Graph& graph, ValueId id) const;
  absl::StatusOr<Known> EvaluateNode(const Graph& graph, const Node& node) const;
  void FindProducers(const Graph& graph);
  const Node* ProducerOf(const Graph& graph, ValueId id) const;

  const std::map<std::string, std::vector<std::byte>>& contents_;
  std::unordered_map<std::size_t, std::size_t> producers_;  // Node by value.
  std::size_t nodes_seen_ = 0;
  std::unordered_map<std::size_t, Known> known_;  // By value.
  std::set<std::string> used_;
};

}  // namespace sluice

#endif  // SLUICE_MODEL_ONNX_KNOWN_VALUES_H_
