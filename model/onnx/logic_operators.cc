// Comparisons, logic, and choices by a condition.

#include "absl/strings/str_format.h"
#include "base/status_macros.h"
#include "model/host_tensor.h"
#include "model/onnx/onnx_node.h"

namespace sluice {
namespace {

enum class Order : std::uint8_t { kAsWritten, kSwapped };

template <Compare::Kind kind, Order order>
MaybeValue Comparison(OnnxNode& node) {
  ValueId a = *node.input(0);
  SLUICE_ASSIGN_OR_RETURN(ValueId b, SecondOperand(node));
  if (order == Order::kSwapped) std::swap(a, b);
  return node.Emit(Compare{kind}, {a, b}, std::nullopt, DataType::kBool);
}

absl::Status NeedBooleans(const OnnxNode& node) {
  for (std::size_t i = 0; i < node.input_count(); ++i) {
    if (node.at(i).type == DataType::kBool) continue;
    return absl::InvalidArgumentError(
        absl::StrFormat("input %d is %s, want BOOL", i, ProtocolName(node.at(i).type)));
  }
  return absl::OkStatus();
}

template <Binary::Kind kind>
MaybeValue Logic(OnnxNode& node) {
  SLUICE_RETURN_IF_ERROR(NeedBooleans(node));
  SLUICE_ASSIGN_OR_RETURN(const ValueId b, SecondOperand(node));
  return node.EmitBinary(kind, *node.input(0), b);
}

MaybeValue Not(OnnxNode& node) {
  SLUICE_RETURN_IF_ERROR(NeedBooleans(node));
  return node.EmitUnary({.kind = Unary::Kind::kNot}, *node.input(0));
}

MaybeValue BitwiseNot(OnnxNode& node) {
  if (node.at(0).type == DataType::kBool) {
    return absl::InvalidArgumentError("the input is BOOL, want an integer type");
  }
  return node.EmitUnary({.kind = Unary::Kind::kNot}, *node.input(0));
}

MaybeValue Where(OnnxNode& node) {
  return node.Emit(Select{}, {node.input(0), node.input(1), node.input(2)}, std::nullopt,
                   node.at(1).type);
}

MaybeValue IsNan(OnnxNode& node) {
  return node.Emit(Classify{.nan = true}, {node.input(0)}, std::nullopt, DataType::kBool);
}

MaybeValue IsInfinite(OnnxNode& node) {
  return node.Emit(Classify{.positive_infinity = node.Flag("detect_positive", true),
                            .negative_infinity = node.Flag("detect_negative", true)},
                   {node.input(0)}, std::nullopt, DataType::kBool);
}

constexpr OnnxOperator kOperators[] = {
    {"Equal", 2, 2, Comparison<Compare::Kind::kEqual, Order::kAsWritten>},
    {"Less", 2, 2, Comparison<Compare::Kind::kLess, Order::kAsWritten>},
    {"LessOrEqual", 2, 2, Comparison<Compare::Kind::kLessOrEqual, Order::kAsWritten>},
    {"Greater", 2, 2, Comparison<Compare::Kind::kLess, Order::kSwapped>},
    {"GreaterOrEqual", 2, 2, Comparison<Compare::Kind::kLessOrEqual, Order::kSwapped>},
    {"And", 2, 2, Logic<Binary::Kind::kAnd>},
    {"Or", 2, 2, Logic<Binary::Kind::kOr>},
    {"Xor", 2, 2, Logic<Binary::Kind::kXor>},
    {"Not", 1, 1, Not},
    {"BitwiseNot", 1, 1, BitwiseNot},
    {"Where", 3, 3, Where},
    {"IsNaN", 1, 1, IsNan},
    {"IsInf", 1, 1, IsInfinite},
};

}  // namespace

std::span<const OnnxOperator> LogicOperators() { return kOperators; }

}  // namespace sluice
