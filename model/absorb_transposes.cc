// Transposes around products of computed matrices: the product reads and writes with the strides
// that they would have made, and no element moves for them.

#include <optional>

#include "model/graph_editor.h"
#include "model/host_tensor.h"
#include "model/rewrite_stages.h"

namespace sluice {
namespace {

const Transpose* TransposeBehind(const GraphEditor& editor, ValueId id) {
  const std::optional<std::size_t> producer = editor.producer(id);
  return producer ? std::get_if<Transpose>(&editor.node(*producer).operation) : nullptr;
}

// Elements that lie side by side stay in a row or a column, or every one would cost a cache line.
bool KeepsMatrices(const Transpose& transpose) {
  const std::size_t rank = transpose.perm.size();
  const auto last = static_cast<std::int64_t>(rank) - 1;
  return rank >= 2 && (transpose.perm[rank - 1] == last || transpose.perm[rank - 2] == last);
}

bool AbsorbOperand(GraphEditor& editor, std::size_t i, std::size_t operand) {
  const ValueId id = *editor.node(i).inputs[operand];
  const Transpose* transpose = TransposeBehind(editor, id);
  auto& product = std::get<MatMul>(editor.operation(i));
  std::vector<std::int64_t>& perm = operand == 0 ? product.perm_a : product.perm_b;
  if (transpose == nullptr || !perm.empty() || !KeepsMatrices(*transpose)) return false;
  perm = transpose->perm;
  std::vector<std::optional<ValueId>> inputs = editor.node(i).inputs;
  inputs[operand] = editor.node(*editor.producer(id)).inputs[0];
  editor.SetInputs(i, std::move(inputs));
  return true;
}

bool AbsorbResult(GraphEditor& editor, std::size_t i, const Transpose& transpose) {
  const std::optional<std::size_t> producer = editor.PrivateProducer(*editor.node(i).inputs[0]);
  auto* product = producer ? std::get_if<MatMul>(&editor.operation(*producer)) : nullptr;
  if (product == nullptr || !product->perm_y.empty() || transpose.perm.size() < 2 ||
      transpose.perm.back() != std::ssize(transpose.perm) - 1) {
    return false;
  }
  product->perm_y = transpose.perm;
  editor.TakeOutput(*producer, i);
  return true;
}

}  // namespace

void AbsorbTransposes(Graph& graph, std::size_t& applied) {
  GraphEditor editor(graph);
  for (std::size_t i = 0; i < editor.node_count(); ++i) {
    if (editor.removed(i)) continue;
    if (std::holds_alternative<MatMul>(editor.node(i).operation) &&
        IsFloat(editor.input_value(i, 0).type)) {
      for (const std::size_t operand : {0u, 1u}) {
        applied += AbsorbOperand(editor, i, operand) ? 1 : 0;
      }
    } else if (const auto* transpose = std::get_if<Transpose>(&editor.node(i).operation)) {
      applied += AbsorbResult(editor, i, Transpose(*transpose)) ? 1 : 0;
    }
  }
}

}  // namespace sluice
