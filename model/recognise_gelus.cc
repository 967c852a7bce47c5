// Gaussian error linear units that exporters spell out, in the orders and forms that they use:
//
//   x * 0.5 * (1 + erf(x / sqrt(2)))
//   x * 0.5 * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 * x^3)))
//
// Constants are part of linear steps by then, and neighbouring linear steps one.

#include <cmath>
#include <optional>
#include <utility>

#include "model/graph_editor.h"
#include "model/host_tensor.h"
#include "model/rewrite_stages.h"

namespace sluice {
namespace {

using Kind = Unary::Kind;

constexpr float kRootOfHalf = 0.70710678f, kRootOfTwoOverPi = 0.79788456f, kCubic = 0.044715f;

// To what single-precision files write them with.
bool Near(float a, float b) { return std::fabs(a - b) <= 1e-4f * std::fabs(b); }

// alpha * x + beta; any value is one with alpha 1.
struct Line {
  float alpha = 1, beta = 0;
  ValueId x{};
};

Line LineBehind(const GraphEditor& editor, ValueId id) {
  Line line{1, 0, id};
  while (const std::optional<std::size_t> producer = editor.producer(line.x)) {
    const auto* unary = std::get_if<Unary>(&editor.node(*producer).operation);
    if (unary == nullptr || unary->kind != Kind::kLinear) break;
    line = {line.alpha * unary->alpha, line.alpha * unary->beta + line.beta,
            *editor.node(*producer).inputs[0]};
  }
  return line;
}

std::optional<ValueId> UnaryInput(const GraphEditor& editor, ValueId id, Kind kind) {
  const std::optional<std::size_t> producer = editor.producer(id);
  const auto* unary = producer ? std::get_if<Unary>(&editor.node(*producer).operation) : nullptr;
  if (unary == nullptr || unary->kind != kind) return std::nullopt;
  return editor.node(*producer).inputs[0];
}

std::optional<std::pair<ValueId, ValueId>> BinaryInputs(const GraphEditor& editor, ValueId id,
                                                        Binary::Kind kind) {
  const std::optional<std::size_t> producer = editor.producer(id);
  const auto* binary = producer ? std::get_if<Binary>(&editor.node(*producer).operation) : nullptr;
  if (binary == nullptr || binary->kind != kind) return std::nullopt;
  return std::pair{*editor.node(*producer).inputs[0], *editor.node(*producer).inputs[1]};
}

// The factor c and the power p for which `id` is c * x^p, p from 1 to 3.
struct Monomial {
  float factor = 1;
  int power = 1;
};

std::optional<Monomial> MonomialOf(const GraphEditor& editor, ValueId id, ValueId x, int depth) {
  if (id == x) return Monomial{1, 1};
  const Line line = LineBehind(editor, id);
  if (line.beta != 0) return std::nullopt;
  if (line.x == x) return Monomial{line.alpha, 1};
  if (const auto power = BinaryInputs(editor, line.x, Binary::Kind::kPower)) {
    const Value& exponent = editor.value(power->second);
    if (power->first != x || exponent.constant == nullptr || ElementCount(exponent.shape) != 1 ||
        !IsFloat(exponent.type)) {
      return std::nullopt;
    }
    const absl::StatusOr<std::vector<float>> read = ReadFloats(exponent);
    if (!read.ok() || (*read)[0] != 3) return std::nullopt;
    return Monomial{line.alpha, 3};
  }
  const auto product = BinaryInputs(editor, line.x, Binary::Kind::kMultiply);
  if (!product || depth == 0) return std::nullopt;
  const auto a = MonomialOf(editor, product->first, x, depth - 1);
  const auto b = MonomialOf(editor, product->second, x, depth - 1);
  if (!a || !b || a->power + b->power > 3) return std::nullopt;
  return Monomial{line.alpha * a->factor * b->factor, a->power + b->power};
}

// Whether `id` is sqrt(2 / pi) * (x + 0.044715 * x^3), as a sum or as x times 1 + 0.044715 * x^2.
bool IsTanhArgument(const GraphEditor& editor, ValueId id, ValueId x) {
  const Line outer = LineBehind(editor, id);
  if (outer.beta != 0) return false;
  if (const auto sum = BinaryInputs(editor, outer.x, Binary::Kind::kAdd)) {
    auto linear = MonomialOf(editor, sum->first, x, 2);
    auto cubic = MonomialOf(editor, sum->second, x, 2);
    if (!linear || !cubic) return false;
    if (linear->power == 3) std::swap(linear, cubic);
    return linear->power == 1 && cubic->power == 3 &&
           Near(outer.alpha * linear->factor, kRootOfTwoOverPi) &&
           Near(cubic->factor, kCubic * linear->factor);
  }
  const auto product = BinaryInputs(editor, outer.x, Binary::Kind::kMultiply);
  if (!product) return false;
  for (const auto& [left, right] : {*product, std::pair{product->second, product->first}}) {
    const auto linear = MonomialOf(editor, left, x, 0);
    const Line sum = LineBehind(editor, right);
    const auto square = MonomialOf(editor, sum.x, x, 1);
    if (!linear || linear->power != 1 || !square || square->power != 2 || sum.beta == 0) continue;
    if (Near(outer.alpha * linear->factor * sum.beta, kRootOfTwoOverPi) &&
        Near(sum.alpha * square->factor, kCubic * sum.beta)) {
      return true;
    }
  }
  return false;
}

// The kind of gate: 1 + erf or 1 + tanh of x, times `factor`.
struct Gate {
  Kind kind = Kind::kGelu;
  float factor = 1;
};

std::optional<Gate> GateOf(const GraphEditor& editor, ValueId id, ValueId x) {
  const Line line = LineBehind(editor, id);
  if (!Near(line.alpha, line.beta)) return std::nullopt;
  if (const auto erf = UnaryInput(editor, line.x, Kind::kErf)) {
    const Line inner = LineBehind(editor, *erf);
    if (inner.x != x || inner.beta != 0 || !Near(inner.alpha, kRootOfHalf)) return std::nullopt;
    return Gate{Kind::kGelu, line.alpha};
  }
  const auto tanh = UnaryInput(editor, line.x, Kind::kTanh);
  if (!tanh || !IsTanhArgument(editor, *tanh, x)) return std::nullopt;
  return Gate{Kind::kGeluTanh, line.alpha};
}

// Whether `factor` times the product is one of the two.
bool Complete(GraphEditor& editor, std::size_t i, ValueId product, float factor) {
  const auto operands = BinaryInputs(editor, product, Binary::Kind::kMultiply);
  if (!operands) return false;
  for (const auto& [left, right] : {*operands, std::pair{operands->second, operands->first}}) {
    const Line line = LineBehind(editor, left);
    // What the gate reads may itself be a linear step, of which `line` has seen through.
    for (const Line& x : {Line{1, 0, left}, line}) {
      if (x.beta != 0) continue;
      const std::optional<Gate> gate = GateOf(editor, right, x.x);
      if (!gate || !Near(factor * x.alpha * gate->factor, 0.5f)) continue;
      if (editor.value(x.x).shape != editor.value(editor.node(i).output).shape) continue;
      editor.operation(i) = Unary{.kind = gate->kind};
      editor.SetInputs(i, {x.x});
      return true;
    }
  }
  return false;
}

}  // namespace

void RecogniseGelus(Graph& graph, std::size_t& applied) {
  GraphEditor editor(graph);
  for (std::size_t i = 0; i < editor.node_count(); ++i) {
    bool changed = false;
    if (std::holds_alternative<Binary>(editor.node(i).operation)) {
      changed = Complete(editor, i, editor.node(i).output, 1);
    } else if (const auto* unary = std::get_if<Unary>(&editor.node(i).operation)) {
      const float alpha = unary->alpha;
      changed = unary->kind == Kind::kLinear && unary->beta == 0 &&
                Complete(editor, i, *editor.node(i).inputs[0], alpha);
    }
    applied += changed ? 1 : 0;
  }
}

}  // namespace sluice
