// The rules of operations that treat each element by itself, where they are not everybody's.

#include "model/host_tensor.h"
#include "model/operation_rules.h"
#include "model/shape_rule.h"

namespace sluice::rules {
namespace {

MaybeShape Common(Inputs inputs) {
  Shape common = inputs[0]->shape;
  for (const Value* input : inputs.subspan(1)) {
    const std::optional<Shape> wider = BroadcastShape(common, input->shape);
    if (!wider) {
      return Wrong("shapes %s and %s do not broadcast", FormatShape(common),
                   FormatShape(input->shape));
    }
    common = *wider;
  }
  return common;
}

}  // namespace

absl::Status CheckTypes(const Unary& op, Inputs inputs, const Value& y) {
  if (op.kind == Unary::Kind::kNot && IsFloat(y.type)) {
    return Wrong("\"%s\" is %s, want BOOL or an integer type", y.name, ProtocolName(y.type));
  }
  return CheckOneType(inputs, y);
}

absl::Status CheckTypes(const Binary& op, Inputs inputs, const Value& y) {
  if (op.kind >= Binary::Kind::kAnd && IsFloat(y.type)) {
    return Wrong("\"%s\" is %s, want BOOL or an integer type", y.name, ProtocolName(y.type));
  }
  if (op.kind != Binary::Kind::kPower) return CheckOneType(inputs, y);
  for (const Value* input : inputs) {
    if (input->type == DataType::kBool) return Wrong("\"%s\" is BOOL, want a number", input->name);
  }
  return CheckOneType(inputs, y, 0, 1);
}

Arity ArityOf(const Compare&) { return {2, 2}; }
MaybeShape ShapeOf(const Compare&, Inputs inputs) { return Common(inputs); }
absl::Status CheckTypes(const Compare&, Inputs inputs, const Value& y) {
  if (absl::Status types = CheckOneType(inputs, *inputs[0]); !types.ok()) return types;
  return CheckType(y, DataType::kBool);
}

MaybeShape ShapeOf(const Classify&, Inputs inputs) { return inputs[0]->shape; }
absl::Status CheckTypes(const Classify&, Inputs inputs, const Value& y) {
  if (!IsFloat(inputs[0]->type)) {
    return Wrong("\"%s\" is %s, want a floating point type", inputs[0]->name,
                 ProtocolName(inputs[0]->type));
  }
  return CheckType(y, DataType::kBool);
}

Arity ArityOf(const Select&) { return {3, 3}; }
MaybeShape ShapeOf(const Select&, Inputs inputs) { return Common(inputs); }
absl::Status CheckTypes(const Select&, Inputs inputs, const Value& y) {
  if (absl::Status condition = CheckType(*inputs[0], DataType::kBool); !condition.ok()) {
    return condition;
  }
  return CheckOneType(inputs, y, 1);
}

}  // namespace sluice::rules
