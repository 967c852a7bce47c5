// Operations between numbers that were dequantised and numbers that will be quantised work on the
// bytes themselves: convolutions and matrix products exactly, in 32 bits; moves as they are. What
// comes out may differ from the same in FP32 by one step of the output's scale, where the sum lies
// between two of them.

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <utility>
#include <vector>

#include "base/status_macros.h"
#include "model/host_tensor.h"
#include "model/rewrite.h"
#include "model/rewrite_stages.h"
#include "model/shape_rule.h"

namespace sluice {
namespace {

using NodeIndex = std::size_t;

// Bytes that stand for real numbers: scale[c] * (q - zero).
struct Quantized {
  ValueId bytes{};
  std::vector<float> scales;  // One, or one for each entry of `axis`.
  std::int64_t axis = 0;
  std::optional<ValueId> zero = {};
  std::vector<std::int64_t> zeros = {0};  // Its elements.
};

// What follows a convolution and joins it: an affine of its channels, a bound, a conversion.
struct Tail {
  NodeIndex last = 0;               // Whose place the whole takes.
  std::vector<float> scale, shift;  // By channel; empty: none.
  const Unary* bound = nullptr;
  std::optional<ValueId> zero;
  float unit = 1;  // Scale of the output; 1: it stays real.
};

class QuantizedFusion {
 public:
  explicit QuantizedFusion(Graph& graph)
      : graph_(graph), producers_(graph.values.size()), readers_(graph.values.size()) {
    for (NodeIndex i = 0; i < graph.nodes.size(); ++i) {
      producers_[Index(graph.nodes[i].output)] = i;
      for (const std::optional<ValueId>& input : graph.nodes[i].inputs) {
        if (input) readers_[Index(*input)].push_back(i);
      }
    }
    // Those are read by somebody who is no node.
    for (const ValueId output : ReadAtEnd(graph)) readers_[Index(output)].push_back(kNobody);
  }

  absl::StatusOr<std::size_t> Run();

 private:
  static constexpr NodeIndex kNobody = std::numeric_limits<NodeIndex>::max();

  using MaybeQuantized = absl::StatusOr<std::optional<Quantized>>;
  MaybeQuantized Read(const Node& node, ValueId bytes, std::int64_t axis) const;
  MaybeQuantized Behind(ValueId id) const;
  absl::StatusOr<Tail> TailBehind(NodeIndex i) const;
  absl::StatusOr<std::optional<ValueId>> BiasInUnits(const Node& node, const Tail& tail,
                                                     std::vector<float>& units);
  absl::StatusOr<bool> FuseConvolution(NodeIndex i);
  absl::StatusOr<bool> FuseProduct(NodeIndex i);
  absl::StatusOr<bool> FuseMove(NodeIndex i);
  std::optional<NodeIndex> OnlyReader(ValueId id) const;
  ValueId AddFloats(const char* what, std::span<const float> elements);
  const Value& value(const std::optional<ValueId>& id) const { return graph_.value(*id); }

