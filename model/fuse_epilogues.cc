#include <algorithm>
#include <cmath>
#include <utility>

#include "base/status_macros.h"
#include "model/fold_affines.h"
#include "model/graph_editor.h"
#include "model/host_tensor.h"
#include "model/rewrite.h"
#include "model/rewrite_stages.h"
#include "model/shape_rule.h"

namespace sluice {
namespace {

using Kind = Unary::Kind;

// A longer tail keeps too many operands alive in one kernel.
constexpr std::size_t kMaxEpilogues = 4;

const Unary* UnaryAt(const GraphEditor& editor, std::optional<std::size_t> node) {
  return node ? std::get_if<Unary>(&editor.node(*node).operation) : nullptr;
}

// The unary operation that computes `id`, and what it reads.
struct Applied {
  Unary unary;
  ValueId x{};
};

std::optional<Applied> UnaryBehind(const GraphEditor& editor, ValueId id) {
  const std::optional<std::size_t> producer = editor.producer(id);
  const Unary* unary = UnaryAt(editor, producer);
  if (unary == nullptr) return std::nullopt;
  return Applied{*unary, *editor.node(*producer).inputs[0]};
}

bool AreReciprocal(float a, float b) { return std::fabs(a * b - 1) < 1e-6f; }

// clip(a * x + b, 0, height), from a clip and a linear step, or a clip alone.
struct Ramp {
  ValueId x{};
  float a = 1, b = 0, height = 1;
};

std::optional<Ramp> RampBehind(const GraphEditor& editor, ValueId id) {
  const std::optional<Applied> clip = UnaryBehind(editor, id);
  if (!clip || clip->unary.kind != Kind::kClip || clip->unary.alpha != 0 ||
      !(clip->unary.beta > 0) || !std::isfinite(clip->unary.beta)) {
    return std::nullopt;
  }
  const std::optional<Applied> linear = UnaryBehind(editor, clip->x);
  if (!linear || linear->unary.kind != Kind::kLinear) return std::nullopt;
  return Ramp{linear->x, linear->unary.alpha, linear->unary.beta, clip->unary.beta};
}

// The activation that x * gate(x) is; nullopt when `gate` is none of the known ones, of x.
std::optional<Unary> GateOf(const GraphEditor& editor, ValueId x, ValueId gate) {
  const std::optional<Applied> outer = UnaryBehind(editor, gate);
  if (!outer) return std::nullopt;
  if (outer->x == x && outer->unary.kind == Kind::kSigmoid) return Unary{.kind = Kind::kSilu};
  if (outer->x == x && outer->unary.kind == Kind::kHardSigmoid) {
    return Unary{Kind::kHardSwish, outer->unary.alpha, outer->unary.beta};
  }
  if (outer->unary.kind == Kind::kTanh) {
    const std::optional<Applied> inner = UnaryBehind(editor, outer->x);
    if (inner && inner->x == x && inner->unary.kind == Kind::kSoftplus) {
      return Unary{.kind = Kind::kMish};
    }
  }
  return std::nullopt;
}

// x * clip(a * x + b, 0, h) / h with the division last: HardSwish.
std::optional<Unary> ScaledGateOf(const GraphEditor& editor, const Unary& scale, ValueId product,
                                  ValueId& x) {
  const std::optional<std::size_t> node = editor.producer(product);
  const auto* binary = node ? std::get_if<Binary>(&editor.node(*node).operation) : nullptr;
  if (binary == nullptr || binary->kind != Binary::Kind::kMultiply) return std::nullopt;
  for (const std::size_t i : {0u, 1u}) {
    x = *editor.node(*node).inputs[i];
    const std::optional<Ramp> ramp = RampBehind(editor, *editor.node(*node).inputs[1 - i]);
    if (ramp && ramp->x == x && AreReciprocal(scale.alpha, ramp->height)) {
      return Unary{Kind::kHardSwish, ramp->a * scale.alpha, ramp->b * scale.alpha};
    }
  }
  return std::nullopt;
}

// What a linear step completes: a ramp of height one, a hard swish, or another linear step.
bool CompleteLinear(GraphEditor& editor, std::size_t i, const Unary& linear) {
  const ValueId behind = *editor.node(i).inputs[0];
  if (linear.beta == 0) {
    const std::optional<Ramp> ramp = RampBehind(editor, behind);
    if (ramp && AreReciprocal(linear.alpha, ramp->height)) {
      editor.operation(i) =
          Unary{Kind::kHardSigmoid, ramp->a * linear.alpha, ramp->b * linear.alpha};
      editor.SetInputs(i, {ramp->x});
      return true;
    }
    ValueId x{};
    if (const std::optional<Unary> gate = ScaledGateOf(editor, linear, behind, x)) {
      editor.operation(i) = *gate;
      editor.SetInputs(i, {x});
      return true;
    }
  }
  const Unary* before = UnaryAt(editor, editor.PrivateProducer(behind));
  if (before == nullptr || before->kind != Kind::kLinear) return false;
  const std::size_t producer = *editor.producer(behind);
  editor.operation(i) =
      Unary{Kind::kLinear, before->alpha * linear.alpha, before->beta * linear.alpha + linear.beta};
  editor.SetInputs(i, {editor.node(producer).inputs[0]});
  return true;
}

bool CompleteGate(GraphEditor& editor, std::size_t i, const Binary& binary) {
  if (binary.kind != Binary::Kind::kMultiply) return false;
  for (const std::size_t x_at : {0u, 1u}) {
    const ValueId x = *editor.node(i).inputs[x_at];
    const std::optional<Unary> gate = GateOf(editor, x, *editor.node(i).inputs[1 - x_at]);
    if (!gate) continue;
    editor.operation(i) = *gate;
    editor.SetInputs(i, {x});
    return true;
  }
  return false;
}

// A pad that a convolution can do itself. Pads of batch and channels are no pads of its own.
const Pad* SpatialPad(const GraphEditor& editor, std::optional<std::size_t> node) {
  const auto* pad = node ? std::get_if<Pad>(&editor.node(*node).operation) : nullptr;
  if (pad == nullptr || pad->mode != Pad::Mode::kConstant || pad->value != 0 ||
      editor.node(*node).inputs.size() > 1 || pad->begin.size() < 3 ||
      pad->begin[0] + pad->begin[1] + pad->end[0] + pad->end[1] != 0) {
    return nullptr;
  }
  return pad;
}

bool AbsorbPad(GraphEditor& editor, std::size_t i) {
  auto* convolution = std::get_if<Convolution>(&editor.operation(i));
  auto* pool = std::get_if<Pool>(&editor.operation(i));
  if (convolution == nullptr && pool == nullptr) return false;
  // Beside integers a pad stands for their zero point.
  if (!IsFloat(editor.input_value(i, 0).type)) return false;
  const std::optional<std::size_t> producer = editor.producer(*editor.node(i).inputs[0]);
  const Pad* pad = SpatialPad(editor, producer);
  if (pad == nullptr) return false;
  const std::span begin = std::span(pad->begin).subspan(2), end = std::span(pad->end).subspan(2);
  if (convolution != nullptr) {
    if (convolution->transposed) return false;
    for (std::size_t d = 0; d < begin.size(); ++d) {
      convolution->pads_begin[d] += begin[d];
      convolution->pads_end[d] += end[d];
    }
  } else {
    // An average over pads that were elements counts them; with pads of its own it cannot do both.
    const auto zero = [](std::int64_t n) { return n == 0; };
    bool fits = pool->kind == Pool::Kind::kAverage && std::ranges::all_of(pool->pads_begin, zero) &&
                std::ranges::all_of(pool->pads_end, zero);
    for (std::size_t d = 0; d < begin.size(); ++d) {
      const std::int64_t span = (pool->kernel[d] - 1) * pool->dilations[d] + 1;
      fits = fits && std::max(begin[d], end[d]) < span;
    }
    if (!fits) return false;
    pool->pads_begin.assign(begin.begin(), begin.end());
    pool->pads_end.assign(end.begin(), end.end());
    pool->count_include_pad = true;
  }
  std::vector<std::optional<ValueId>> inputs = editor.node(i).inputs;
  inputs[0] = editor.node(*producer).inputs[0];
  editor.SetInputs(i, std::move(inputs));
  return true;
}

bool IsFusible(Kind kind) {
  switch (kind) {
    case Kind::kRelu:
    case Kind::kLeakyRelu:
    case Kind::kClip:
    case Kind::kSigmoid:
    case Kind::kHardSigmoid:
    case Kind::kHardSwish:
    case Kind::kSilu:
    case Kind::kMish:
    case Kind::kTanh:
    case Kind::kElu:
    case Kind::kGelu:
    case Kind::kGeluTanh:
    case Kind::kLinear:
      return true;
    default:
      return false;
  }
}

std::vector<Epilogue>* EpiloguesAt(GraphEditor& editor, std::size_t node) {
  Operation& operation = editor.operation(node);
  if (auto* op = std::get_if<Convolution>(&operation)) {
    // Tails of bytes are what fuse_quantized.cc gave them; kernels for computed weights have none.
    if (!IsFloat(editor.input_value(node, 0).type)) return nullptr;
    for (std::size_t i = 1; i < std::min<std::size_t>(editor.node(node).inputs.size(), 3); ++i) {
      const std::optional<ValueId>& parameter = editor.node(node).inputs[i];
      if (parameter && editor.value(*parameter).constant == nullptr) return nullptr;
    }
    return &op->epilogues;
  }
  if (auto* op = std::get_if<FullyConnected>(&operation)) return &op->epilogues;
  if (auto* op = std::get_if<ChannelAffine>(&operation)) return &op->epilogues;
  return nullptr;
}

// The node whose tail can take in what reads `id`.
std::optional<std::size_t> Host(GraphEditor& editor, ValueId id) {
  const std::optional<std::size_t> producer = editor.PrivateProducer(id);
  if (!producer) return std::nullopt;
  const std::vector<Epilogue>* tail = EpiloguesAt(editor, *producer);
  return tail != nullptr && tail->size() < kMaxEpilogues ? producer : std::nullopt;
}

bool FuseActivation(GraphEditor& editor, std::size_t i, const Unary& unary) {
  if (!IsFusible(unary.kind) || !IsFloat(editor.input_value(i, 0).type)) return false;
  const std::optional<std::size_t> host = Host(editor, *editor.node(i).inputs[0]);
  if (!host) return false;
  EpiloguesAt(editor, *host)->push_back({.kind = Epilogue::Kind::kUnary, .unary = unary});
  editor.TakeOutput(*host, i);
  return true;
}

// y = convolution + residual. Of two convolutions the later one takes the other's result in, and
// moves to where the addition was: all that it needs is there by then.
bool FuseAddition(GraphEditor& editor, std::size_t i, const Binary& binary) {
  if (binary.kind != Binary::Kind::kAdd) return false;
  const ValueId a = *editor.node(i).inputs[0], b = *editor.node(i).inputs[1];
  const Value& va = editor.value(a);
  const Value& vb = editor.value(b);
  if (a == b || va.shape != vb.shape || va.type != vb.type || !IsFloat(va.type)) return false;
  const std::optional<std::size_t> host_a = Host(editor, a), host_b = Host(editor, b);
  if (!host_a && !host_b) return false;
  const bool into_b = !host_a || (host_b && *host_b > *host_a);
  const std::size_t host = into_b ? *host_b : *host_a;
  std::vector<std::optional<ValueId>> inputs = editor.node(host).inputs;
  inputs.resize(std::max(inputs.size(), FixedInputs(editor.node(host).operation)));
  const auto at = static_cast<std::uint32_t>(inputs.size());
  inputs.emplace_back(into_b ? a : b);
  EpiloguesAt(editor, host)->push_back({.kind = Epilogue::Kind::kAdd, .unary = {}, .input = at});
  editor.SetInputs(host, std::move(inputs));
  editor.MoveInto(host, i);
  return true;
}

// alpha * (a x b) is a product with a factor.
bool FuseFactor(GraphEditor& editor, std::size_t i, const Unary& unary) {
  if (unary.kind != Kind::kLinear || unary.beta != 0) return false;
  if (!IsFloat(editor.input_value(i, 0).type)) return false;
  const std::optional<std::size_t> producer = editor.PrivateProducer(*editor.node(i).inputs[0]);
  auto* product = producer ? std::get_if<MatMul>(&editor.operation(*producer)) : nullptr;
  if (product == nullptr) return false;
  product->alpha *= unary.alpha;
  editor.TakeOutput(*producer, i);
  return true;
}

// A Binary with a constant becomes linear, or an affine over the channels.
absl::StatusOr<bool> FromConstant(GraphEditor& editor, std::size_t i) {
  if (!std::holds_alternative<Binary>(editor.node(i).operation)) return false;
  SLUICE_ASSIGN_OR_RETURN(const std::optional<Affine> affine, AsAffine(editor, i));
  if (!affine) return false;
  if (affine->uniform()) {
    editor.operation(i) = Unary{Kind::kLinear, affine->scale[0], affine->shift[0]};
    editor.SetInputs(i, {affine->x});
    return true;
  }
  if (affine->axis != 1) return false;
  const Value y = editor.value(editor.node(i).output);
  const auto add = [&](const char* what, const std::vector<float>& elements) {
    return editor.Add({.name = y.name + what,
                       .type = y.type,
                       .shape = {std::ssize(elements)},
                       .constant = InlineConstant(PackFloats(y.type, elements))});
  };
  const ValueId scale = add("#scale", affine->scale);
  const ValueId shift = add("#bias", affine->shift);
  editor.operation(i) = ChannelAffine{};
  editor.SetInputs(i, {affine->x, scale, shift});
  return true;
}

}  // namespace

absl::Status Recognise(Graph& graph, std::size_t& applied) {
  GraphEditor editor(graph);
  for (std::size_t i = 0; i < editor.node_count(); ++i) {
    SLUICE_ASSIGN_OR_RETURN(const bool changed, FromConstant(editor, i));
    bool any = changed;
    if (const auto* unary = std::get_if<Unary>(&editor.node(i).operation);
        unary != nullptr && unary->kind == Kind::kLinear) {
      any = CompleteLinear(editor, i, Unary(*unary)) || any;
    } else if (const auto* binary = std::get_if<Binary>(&editor.node(i).operation)) {
      any = CompleteGate(editor, i, Binary(*binary)) || any;
    }
    any = AbsorbPad(editor, i) || any;
    applied += any ? 1 : 0;
  }
  return absl::OkStatus();
}

void FuseTails(Graph& graph, std::size_t& applied) {
  GraphEditor editor(graph);
  for (std::size_t i = 0; i < editor.node_count(); ++i) {
    if (editor.removed(i)) continue;
    // Tails are computed in FP32 alone.
    if (editor.value(editor.node(i).output).type != DataType::kFloat32) continue;
    bool fused = false;
    if (const auto* unary = std::get_if<Unary>(&editor.node(i).operation)) {
      const Unary copy = *unary;
      fused = FuseActivation(editor, i, copy) || FuseFactor(editor, i, copy);
    } else if (const auto* binary = std::get_if<Binary>(&editor.node(i).operation)) {
      fused = FuseAddition(editor, i, Binary(*binary));
    }
    applied += fused ? 1 : 0;
  }
}

absl::Status FuseEpilogues(Graph& graph, std::size_t& applied) {
  SLUICE_RETURN_IF_ERROR(Recognise(graph, applied));
  // What recognising left without a reader would keep results from being private.
  DropUnused(graph);
  FuseTails(graph, applied);
  return absl::OkStatus();
}

}  // namespace sluice
