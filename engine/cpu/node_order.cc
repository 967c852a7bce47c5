#include "engine/cpu/node_order.h"

#include <algorithm>
#include <cstddef>
#include <utility>
#include <variant>
#include <vector>

#include "engine/cpu/join_plan.h"
#include "engine/cpu/layout.h"
#include "planner/step_order.h"

namespace sluice {
namespace {

// A buffer for each value that is not another one's bytes; numbers are those of values.
class Buffers {
 public:
  explicit Buffers(const Graph& graph)
      : graph_(graph), of_(graph.values.size()), parts_(graph.values.size()) {
    const JoinPlan joins = PlanJoins(graph);
    for (std::size_t v = 0; v < of_.size(); ++v) {
      of_[v] = joins.places[v] ? joins.places[v]->whole : At<ValueId>(v);
    }
    for (const Node& node : graph.nodes) {
      if (std::holds_alternative<Reshape>(node.operation)) {
        of_[Index(node.output)] = of_[Index(*node.inputs[0])];
      }
      if (joins.elided[Index(node.output)]) parts_[Index(node.output)] = &node;
    }
  }

  BufferIndex Of(ValueId value) const { return At<BufferIndex>(Index(of_[Index(value)])); }

  // Of a concat that was elided, whose bytes are those of its parts.
  const Node* Parts(ValueId value) const { return parts_[Index(value)]; }

  Bytes Size(ValueId id) const {
    const Value& value = graph_.value(id);
    if (value.constant != nullptr) return {};
    return StorageBytes(value,
                        CanBlock(value.type, value.shape) ? Layout::kBlocked : Layout::kPlain);
  }

 private:
  const Graph& graph_;
  std::vector<ValueId> of_;
  std::vector<const Node*> parts_;  // Of each value, as above.
};

OrderProblem Problem(const Graph& graph) {
  const Buffers buffers(graph);
  OrderProblem problem;
  problem.buffers.resize(graph.values.size());
  std::vector<std::optional<StepIndex>> writer(graph.values.size());
  for (const ValueId input : graph.inputs) {
    OrderBuffer& buffer = problem.buffers[Index(buffers.Of(input))];
    buffer.size = StorageBytes(graph.value(input), Layout::kPlain);
    buffer.from_start = true;
  }
  for (const Node& node : graph.nodes) {
    OrderStep step;
    const auto add = [](auto& to, auto one) {
      if (std::ranges::find(to, one) == to.end()) to.push_back(one);
    };
    const auto read = [&](ValueId value) {
      if (graph.value(value).constant != nullptr) return;
      add(step.buffers, buffers.Of(value));
      if (const std::optional<StepIndex> before = writer[Index(value)]) add(step.after, *before);
    };
    for (const std::optional<ValueId>& input : node.inputs) {
      if (!input) continue;
      read(*input);
      if (const Node* concat = buffers.Parts(*input)) {
        for (const std::optional<ValueId>& part : concat->inputs) read(*part);
      }
    }
    add(step.buffers, buffers.Of(node.output));
    const std::optional<ValueId> overwritten = OverwritableInput(graph, node);
    if (overwritten && buffers.Of(*overwritten) != buffers.Of(node.output)) {
      step.overwrites = buffers.Of(*overwritten);
    }
    OrderBuffer& written = problem.buffers[Index(buffers.Of(node.output))];
    if (buffers.Parts(node.output) == nullptr) {
      written.size = std::max(written.size, buffers.Size(node.output));
    }
    writer[Index(node.output)] = At<StepIndex>(problem.steps.size());
    problem.steps.push_back(std::move(step));
  }
  for (const ValueId output : ReadAtEnd(graph)) {
    problem.buffers[Index(buffers.Of(output))].to_end = true;
  }
  return problem;
}

}  // namespace

std::optional<Graph> ReorderNodes(const Graph& graph) {
  const StepOrder best = OrderSteps(Problem(graph));
  if (std::ranges::is_sorted(best.order)) return std::nullopt;
  Graph reordered = graph;
  for (std::size_t n = 0; n < best.order.size(); ++n) {
    reordered.nodes[n] = graph.nodes[Index(best.order[n])];
  }
  return reordered;
}

}  // namespace sluice
