// Operators of ONNX Runtime's own domain, com.microsoft: what its optimiser fuses and exporters
// emit.

#include <numeric>

#include "absl/strings/str_format.h"
#include "base/status_macros.h"
#include "model/onnx/onnx_node.h"

namespace sluice {
namespace {

using Kind = Unary::Kind;

constexpr float kSkipEpsilon = 1e-12f;

template <Kind kind>
MaybeValue BiasedUnary(OnnxNode& node) {
  ValueId x = *node.input(0);
  if (node.input(1)) {
    SLUICE_ASSIGN_OR_RETURN(x, node.EmitBinary(Binary::Kind::kAdd, x, *node.input(1)));
  }
  return node.EmitUnary({.kind = kind}, x);
}

// x * sigmoid(alpha * x).
MaybeValue QuickGelu(OnnxNode& node) {
  const float alpha = node.Float("alpha", 1.702f);
  const ValueId x = *node.input(0);
  if (alpha == 1) return node.EmitUnary({.kind = Kind::kSilu}, x);
  SLUICE_ASSIGN_OR_RETURN(const ValueId scaled,
                          node.EmitUnary({.kind = Kind::kLinear, .alpha = alpha}, x));
  SLUICE_ASSIGN_OR_RETURN(const ValueId gate, node.EmitUnary({.kind = Kind::kSigmoid}, scaled));
  return node.EmitBinary(Binary::Kind::kMultiply, x, gate);
}

// Normalises input + skip (+ bias). Outputs 1 and 2 are of training; 3 is the sum.
template <bool centred>
MaybeValue SkipLayerNorm(OnnxNode& node) {
  const Shape x = node.shape(0);
  if (x.empty()) return absl::InvalidArgumentError("the input is a scalar");
  const std::optional<ValueId> bias = node.input(centred ? 4 : 3);
  SLUICE_ASSIGN_OR_RETURN(ValueId sum,
                          node.EmitBinary(Binary::Kind::kAdd, *node.input(0), *node.input(1)));
  if (bias) {
    SLUICE_ASSIGN_OR_RETURN(sum, node.EmitBinary(Binary::Kind::kAdd, sum, *bias));
  }
  node.SetOutput(3, sum);
  return EmitRowNorm(node, sum,
                     {.axis = std::ssize(x) - 1,
                      .epsilon = node.Float("epsilon", kSkipEpsilon),
                      .centred = centred,
                      .scale = node.input(2),
                      .shift = centred ? node.input(3) : std::nullopt});
}

// How many elements of each row of the mask are set; zeros without one.
MaybeValue MaskIndex(OnnxNode& node, const Shape& ids) {
  if (!node.input(7)) {
    const std::vector<std::byte> zero(sizeof(std::int32_t), std::byte{0});
    const ValueId one = node.AddConstant(DataType::kInt32, {1}, InlineConstant(zero));
    return node.Emit(Expand{}, {one}, Shape{ids[0]});
  }
  return node.Emit(Reduce{.kind = Reduce::Kind::kSum, .axes = {1}}, {node.input(7)}, Shape{ids[0]});
}

MaybeValue Positions(OnnxNode& node, const Shape& ids) {
  if (node.input(8)) return node.Emit(Gather{}, {node.input(3), node.input(8)});
  const Shape table = node.shape(3);
  if (table.size() != 2 || table[0] < ids[1]) {
    return absl::InvalidArgumentError(absl::StrFormat(
        "position embeddings have shape %s, want at least %d rows", FormatShape(table), ids[1]));
  }
  return node.Emit(Slice{.starts = {0, 0}, .steps = {1, 1}}, {node.input(3)},
                   Shape{ids[1], table[1]});
}

MaybeValue EmbedLayerNorm(OnnxNode& node) {
  const Shape ids = node.shape(0);
  if (ids.size() != 2 || !node.input(2) || !node.input(3) || !node.input(5) || !node.input(6)) {
    return absl::InvalidArgumentError(
        absl::StrFormat("got ids of shape %s, want [batch, sequence], and embeddings of words and "
                        "positions, gamma and beta",
                        FormatShape(ids)));
  }
  SLUICE_ASSIGN_OR_RETURN(ValueId sum, node.Emit(Gather{}, {node.input(2), node.input(0)}));
  SLUICE_ASSIGN_OR_RETURN(const ValueId positions, Positions(node, ids));
  SLUICE_ASSIGN_OR_RETURN(sum, node.EmitBinary(Binary::Kind::kAdd, sum, positions));
  if (node.input(1) && node.input(4)) {
    SLUICE_ASSIGN_OR_RETURN(const ValueId segments,
                            node.Emit(Gather{}, {node.input(4), node.input(1)}));
    SLUICE_ASSIGN_OR_RETURN(sum, node.EmitBinary(Binary::Kind::kAdd, sum, segments));
  }
  if (node.output_count() > 1 && !node.proto().output(1).empty()) {
    SLUICE_ASSIGN_OR_RETURN(const ValueId mask, MaskIndex(node, ids));
    node.SetOutput(1, mask);
  }
  node.SetOutput(2, sum);
  return EmitRowNorm(node, sum,
                     {.axis = 2,
                      .epsilon = node.Float("epsilon", kSkipEpsilon),
                      .scale = node.input(5),
                      .shift = node.input(6)});
}

// Batch dimensions that follow the rows: [rows, batch..., columns] to [batch..., rows, columns].
std::vector<std::int64_t> BatchBehindRows(bool wanted, std::size_t rank) {
  if (!wanted || rank < 3) return {};
  std::vector<std::int64_t> perm(rank);
  std::iota(perm.begin(), perm.end(), 1);
  perm[rank - 2] = 0;
  perm[rank - 1] = static_cast<std::int64_t>(rank) - 1;
  return perm;
}

MaybeValue FusedMatMul(OnnxNode& node) {
  const Shape a = node.shape(0), b = node.shape(1);
  if (a.size() < 2 || b.size() < 2) {
    return absl::UnimplementedError(absl::StrFormat(
        "operands have shapes %s and %s, want two dimensions", FormatShape(a), FormatShape(b)));
  }
  const bool transposed_a = node.Flag("transA"), transposed_b = node.Flag("transB");
  const float alpha = node.Float("alpha", 1);
  if (b.size() == 2 && node.IsConstant(1) && !transposed_a && !node.Flag("transBatchA")) {
    SLUICE_ASSIGN_OR_RETURN(const ValueId product,
                            node.Emit(FullyConnected{.transposed_b = transposed_b, .epilogues = {}},
                                      {node.input(0), node.input(1)}));
    if (alpha == 1) return product;
    return node.EmitUnary({.kind = Kind::kLinear, .alpha = alpha}, product);
  }
  return node.Emit(MatMul{.transposed_a = transposed_a,
                          .transposed_b = transposed_b,
                          .alpha = alpha,
                          .perm_a = BatchBehindRows(node.Flag("transBatchA"), a.size()),
                          .perm_b = BatchBehindRows(node.Flag("transBatchB"), b.size())},
                   {node.input(0), node.input(1)});
}

struct Activation {
  std::string name;
  std::vector<float> parameters;
  float Parameter(std::size_t i, float otherwise) const {
    return i < parameters.size() ? parameters[i] : otherwise;
  }
};

MaybeValue Activate(OnnxNode& node, ValueId x, const Activation& activation) {
  const std::string& name = activation.name;
  if (name.empty()) return x;
  if (name == "Relu") return node.EmitUnary({.kind = Kind::kRelu}, x);
  if (name == "Sigmoid") return node.EmitUnary({.kind = Kind::kSigmoid}, x);
  if (name == "Tanh") return node.EmitUnary({.kind = Kind::kTanh}, x);
  if (name == "LeakyRelu") {
    return node.EmitUnary({.kind = Kind::kLeakyRelu, .alpha = activation.Parameter(0, 0.01f)}, x);
  }
  if (name == "Clip") {
    return node.EmitUnary({.kind = Kind::kClip,
                           .alpha = activation.Parameter(0, -3.402823466e38f),
                           .beta = activation.Parameter(1, 3.402823466e38f)},
                          x);
  }
  if (name == "HardSigmoid") {
    return node.EmitUnary({.kind = Kind::kHardSigmoid,
                           .alpha = activation.Parameter(0, 0.2f),
                           .beta = activation.Parameter(1, 0.5f)},
                          x);
  }
  return absl::UnimplementedError(absl::StrFormat("activation \"%s\" is not supported", name));
}

// The standard operator that this one extends.
MaybeValue TranslateAs(OnnxNode& node, std::span<const OnnxOperator> group, std::string_view name) {
  for (const OnnxOperator& op : group) {
    if (op.name == name) return op.translate(node);
  }
  return absl::InternalError(absl::StrFormat("no operator \"%s\"", name));
}

MaybeValue FusedConv(OnnxNode& node) {
  SLUICE_ASSIGN_OR_RETURN(ValueId y, TranslateAs(node, WindowOperators(), "Conv"));
  if (node.input(3)) {
    SLUICE_ASSIGN_OR_RETURN(y, node.EmitBinary(Binary::Kind::kAdd, y, *node.input(3)));
  }
  return Activate(node, y, {node.String("activation", ""), node.Floats("activation_params")});
}

MaybeValue FusedGemm(OnnxNode& node) {
  SLUICE_ASSIGN_OR_RETURN(const ValueId y, TranslateAs(node, MatrixOperators(), "Gemm"));
  Activation activation{node.String("activation", ""), {}};
  for (const char* name : {"activation_alpha", "activation_beta"}) {
    if (node.Has(name)) activation.parameters.push_back(node.Float(name, 0));
  }
  return Activate(node, y, activation);
}

constexpr OnnxOperator kOperators[] = {
    {"Gelu", 1, 1, BiasedUnary<Kind::kGelu>},
    {"BiasGelu", 2, 2, BiasedUnary<Kind::kGelu>},
    {"FastGelu", 1, 2, BiasedUnary<Kind::kGeluTanh>},
    {"QuickGelu", 1, 1, QuickGelu},
    {"SkipLayerNormalization", 3, 5, SkipLayerNorm<true>},
    {"SkipSimplifiedLayerNormalization", 3, 4, SkipLayerNorm<false>},
    {"EmbedLayerNormalization", 7, 9, EmbedLayerNorm},
    {"FusedMatMul", 2, 2, FusedMatMul},
    {"FusedConv", 2, 4, FusedConv},
    {"FusedGemm", 2, 3, FusedGemm},
};

}  // namespace

std::span<const OnnxOperator> ContribOperators() { return kOperators; }

}  // namespace sluice
