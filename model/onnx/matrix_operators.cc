// Matrix products.

#include <algorithm>

#include "absl/strings/str_format.h"
#include "base/status_macros.h"
#include "model/host_tensor.h"
#include "model/onnx/onnx_node.h"
#include "model/shape_rule.h"

namespace sluice {
namespace {

// A constant matrix that is only turned round needs no node: the product reads it the other way.
struct Matrix {
  ValueId value;
  bool transposed = false;
};

Matrix LookThroughTranspose(OnnxNode& node, ValueId id, bool transposed) {
  const Node* producer = node.Producer(id);
  if (producer == nullptr) return {id, transposed};
  const auto* transpose = std::get_if<Transpose>(&producer->operation);
  const ValueId source = *producer->inputs[0];
  if (transpose == nullptr || transpose->perm != std::vector<std::int64_t>{1, 0} ||
      node.graph().value(source).constant == nullptr) {
    return {id, transposed};
  }
  return {source, !transposed};
}

bool IsConstantMatrix(OnnxNode& node, ValueId id) {
  const Value& value = node.graph().value(id);
  return value.constant != nullptr && value.shape.size() == 2;
}

// C times beta as a bias of `columns` elements; nullopt when it is not one for each column.
absl::StatusOr<std::optional<ValueId>> AsBias(OnnxNode& node, std::size_t i, float beta,
                                              std::int64_t columns) {
  if (!node.input(i) || beta == 0) return std::nullopt;
  const Value c = node.at(i);
  const std::optional<Shape> row = BroadcastShape(c.shape, Shape{1, columns});
  if (c.constant == nullptr || !row || *row != Shape{1, columns}) return std::nullopt;
  const bool whole = static_cast<std::int64_t>(ElementCount(c.shape)) == columns;
  if (beta == 1 && whole) {
    SLUICE_ASSIGN_OR_RETURN(const ValueId bias, node.EmitReshape(*node.input(i), {columns}));
    return bias;
  }
  if (c.type != DataType::kFloat32 ||
      SizeOf(c.type) * static_cast<std::uint64_t>(columns) > kMaxVector) {
    return std::nullopt;
  }
  SLUICE_ASSIGN_OR_RETURN(std::vector<float> elements, ReadFloats(c));
  if (!whole) elements.assign(static_cast<std::size_t>(columns), elements[0]);
  for (float& element : elements) element *= beta;
  return node.AddFloats(c.type, {columns}, elements);
}

absl::StatusOr<ValueId> AddScaled(OnnxNode& node, ValueId product, std::size_t i, float beta) {
  if (!node.input(i) || beta == 0) return product;
  ValueId addend = *node.input(i);
  if (beta != 1) {
    SLUICE_ASSIGN_OR_RETURN(addend,
                            node.EmitUnary({.kind = Unary::Kind::kLinear, .alpha = beta}, addend));
  }
  return node.EmitBinary(Binary::Kind::kAdd, product, addend);
}

absl::Status NeedMatrices(OnnxNode& node) {
  if (node.shape(0).size() == 2 && node.shape(1).size() == 2) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrFormat("operands have shapes %s and %s, want matrices",
                                                    FormatShape(node.shape(0)),
                                                    FormatShape(node.shape(1))));
}

MaybeValue EmitCast(OnnxNode& node, ValueId x, DataType type) {
  return node.Emit(Cast{}, {x}, std::nullopt, type);
}

// Integers, whose product and C are multiplied by fractions in FP64.
MaybeValue IntegerGemm(OnnxNode& node, float alpha, float beta) {
  const DataType type = node.at(0).type;
  SLUICE_ASSIGN_OR_RETURN(ValueId y, node.Emit(MatMul{.transposed_a = node.Flag("transA"),
                                                      .transposed_b = node.Flag("transB")},
                                               {node.input(0), node.input(1)}));
  if (alpha != 1 || (node.input(2) && beta != 1 && beta != 0)) {
    SLUICE_ASSIGN_OR_RETURN(y, EmitCast(node, y, DataType::kFloat64));
    SLUICE_ASSIGN_OR_RETURN(y, node.EmitUnary({.kind = Unary::Kind::kLinear, .alpha = alpha}, y));
    if (node.input(2) && beta != 0) {
      SLUICE_ASSIGN_OR_RETURN(ValueId c, EmitCast(node, *node.input(2), DataType::kFloat64));
      SLUICE_ASSIGN_OR_RETURN(c, node.EmitUnary({.kind = Unary::Kind::kLinear, .alpha = beta}, c));
      SLUICE_ASSIGN_OR_RETURN(y, node.EmitBinary(Binary::Kind::kAdd, y, c));
    }
    return EmitCast(node, y, type);
  }
  return AddScaled(node, y, 2, beta);
}

// alpha * A * B + beta * C.
MaybeValue Gemm(OnnxNode& node) {
  SLUICE_RETURN_IF_ERROR(NeedMatrices(node));
  const float alpha = node.Float("alpha", 1), beta = node.Float("beta", 1);
  if (IsInteger(node.at(0).type)) return IntegerGemm(node, alpha, beta);
  ValueId a = *node.input(0);
  const bool transposed_a = node.Flag("transA");
  const Matrix b = LookThroughTranspose(node, *node.input(1), node.Flag("transB"));
  if (!IsConstantMatrix(node, b.value)) {
    SLUICE_ASSIGN_OR_RETURN(const ValueId product, node.Emit(MatMul{.transposed_a = transposed_a,
                                                                    .transposed_b = b.transposed,
                                                                    .alpha = alpha},
                                                             {a, b.value}));
    return AddScaled(node, product, 2, beta);
  }
  if (transposed_a) {
    SLUICE_ASSIGN_OR_RETURN(a, node.Emit(Transpose{{1, 0}}, {a}));
  }
  const std::int64_t columns = node.graph().value(b.value).shape[b.transposed ? 0 : 1];
  SLUICE_ASSIGN_OR_RETURN(const std::optional<ValueId> bias, AsBias(node, 2, beta, columns));
  std::vector<std::optional<ValueId>> inputs = {a, b.value, bias};
  if (alpha != 1) {
    const DataType type = node.graph().value(b.value).type;
    if (SizeOf(type) * static_cast<std::uint64_t>(columns) > kMaxVector) {
      return absl::UnimplementedError("alpha is not supported for this width");
    }
    const std::vector<float> scale(static_cast<std::size_t>(columns), alpha);
    inputs.emplace_back(node.AddFloats(type, {columns}, scale));
  }
  SLUICE_ASSIGN_OR_RETURN(
      const ValueId product,
      node.Emit(FullyConnected{.transposed_b = b.transposed, .epilogues = {}}, std::move(inputs)));
  return bias ? product : AddScaled(node, product, 2, beta);
}

MaybeValue Product(OnnxNode& node) {
  const Shape a_shape = node.shape(0), b_shape = node.shape(1);
  if (a_shape.empty() || b_shape.empty()) {
    return absl::InvalidArgumentError("a scalar is no operand of a matrix product");
  }
  ValueId a = *node.input(0), b = *node.input(1);
  if (a_shape.size() == 1) {
    SLUICE_ASSIGN_OR_RETURN(a, node.EmitReshape(a, {1, a_shape[0]}));
  }
  if (b_shape.size() == 1) {
    SLUICE_ASSIGN_OR_RETURN(b, node.EmitReshape(b, {b_shape[0], 1}));
  }
  const Matrix matrix = LookThroughTranspose(node, b, false);
  ValueId product{};
  if (IsConstantMatrix(node, matrix.value)) {
    SLUICE_ASSIGN_OR_RETURN(
        product, node.Emit(FullyConnected{.transposed_b = matrix.transposed, .epilogues = {}},
                           {a, matrix.value}));
  } else {
    SLUICE_ASSIGN_OR_RETURN(product, node.Emit(MatMul{}, {a, b}));
  }
  if (a_shape.size() > 1 && b_shape.size() > 1) return product;
  // The dimension of one that stood in for a missing one goes again.
  Shape shape = node.graph().value(product).shape;
  if (b_shape.size() == 1) shape.pop_back();
  if (a_shape.size() == 1) shape.erase(shape.end() - (b_shape.size() == 1 ? 1 : 2));
  return node.EmitReshape(product, shape);
}

constexpr OnnxOperator kOperators[] = {
    {"Gemm", 2, 3, Gemm},
    {"MatMul", 2, 2, Product},
};

}  // namespace

std::span<const OnnxOperator> MatrixOperators() { return kOperators; }

}  // namespace sluice
