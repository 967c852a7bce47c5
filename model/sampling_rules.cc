// Rules of operations that sample images, of max pool indices and of determinants.

#include <algorithm>

#include "base/status_macros.h"
#include "model/operation_rules.h"
#include "model/shape_rule.h"

namespace sluice::rules {
namespace {

absl::Status CheckFloat(const Value& value) {
  switch (value.type) {
    case DataType::kFloat32:
    case DataType::kFloat64:
    case DataType::kFloat16:
    case DataType::kBfloat16:
      return absl::OkStatus();
    default:
      return Wrong("\"%s\" is %s, want floating point numbers", value.name,
                   ProtocolName(value.type));
  }
}

}  // namespace

Arity ArityOf(const GridSample&) { return {2, 2}; }
Arity ArityOf(const RoiAlign&) { return {3, 3}; }
Arity ArityOf(const MaxRoiPool&) { return {2, 2}; }

MaybeShape ShapeOf(const PoolIndices& op, Inputs inputs) { return OutputShape(op.pool, inputs); }

MaybeShape ShapeOf(const GridSample&, Inputs inputs) {
  const Shape &x = inputs[0]->shape, &grid = inputs[1]->shape;
  if (x.size() < 3 || x.size() > 5 || grid.size() != x.size() || grid[0] != x[0] ||
      grid.back() != std::ssize(x) - 2 || ElementCount(std::span(x).subspan(2)) == 0) {
    return Wrong("a grid of shape %s does not sample %s", FormatShape(grid), FormatShape(x));
  }
  Shape y = {x[0], x[1]};
  y.insert(y.end(), grid.begin() + 1, grid.end() - 1);
  return y;
}

MaybeShape ShapeOf(const RoiAlign& op, Inputs inputs) {
  const Shape &x = inputs[0]->shape, &boxes = inputs[1]->shape;
  if (x.size() != 4 || boxes.size() != 2 || boxes[1] != 4 || inputs[2]->shape != Shape{boxes[0]} ||
      op.height < 1 || op.width < 1 || op.sampling_ratio < 0) {
    return Wrong("boxes %s of images %s in %s, to %d x %d with %d samples", FormatShape(boxes),
                 FormatShape(inputs[2]->shape), FormatShape(x), op.height, op.width,
                 op.sampling_ratio);
  }
  return Shape{boxes[0], x[1], op.height, op.width};
}

MaybeShape ShapeOf(const MaxRoiPool& op, Inputs inputs) {
  const Shape &x = inputs[0]->shape, &boxes = inputs[1]->shape;
  if (x.size() != 4 || boxes.size() != 2 || boxes[1] != 5 || op.height < 1 || op.width < 1) {
    return Wrong("boxes %s in %s, to %d x %d", FormatShape(boxes), FormatShape(x), op.height,
                 op.width);
  }
  return Shape{boxes[0], x[1], op.height, op.width};
}

MaybeShape ShapeOf(const Determinant&, Inputs inputs) {
  const Shape& x = inputs[0]->shape;
  if (x.size() < 2 || x[x.size() - 1] != x[x.size() - 2]) {
    return Wrong("input has shape %s, want square matrices", FormatShape(x));
  }
  return Shape(x.begin(), x.end() - 2);
}

absl::Status CheckTypes(const PoolIndices&, Inputs, const Value& y) {
  return CheckType(y, DataType::kInt64);
}

absl::Status CheckTypes(const GridSample&, Inputs inputs, const Value& y) {
  SLUICE_RETURN_IF_ERROR(CheckFloat(y));
  return CheckOneType(inputs, y);
}

absl::Status CheckTypes(const RoiAlign&, Inputs inputs, const Value& y) {
  SLUICE_RETURN_IF_ERROR(CheckFloat(y));
  SLUICE_RETURN_IF_ERROR(CheckIndexType(*inputs[2]));
  return CheckOneType(inputs, y, 0, 2);
}

absl::Status CheckTypes(const MaxRoiPool&, Inputs inputs, const Value& y) {
  SLUICE_RETURN_IF_ERROR(CheckFloat(y));
  return CheckOneType(inputs, y);
}

absl::Status CheckTypes(const Determinant&, Inputs inputs, const Value& y) {
  SLUICE_RETURN_IF_ERROR(CheckFloat(y));
  return CheckOneType(inputs, y);
}

}  // namespace sluice::rules