  Graph& graph_;
  std::vector<std::optional<NodeIndex>> producers_;
  std::vector<std::vector<NodeIndex>> readers_;
  std::map<NodeIndex, std::vector<Node>> instead_;  // What takes the place of a node.
};

bool IsByte(DataType type) { return type == DataType::kInt8 || type == DataType::kUint8; }

// Scale and zero point of a Quantize or Dequantize, where they are constant.
QuantizedFusion::MaybeQuantized QuantizedFusion::Read(const Node& node, ValueId bytes,
                                                      std::int64_t axis) const {
  const Value& scale = value(node.inputs[1]);
  if (!IsByte(graph_.value(bytes).type) || scale.type != DataType::kFloat32 ||
      scale.constant == nullptr) {
    return std::nullopt;
  }
  Quantized quantized{.bytes = bytes, .scales = {}, .axis = axis};
  SLUICE_ASSIGN_OR_RETURN(quantized.scales, ReadFloats(scale));
  const bool positive =
      std::ranges::all_of(quantized.scales, [](float x) { return x > 0 && std::isfinite(x); });
  if (quantized.scales.empty() || !positive) return std::nullopt;
  if (node.inputs.size() > 2 && node.inputs[2]) {
    if (value(node.inputs[2]).constant == nullptr) return std::nullopt;
    quantized.zero = node.inputs[2];
    SLUICE_ASSIGN_OR_RETURN(quantized.zeros, ReadIntegers(value(node.inputs[2])));
  }
  return quantized;
}

// What a value was dequantised from.
QuantizedFusion::MaybeQuantized QuantizedFusion::Behind(ValueId id) const {
  const std::optional<NodeIndex> producer = producers_[Index(id)];
  if (!producer) return std::nullopt;
  const Node& node = graph_.nodes[*producer];
  const auto* op = std::get_if<Dequantize>(&node.operation);
  if (op == nullptr) return std::nullopt;
  return Read(node, *node.inputs[0], op->axis);
}

std::optional<NodeIndex> QuantizedFusion::OnlyReader(ValueId id) const {
  const std::vector<NodeIndex>& readers = readers_[Index(id)];
  if (readers.size() != 1 || readers[0] == kNobody) return std::nullopt;
  return readers[0];
}

ValueId QuantizedFusion::AddFloats(const char* what, std::span<const float> elements) {
  Value added{.name = what,
              .type = DataType::kFloat32,
              .shape = {std::ssize(elements)},
              .constant = InlineConstant(PackFloats(DataType::kFloat32, elements))};
  return graph_.Add(std::move(added));
}

// For each of `channels`, the product of both scales.
std::vector<float> Units(const Quantized& x, const Quantized& weights, std::size_t channels) {
  std::vector<float> units(channels);
  for (std::size_t c = 0; c < channels; ++c) {
    units[c] = x.scales[0] * weights.scales[weights.scales.size() == 1 ? 0 : c];
  }
  return units;
}

bool IsWhole(const Quantized& quantized) {
  return quantized.scales.size() == 1 && quantized.zeros.size() == 1;
}

// A relu or clip, in units of the output.
Epilogue InUnits(const Unary& unary, float unit) {
  const bool relu = unary.kind == Unary::Kind::kRelu;
  const float high = relu ? std::numeric_limits<float>::infinity() : unary.beta / unit;
  return {.unary = {Unary::Kind::kClip, relu ? 0 : unary.alpha / unit, high}};
}

const Unary* AsBound(const Node& node) {
  const auto* unary = std::get_if<Unary>(&node.operation);
  const bool bounds =
      unary != nullptr && (unary->kind == Unary::Kind::kRelu || unary->kind == Unary::Kind::kClip);
  return bounds ? unary : nullptr;
}

absl::StatusOr<Tail> QuantizedFusion::TailBehind(NodeIndex i) const {
  Tail tail{.last = i, .scale = {}, .shift = {}, .zero = {}};
  std::optional<NodeIndex> next = OnlyReader(graph_.nodes[i].output);
  const auto take = [&] {
    tail.last = *next;
    next = OnlyReader(graph_.nodes[tail.last].output);
  };
  if (next && std::holds_alternative<ChannelAffine>(graph_.nodes[*next].operation)) {
    const Node& affine = graph_.nodes[*next];
    SLUICE_ASSIGN_OR_RETURN(tail.scale, ReadFloats(value(affine.inputs[1])));
    SLUICE_ASSIGN_OR_RETURN(tail.shift, ReadFloats(value(affine.inputs[2])));
    take();
  }
  if (next && AsBound(graph_.nodes[*next]) != nullptr) {
    tail.bound = AsBound(graph_.nodes[*next]);
    take();
  }
  if (!next || !std::holds_alternative<Quantize>(graph_.nodes[*next].operation)) return tail;
  const Node& quantize = graph_.nodes[*next];
  SLUICE_ASSIGN_OR_RETURN(const auto y, Read(quantize, quantize.output, 0));
  if (!y || !IsWhole(*y)) return tail;
  tail.zero = y->zero;
  tail.unit = y->scales[0];
  take();
  return tail;
}

// The bias in units of the sums, INT32, once the tail's affine is part of it and of the units; null
// where there is none. Fails: UNIMPLEMENTED, it does not fit.
absl::StatusOr<std::optional<ValueId>> QuantizedFusion::BiasInUnits(const Node& node,
                                                                    const Tail& tail,
                                                                    std::vector<float>& units) {
  std::vector<float> bias;
  if (node.inputs.size() > 2 && node.inputs[2]) {
    if (value(node.inputs[2]).constant == nullptr) return absl::UnimplementedError("computed");
    SLUICE_ASSIGN_OR_RETURN(bias, ReadFloats(value(node.inputs[2])));
  }
  if (bias.empty() && tail.shift.empty()) return std::nullopt;
  bias.resize(units.size());
  for (std::size_t c = 0; c < tail.shift.size(); ++c) {
    bias[c] = bias[c] * tail.scale[c] + tail.shift[c];
    units[c] *= tail.scale[c];
  }
  std::vector<std::int64_t> integers;
  integers.reserve(bias.size());
  for (std::size_t c = 0; c < bias.size(); ++c) {
    const double sum = std::nearbyint(double{bias[c]} / double{units[c]});
    if (!(std::fabs(sum) < 0x1p31)) return absl::UnimplementedError("too large");
    integers.push_back(static_cast<std::int64_t>(sum));
  }
  return graph_.Add({.name = node.name + " bias",
                     .type = DataType::kInt32,
                     .shape = {std::ssize(integers)},
                     .constant = InlineConstant(PackIntegers(DataType::kInt32, integers))});
}

// Dequantised x and weights -> convolution (-> affine) (-> relu or clip) (-> quantise).
absl::StatusOr<bool> QuantizedFusion::FuseConvolution(NodeIndex i) {
  const Node node = graph_.nodes[i];
  auto op = std::get<Convolution>(node.operation);
  const bool plain = !op.transposed && op.epilogues.empty() &&
                     (node.inputs.size() < 4 || !node.inputs[3]) &&
                     graph_.value(node.output).type == DataType::kFloat32;
  if (!plain) return false;
  SLUICE_ASSIGN_OR_RETURN(const auto x, Behind(*node.inputs[0]));
  SLUICE_ASSIGN_OR_RETURN(const auto weights, Behind(*node.inputs[1]));
  if (!x || !weights || !IsWhole(*x) || graph_.value(weights->bytes).constant == nullptr) {
    return false;
  }
  const auto channels = static_cast<std::size_t>(value(node.inputs[1]).shape[0]);
  const bool by_channel = weights->scales.size() == channels && weights->axis == 0;
  if ((weights->scales.size() != 1 && !by_channel) ||
      SizeOf(DataType::kFloat32) * channels > kMaxVector) {
    return false;
  }
  SLUICE_ASSIGN_OR_RETURN(const Tail tail, TailBehind(i));
  std::vector<float> factors = Units(*x, *weights, channels);
  const absl::StatusOr<std::optional<ValueId>> bias = BiasInUnits(node, tail, factors);
  if (absl::IsUnimplemented(bias.status())) return false;
  SLUICE_RETURN_IF_ERROR(bias.status());
  for (float& factor : factors) factor /= tail.unit;
  if (tail.bound != nullptr) op.epilogues = {InUnits(*tail.bound, tail.unit)};
  Node fused = node;
  fused.output = graph_.nodes[tail.last].output;
  fused.operation = std::move(op);
  const ValueId factor = AddFloats("factor", factors);
  fused.inputs = {x->bytes, weights->bytes, *bias, factor, x->zero, weights->zero, tail.zero};
  while (!fused.inputs.back()) fused.inputs.pop_back();
  instead_[tail.last] = {std::move(fused)};
  return true;
}

// Dequantised a and b -> product: sums of bytes, as FP32, times a factor.
absl::StatusOr<bool> QuantizedFusion::FuseProduct(NodeIndex i) {
  const Node node = graph_.nodes[i];
  const auto op = std::get<MatMul>(node.operation);
  if (!op.perm_a.empty() || !op.perm_b.empty() || !op.perm_y.empty() ||
      graph_.value(node.output).type != DataType::kFloat32) {
    return false;
  }
  SLUICE_ASSIGN_OR_RETURN(const auto a, Behind(*node.inputs[0]));
  SLUICE_ASSIGN_OR_RETURN(const auto b, Behind(*node.inputs[1]));
  if (!a || !b || !IsWhole(*a)) return false;
  const Value y = graph_.value(node.output);
  const auto columns = static_cast<std::size_t>(y.shape.back());
  const auto rank = std::ssize(value(node.inputs[1]).shape);
  const bool by_column =
      b->scales.size() == columns && rank == 2 && b->axis == (op.transposed_b ? 0 : 1);
  if (b->scales.size() != 1 && !by_column) return false;
  if (b->zeros.size() != 1 && b->zeros.size() != columns) return false;
  std::vector<float> factors = Units(*a, *b, b->scales.size());
  for (float& factor : factors) factor *= op.alpha;
  Value integers = y;
  integers.name += " in units";
  integers.type = DataType::kInt32;
  Value real = y;
  real.name += " before its factor";
  const ValueId sums = graph_.Add(std::move(integers)), converted = graph_.Add(std::move(real));
  const ValueId factor = AddFloats("factor", factors);
  Node product = node;
  product.operation = MatMul{.transposed_a = op.transposed_a, .transposed_b = op.transposed_b};
  product.inputs = {a->bytes, b->bytes, a->zero, b->zero};
  while (!product.inputs.back()) product.inputs.pop_back();
  product.output = sums;
  Node cast = node, multiply = node;
  cast.operation = Cast{};
  cast.inputs = {sums};
  cast.output = converted;
  multiply.operation = Binary{Binary::Kind::kMultiply};
  multiply.inputs = {converted, factor};
  instead_[i] = {std::move(product), std::move(cast), std::move(multiply)};
  return true;
}

// Whether the operation moves elements of its first input and makes none of its own.
bool OnlyMoves(const Node& node) {
  if (const auto* pool = std::get_if<Pool>(&node.operation)) {
    return pool->kind == Pool::Kind::kMax;
  }
  return std::holds_alternative<Reshape>(node.operation) ||
         std::holds_alternative<Transpose>(node.operation) ||
         std::holds_alternative<Slice>(node.operation) ||
         std::holds_alternative<Expand>(node.operation);
}

// Dequantised x -> move -> quantised as x was: the bytes move.
absl::StatusOr<bool> QuantizedFusion::FuseMove(NodeIndex i) {
  const Node node = graph_.nodes[i];
  const std::optional<NodeIndex> reader = OnlyReader(node.output);
  if (!reader || !std::holds_alternative<Quantize>(graph_.nodes[*reader].operation)) return false;
  const Node& quantize = graph_.nodes[*reader];
  SLUICE_ASSIGN_OR_RETURN(const auto x, Behind(*node.inputs[0]));
  SLUICE_ASSIGN_OR_RETURN(const auto y, Read(quantize, quantize.output, 0));
  if (!x || !y || !IsWhole(*x) || !IsWhole(*y) || x->scales != y->scales || x->zeros != y->zeros ||
      graph_.value(x->bytes).type != graph_.value(y->bytes).type) {
    return false;
  }
  Node moved = node;
  moved.inputs[0] = x->bytes;
  moved.output = quantize.output;
  instead_[*reader] = {std::move(moved)};
  return true;
}

absl::StatusOr<std::size_t> QuantizedFusion::Run() {
  std::size_t applied = 0;
  for (NodeIndex i = 0; i < graph_.nodes.size(); ++i) {
    absl::StatusOr<bool> fused = false;
    if (std::holds_alternative<Convolution>(graph_.nodes[i].operation)) fused = FuseConvolution(i);
    if (std::holds_alternative<MatMul>(graph_.nodes[i].operation)) fused = FuseProduct(i);
    if (OnlyMoves(graph_.nodes[i])) fused = FuseMove(i);
    SLUICE_RETURN_IF_ERROR(fused.status());
    applied += *fused ? 1 : 0;
  }
  if (applied == 0) return applied;
  std::vector<Node> nodes;
  nodes.reserve(graph_.nodes.size() + 2 * instead_.size());
  for (NodeIndex i = 0; i < graph_.nodes.size(); ++i) {
    const auto replaced = instead_.find(i);
    if (replaced == instead_.end()) {
      nodes.push_back(std::move(graph_.nodes[i]));
    } else {
      for (Node& node : replaced->second) nodes.push_back(std::move(node));
    }
  }
  graph_.nodes = std::move(nodes);
  DropUnused(graph_);
  return applied;
}

}  // namespace

absl::Status FuseQuantized(Graph& graph, std::size_t& applied) {
  SLUICE_ASSIGN_OR_RETURN(const std::size_t fused, QuantizedFusion(graph).Run());
  applied += fused;
  return absl::OkStatus();
}

}  // namespace sluice
