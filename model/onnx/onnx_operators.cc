#include <vector>

#include "model/onnx/onnx_node.h"

namespace sluice {

std::span<const OnnxOperator> KnownOperators() {
  static const std::vector<OnnxOperator> known = [] {
    std::vector<OnnxOperator> all;
    for (const auto group :
         {ElementwiseOperators(), WindowOperators(), MatrixOperators(), NormOperators(),
          MovementOperators(), ConstantOperators(), ResizeOperators()}) {
      all.insert(all.end(), group.begin(), group.end());
    }
    return all;
  }();
  return known;
}

}  // namespace sluice
