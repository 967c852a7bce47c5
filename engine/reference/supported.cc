#include <string>
#include <string_view>
#include <variant>

#include "absl/strings/str_format.h"
#include "engine/reference/definitions.h"
#include "model/host_tensor.h"

namespace sluice::reference {
namespace {

template <typename Op>
concept Defined = requires(const Op& operation, Operands inputs, const Result& y) {
  Define(operation, inputs, y);
};

absl::Status WantFloat(DataType type) {
  if (type == DataType::kFloat32) return absl::OkStatus();
  return absl::UnimplementedError(
      absl::StrFormat("got element type %s, want FP32", ProtocolName(type)));
}

absl::Status WantSpatial(std::size_t rank) {
  if (rank >= 3 && rank <= 5) return absl::OkStatus();
  return absl::UnimplementedError(
      absl::StrFormat("got %d spatial dimensions, want 1 to 3", static_cast<int>(rank) - 2));
}

// What differs from "floats only": the types of each operation.
struct Check {
  const Graph& graph;
  const Node& node;

  const Value& output() const { return graph.value(node.output); }

  absl::Status operator()(const Convolution&) const { return Windows(); }
  absl::Status operator()(const Pool&) const { return Windows(); }
  absl::Status operator()(const Resize& op) const {
    const bool plain = op.coordinates != Resize::Coordinates::kHalfPixelSymmetric &&
                       op.coordinates != Resize::Coordinates::kTfCropAndResize &&
                       !op.exclude_outside && !op.antialias;
    if (plain) return WantFloat(output().type);
    return absl::UnimplementedError("the reference defines resizes of the simple kind only");
  }
  absl::Status operator()(const Unary& op) const {
    const DataType type = output().type;
    const bool whole = op.kind == Unary::Kind::kRelu || op.kind == Unary::Kind::kAbs ||
                       op.kind == Unary::Kind::kNegate || op.kind == Unary::Kind::kSign ||
                       op.kind == Unary::Kind::kNot;
    return IsFloat(type) || whole ? absl::OkStatus() : WantFloat(type);
  }
  absl::Status operator()(const Binary&) const { return absl::OkStatus(); }
  absl::Status operator()(const Compare&) const { return absl::OkStatus(); }
  absl::Status operator()(const Classify&) const { return absl::OkStatus(); }
  absl::Status operator()(const Select&) const { return absl::OkStatus(); }
  absl::Status operator()(const ArgReduce&) const { return absl::OkStatus(); }
  absl::Status operator()(const Hardmax&) const { return absl::OkStatus(); }
  absl::Status operator()(const CumulativeSum&) const { return absl::OkStatus(); }
  absl::Status operator()(const Reduce&) const { return absl::OkStatus(); }
  absl::Status operator()(const Gather&) const {
    const DataType type = graph.value(*node.inputs[1]).type;
    if (type == DataType::kInt32 || type == DataType::kInt64) return absl::OkStatus();
    return absl::UnimplementedError(
        absl::StrFormat("got indices of type %s, want INT32 or INT64", ProtocolName(type)));
  }
  absl::Status operator()(const Concat&) const { return absl::OkStatus(); }
  absl::Status operator()(const Transpose&) const { return absl::OkStatus(); }
  absl::Status operator()(const Reshape&) const { return absl::OkStatus(); }
  absl::Status operator()(const Slice&) const { return absl::OkStatus(); }
  absl::Status operator()(const Pad&) const { return absl::OkStatus(); }
  absl::Status operator()(const Cast&) const { return absl::OkStatus(); }
  absl::Status operator()(const Expand&) const { return absl::OkStatus(); }
  template <typename Other>
  absl::Status operator()(const Other&) const {
    if constexpr (Defined<Other>) return WantFloat(output().type);
    return absl::UnimplementedError("the reference does not define it");
  }

  absl::Status Windows() const {
    absl::Status types = WantFloat(output().type);
    return types.ok() ? WantSpatial(output().shape.size()) : types;
  }
};

}  // namespace

absl::Status Supported(const Graph& graph, const Node& node) {
  return std::visit(Check{graph, node}, node.operation);
}

void Evaluate(const Operation& operation, Operands inputs, const Result& y) {
  std::visit(
      [&]<typename Op>(const Op& kind) {
        if constexpr (Defined<Op>) Define(kind, inputs, y);
      },
      operation);
}

}  // namespace sluice::reference
