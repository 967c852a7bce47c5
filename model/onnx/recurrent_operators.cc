// RNN, GRU and LSTM: one matrix product for the inputs of all steps, then the steps.

#include <algorithm>
#include <array>

#include "absl/strings/ascii.h"
#include "absl/strings/str_format.h"
#include "base/status_macros.h"
#include "model/onnx/onnx_node.h"

namespace sluice {
namespace {

// An activation by name. `alpha` and `beta` are what stands for those that are not given; where
// neither can be, none is consumed.
struct NamedActivation {
  std::string_view name;
  Unary::Kind kind;
  bool takes_alpha = false, takes_beta = false;
  float alpha = 0, beta = 0;
};
constexpr NamedActivation kActivations[] = {
    {"sigmoid", Unary::Kind::kSigmoid},
    {"tanh", Unary::Kind::kTanh},
    {"relu", Unary::Kind::kRelu},
    {"softplus", Unary::Kind::kSoftplus},
    {"affine", Unary::Kind::kLinear, true, true, 1, 0},
    {"leakyrelu", Unary::Kind::kLeakyRelu, true, false, 0.01f},
    {"thresholdedrelu", Unary::Kind::kThresholdedRelu, true, false, 1},
    {"hardsigmoid", Unary::Kind::kHardSigmoid, true, true, 0.2f, 0.5f},
    {"elu", Unary::Kind::kElu, true, false, 1},
};

std::vector<std::string> DefaultActivations(Recurrent::Kind kind) {
  if (kind == Recurrent::Kind::kRnn) return {"Tanh"};
  if (kind == Recurrent::Kind::kGru) return {"Sigmoid", "Tanh"};
  return {"Sigmoid", "Tanh", "Tanh"};
}

// The next of the values that activations consume in order.
float Consume(std::span<const float> values, std::size_t& next, float otherwise) {
  return next < values.size() ? values[next++] : otherwise;
}

absl::StatusOr<std::vector<Unary>> Activations(OnnxNode& node, Recurrent::Kind kind,
                                               std::size_t directions) {
  const std::vector<std::string> defaults = DefaultActivations(kind);
  std::vector<std::string> names = node.Strings("activations");
  while (names.size() < defaults.size() * directions && !node.Has("activations")) {
    names.insert(names.end(), defaults.begin(), defaults.end());
  }
  if (names.size() != defaults.size() * directions) {
    return absl::InvalidArgumentError(
        absl::StrFormat("got %u activations, want %u", names.size(), defaults.size() * directions));
  }
  const std::vector<float> alphas = node.Floats("activation_alpha");
  const std::vector<float> betas = node.Floats("activation_beta");
  std::size_t alpha = 0, beta = 0;
  std::vector<Unary> activations;
  activations.reserve(names.size());
  for (const std::string& name : names) {
    const auto* found =
        std::ranges::find(kActivations, absl::AsciiStrToLower(name), &NamedActivation::name);
    if (found == std::end(kActivations)) {
      return absl::UnimplementedError(absl::StrFormat("activation %s is not supported", name));
    }
    Unary unary{.kind = found->kind};
    if (found->takes_alpha) unary.alpha = Consume(alphas, alpha, found->alpha);
    if (found->takes_beta) unary.beta = Consume(betas, beta, found->beta);
    activations.push_back(unary);
  }
  return activations;
}

absl::StatusOr<Recurrent::Direction> DirectionOf(OnnxNode& node) {
  const std::string direction = node.String("direction", "forward");
  if (direction == "forward") return Recurrent::Direction::kForward;
  if (direction == "reverse") return Recurrent::Direction::kReverse;
  if (direction == "bidirectional") return Recurrent::Direction::kBidirectional;
  return absl::InvalidArgumentError(
      absl::StrFormat("direction is \"%s\", want forward, reverse or bidirectional", direction));
}

absl::StatusOr<Recurrent> ReadAttributes(OnnxNode& node, Recurrent::Kind kind) {
  Recurrent op;
  op.kind = kind;
  SLUICE_ASSIGN_OR_RETURN(op.direction, DirectionOf(node));
  const std::size_t directions = op.direction == Recurrent::Direction::kBidirectional ? 2 : 1;
  SLUICE_ASSIGN_OR_RETURN(op.activations, Activations(node, kind, directions));
  op.clip = node.Float("clip", 0);
  op.linear_before_reset = node.Flag("linear_before_reset");
  op.coupled_input_forget = node.Flag("input_forget");
  return op;
}

// Of a direction: a tensor without elements may have dimensions of any size.
constexpr std::int64_t kMostGates = std::int64_t{1} << 33;

absl::Status CheckWeights(OnnxNode& node) {
  const Shape x = node.shape(0), w = node.shape(1), r = node.shape(2);
  const bool fits = x.size() == 3 && w.size() == 3 && r.size() == 3 && w[2] == x[2] &&
                    w[0] == r[0] && w[1] == r[1] && w[0] <= 2 && w[1] <= kMostGates;
  if (!fits) {
    return absl::InvalidArgumentError(
        absl::StrFormat("x, W and R have shapes %s, %s and %s, want [steps, batch, inputs], "
                        "[directions, gates, inputs] and [directions, gates, hidden]",
                        FormatShape(x), FormatShape(w), FormatShape(r)));
  }
  const std::int64_t hidden = node.Int("hidden_size", r[2]);
  if (hidden == r[2]) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrFormat("hidden_size is %d, R has shape %s", hidden, FormatShape(r)));
}

// x W^T for all steps and directions: [steps, batch, directions * gates].
MaybeValue EmitProducts(OnnxNode& node, ValueId x) {
  const Shape w = node.shape(1);
  SLUICE_ASSIGN_OR_RETURN(const ValueId weights,
                          node.EmitReshape(*node.input(1), {w[0] * w[1], w[2]}));
  if (node.graph().value(weights).constant != nullptr) {
    return node.Emit(FullyConnected{.transposed_b = true, .epilogues = {}}, {x, weights});
  }
  return node.Emit(MatMul{.transposed_b = true}, {x, weights});
}

// Steps, or states, first; `batchwise` says that sequences are.
MaybeValue StepsFirst(OnnxNode& node, ValueId x, bool batchwise) {
  if (!batchwise || node.graph().value(x).shape.size() != 3) return x;
  return node.Emit(Transpose{{1, 0, 2}}, {x});
}

// Elements [begin, begin + size of `shape`) of the packed output.
MaybeValue EmitPart(OnnxNode& node, ValueId packed, std::int64_t begin, const Shape& shape) {
  const auto size = static_cast<std::int64_t>(ElementCount(shape));
  SLUICE_ASSIGN_OR_RETURN(const ValueId part,
                          node.Emit(Slice{.starts = {begin}, .steps = {1}}, {packed}, Shape{size}));
  return node.EmitReshape(part, shape);
}

bool IsWanted(const OnnxNode& node, std::size_t output) {
  return output < node.output_count() && !node.proto().output(static_cast<int>(output)).empty();
}

MaybeValue EmitOutputs(OnnxNode& node, ValueId packed, const RecurrentSizes& sizes,
                       bool batchwise) {
  const std::int64_t states = sizes.states();
  const Shape state = {sizes.directions, sizes.batch, sizes.hidden};
  for (const std::size_t i : {1U, 2U}) {
    if (!IsWanted(node, i)) continue;
    const std::int64_t begin = states * (sizes.steps + static_cast<std::int64_t>(i) - 1);
    SLUICE_ASSIGN_OR_RETURN(const ValueId last, EmitPart(node, packed, begin, state));
    SLUICE_ASSIGN_OR_RETURN(const ValueId given, StepsFirst(node, last, batchwise));
    node.SetOutput(i, given);
  }
  if (!IsWanted(node, 0)) return packed;
  SLUICE_ASSIGN_OR_RETURN(
      const ValueId all,
      EmitPart(node, packed, 0, {sizes.steps, sizes.directions, sizes.batch, sizes.hidden}));
  return batchwise ? node.Emit(Transpose{{2, 0, 1, 3}}, {all}) : all;
}

template <Recurrent::Kind kind>
MaybeValue RecurrentLayer(OnnxNode& node) {
  SLUICE_RETURN_IF_ERROR(CheckWeights(node));
  SLUICE_ASSIGN_OR_RETURN(Recurrent op, ReadAttributes(node, kind));
  if (kind != Recurrent::Kind::kLstm && IsWanted(node, 2)) {
    return absl::InvalidArgumentError("has three outputs, want one or two");
  }
  const bool batchwise = node.Flag("layout");
  SLUICE_ASSIGN_OR_RETURN(const ValueId x, StepsFirst(node, *node.input(0), batchwise));
  SLUICE_ASSIGN_OR_RETURN(const ValueId products, EmitProducts(node, x));
  std::vector<std::optional<ValueId>> inputs = {products, node.input(2), node.input(3),
                                                node.input(4)};
  for (std::size_t i = 5; i < node.input_count(); ++i) {
    std::optional<ValueId> input = node.input(i);
    if (input) {
      SLUICE_ASSIGN_OR_RETURN(input, StepsFirst(node, *input, batchwise));
    }
    inputs.push_back(input);
  }
  while (!inputs.back()) inputs.pop_back();
  const Shape all = node.graph().value(products).shape;
  // An import that goes on checks the operation's shapes before any of them is relied on.
  SLUICE_ASSIGN_OR_RETURN(const ValueId packed, node.Emit(op, std::move(inputs)));
  return EmitOutputs(node, packed, SizesOf(op, all, node.shape(2)), batchwise);
}

constexpr OnnxOperator kOperators[] = {
    {"RNN", 3, 6, RecurrentLayer<Recurrent::Kind::kRnn>},
    {"GRU", 3, 6, RecurrentLayer<Recurrent::Kind::kGru>},
    {"LSTM", 3, 8, RecurrentLayer<Recurrent::Kind::kLstm>},
};

}  // namespace

std::span<const OnnxOperator> RecurrentOperators() { return kOperators; }

}  // namespace sluice
