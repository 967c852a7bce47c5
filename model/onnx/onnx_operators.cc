#include <initializer_list>
#include <vector>

#include "model/onnx/onnx_node.h"

namespace sluice {
namespace {

std::vector<OnnxOperator> Together(std::initializer_list<std::span<const OnnxOperator>> groups) {
  std::vector<OnnxOperator> all;
  for (const std::span<const OnnxOperator> group : groups) {
    all.insert(all.end(), group.begin(), group.end());
  }
  return all;
}

}  // namespace

std::span<const OnnxOperator> KnownOperators() {
  static const std::vector<OnnxOperator> known = Together(
      {ElementwiseOperators(), ArithmeticOperators(), LogicOperators(), ReductionOperators(),
       WindowOperators(), MatrixOperators(), NormOperators(), NormalizationOperators(),
       MovementOperators(), ConstantOperators(), ResizeOperators(), PadOperators(),
       IndexOperators(), SelectionOperators(), SamplingOperators(), EinsumOperators(),
       QuantizedOperators(), RecurrentOperators(), ControlOperators()});
  return known;
}

std::span<const OnnxOperator> KnownContribOperators() {
  static const std::vector<OnnxOperator> known =
      Together({ContribOperators(), ContribAttentionOperators(), ContribQuantizedOperators()});
  return known;
}

}  // namespace sluice
