// Operators that gather and scatter by index, and those that mask by position.

#include <algorithm>

#include "absl/strings/str_format.h"
#include "base/status_macros.h"
#include "model/host_tensor.h"
#include "model/onnx/onnx_node.h"

namespace sluice {
namespace {

absl::StatusOr<std::int64_t> Axis(OnnxNode& node, std::int64_t otherwise) {
  return NormalAxis(node.Int("axis", otherwise), node.shape(0).size());
}

MaybeValue GatherByElement(OnnxNode& node) {
  SLUICE_ASSIGN_OR_RETURN(const std::int64_t axis, Axis(node, 0));
  return node.Emit(GatherElements{.axis = axis}, {node.input(0), node.input(1)});
}

MaybeValue GatherByPosition(OnnxNode& node) {
  return node.Emit(GatherNd{.batch_dims = node.Int("batch_dims", 0)},
                   {node.input(0), node.input(1)});
}

absl::StatusOr<ScatterReduction> ReadReduction(OnnxNode& node) {
  const std::string name = node.String("reduction", "none");
  if (name == "none") return ScatterReduction::kNone;
  if (name == "add") return ScatterReduction::kAdd;
  if (name == "mul") return ScatterReduction::kMultiply;
  if (name == "max") return ScatterReduction::kMaximum;
  if (name == "min") return ScatterReduction::kMinimum;
  return absl::InvalidArgumentError(
      absl::StrFormat("reduction is \"%s\", want none, add, mul, max or min", name));
}

MaybeValue ScatterByElement(OnnxNode& node) {
  SLUICE_ASSIGN_OR_RETURN(const std::int64_t axis, Axis(node, 0));
  SLUICE_ASSIGN_OR_RETURN(const ScatterReduction reduction, ReadReduction(node));
  return node.Emit(ScatterElements{.axis = axis, .reduction = reduction},
                   {node.input(0), node.input(1), node.input(2)});
}

MaybeValue ScatterByPosition(OnnxNode& node) {
  SLUICE_ASSIGN_OR_RETURN(const ScatterReduction reduction, ReadReduction(node));
  return node.Emit(ScatterNd{.reduction = reduction},
                   {node.input(0), node.input(1), node.input(2)});
}

MaybeValue Reversed(OnnxNode& node) {
  return node.Emit(ReverseSequence{.batch_axis = node.Int("batch_axis", 1),
                                   .time_axis = node.Int("time_axis", 0)},
                   {node.input(0), node.input(1)});
}

MaybeValue Trilu(OnnxNode& node) {
  std::vector<std::optional<ValueId>> inputs = {node.input(0)};
  if (node.input(1)) inputs.push_back(node.input(1));
  return node.Emit(Triangle{.upper = node.Flag("upper", true)}, std::move(inputs));
}

absl::StatusOr<std::int64_t> ReadDepth(OnnxNode& node) {
  if (ElementCount(node.shape(1)) != 1) {
    return absl::InvalidArgumentError(
        absl::StrFormat("the depth has shape %s, want a scalar", FormatShape(node.shape(1))));
  }
  double depth = 0;
  if (IsFloat(node.at(1).type)) {
    SLUICE_ASSIGN_OR_RETURN(const auto numbers, node.Numbers(1));
    depth = static_cast<double>(numbers[0]);
  } else {
    SLUICE_ASSIGN_OR_RETURN(const auto numbers, node.Integers(1));
    depth = static_cast<double>(numbers[0]);
  }
  if (depth >= 0 && depth < 1e12) return static_cast<std::int64_t>(depth);
  return absl::InvalidArgumentError(absl::StrFormat("the depth is %g", depth));
}

MaybeValue OneHotVectors(OnnxNode& node) {
  const Shape indices = node.shape(0);
  SLUICE_ASSIGN_OR_RETURN(const std::int64_t depth, ReadDepth(node));
  SLUICE_ASSIGN_OR_RETURN(const std::int64_t axis,
                          NormalAxis(node.Int("axis", -1), indices.size() + 1));
  Shape shape = indices;
  shape.insert(shape.begin() + axis, depth);
  return node.Emit(OneHot{.axis = axis}, {node.input(0), node.input(2)}, std::move(shape),
                   node.at(2).type);
}

// Ones everywhere, of which two triangles leave a diagonal: nothing of the matrix is stored.
MaybeValue Eye(OnnxNode& node) {
  const Shape shape = node.shape(0);
  if (shape.size() != 2) {
    return absl::InvalidArgumentError(
        absl::StrFormat("input has shape %s, want a matrix", FormatShape(shape)));
  }
  DataType type = node.at(0).type;
  if (node.Has("dtype")) {
    const std::optional<DataType> stated = DataTypeFromOnnx(node.Int("dtype", 0));
    if (!stated) {
      return absl::UnimplementedError(
          absl::StrFormat("element type %d is not supported", node.Int("dtype", 0)));
    }
    type = *stated;
  }
  const float one = 1;
  const std::int64_t whole = 1;
  const ValueId ones =
      IsFloat(type) ? node.AddFloats(type, {1, 1}, std::span(&one, 1))
                    : node.AddConstant(type, {1, 1},
                                       InlineConstant(PackIntegers(type, std::span(&whole, 1))));
  const std::int64_t k = node.Int("k", 0);
  SLUICE_ASSIGN_OR_RETURN(ValueId y, node.Emit(Expand{}, {ones}, shape));
  const ValueId diagonal = node.AddIntegers({k});
  SLUICE_ASSIGN_OR_RETURN(y, node.Emit(Triangle{.upper = true}, {y, diagonal}));
  return node.Emit(Triangle{.upper = false}, {y, diagonal});
}

constexpr OnnxOperator kOperators[] = {
    {"GatherElements", 2, 2, GatherByElement},
    {"GatherND", 2, 2, GatherByPosition},
    {"Scatter", 3, 3, ScatterByElement},
    {"ScatterElements", 3, 3, ScatterByElement},
    {"ScatterND", 3, 3, ScatterByPosition},
    {"ReverseSequence", 2, 2, Reversed},
    {"Trilu", 1, 2, Trilu},
    {"OneHot", 3, 3, OneHotVectors},
    {"EyeLike", 1, 1, Eye},
};

}  // namespace

std::span<const OnnxOperator> IndexOperators() { return kOperators; }

}  // namespace sluice
