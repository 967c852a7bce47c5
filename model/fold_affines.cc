#include "model/fold_affines.h"

#include <algorithm>
#include <utility>

#include "base/status_macros.h"
#include "model/host_tensor.h"
#include "model/rewrite.h"
#include "model/shape_rule.h"

namespace sluice {
namespace {

bool Fits(const Value& value, std::int64_t channels) {
  return value.type == DataType::kFloat32 &&
         SizeOf(value.type) * static_cast<std::uint64_t>(channels) <= kMaxVector;
}

// The dimension of `shape` along which a constant varies; nullopt when there are several or the
// result would be larger than `shape`.
std::optional<std::size_t> VaryingAxis(const Shape& constant, const Shape& shape) {
  if (constant.size() > shape.size()) return std::nullopt;
  const std::size_t lead = shape.size() - constant.size();
  std::optional<std::size_t> axis;
  for (std::size_t d = 0; d < constant.size(); ++d) {
    if (constant[d] == 1) continue;
    if (axis || constant[d] != shape[lead + d]) return std::nullopt;
    axis = lead + d;
  }
  return axis ? axis : std::optional<std::size_t>(0);
}

absl::StatusOr<std::optional<Affine>> FromBinary(const GraphEditor& editor, std::size_t node,
                                                 Binary::Kind kind) {
  const bool constant_first = editor.input_value(node, 0).constant != nullptr;
  const Value& constant = editor.input_value(node, constant_first ? 0 : 1);
  const Value& x = editor.input_value(node, constant_first ? 1 : 0);
  const std::optional<std::size_t> axis = VaryingAxis(constant.shape, x.shape);
  const std::uint64_t count = ElementCount(constant.shape);
  if (constant.constant == nullptr || x.constant != nullptr || !axis || count == 0 ||
      !Fits(constant, static_cast<std::int64_t>(std::min<std::uint64_t>(count, 1u << 30)))) {
    return std::nullopt;
  }
  if ((kind == Binary::Kind::kDivide && constant_first) ||
      (kind != Binary::Kind::kAdd && kind != Binary::Kind::kSubtract &&
       kind != Binary::Kind::kMultiply && kind != Binary::Kind::kDivide)) {
    return std::nullopt;
  }
  SLUICE_ASSIGN_OR_RETURN(std::vector<float> c, ReadFloats(constant));
  Affine affine{.x = *editor.node(node).inputs[constant_first ? 1 : 0],
                .axis = *axis,
                .scale = std::vector<float>(c.size(), 1),
                .shift = std::vector<float>(c.size(), 0)};
  switch (kind) {
    case Binary::Kind::kMultiply:
      affine.scale = std::move(c);
      break;
    case Binary::Kind::kDivide:
      std::ranges::transform(c, affine.scale.begin(), [](float v) { return 1 / v; });
      break;
    case Binary::Kind::kAdd:
      affine.shift = std::move(c);
      break;
    default:
      if (constant_first) {
        std::ranges::fill(affine.scale, -1.0f);
      } else {
        for (float& v : c) v = -v;
      }
      affine.shift = std::move(c);
  }
  return affine;
}

// Where a convolution or product has its output channels; nullopt for other operations.
std::optional<std::size_t> ChannelAxis(const GraphEditor& editor, std::size_t node) {
  const Operation& operation = editor.node(node).operation;
  if (std::holds_alternative<Convolution>(operation)) {
    // Of bytes, bias and factor are in other units.
    if (!IsFloat(editor.input_value(node, 0).type)) return std::nullopt;
    return 1;
  }
  if (std::holds_alternative<FullyConnected>(operation)) {
    return editor.value(editor.node(node).output).shape.size() - 1;
  }
  if (std::holds_alternative<ChannelAffine>(operation)) return 1;
  return std::nullopt;
}

ValueId AddVector(GraphEditor& editor, const std::string& name, DataType type,
                  const std::vector<float>& elements) {
  return editor.Add({.name = name,
                     .type = type,
                     .shape = {std::ssize(elements)},
                     .constant = InlineConstant(PackFloats(type, elements))});
}

// The vector at input `i`; `otherwise` for each channel when it is absent.
absl::StatusOr<std::vector<float>> VectorAt(const GraphEditor& editor, std::size_t node,
                                            std::size_t i, std::int64_t channels, float otherwise) {
  const auto& inputs = editor.node(node).inputs;
  if (i < inputs.size() && inputs[i]) return ReadFloats(editor.value(*inputs[i]));
  return std::vector<float>(static_cast<std::size_t>(channels), otherwise);
}

bool AllAre(const std::vector<float>& elements, float value) {
  return std::ranges::all_of(elements, [&](float v) { return v == value; });
}

// Whether weights, scale and bias of a convolution or product are all constant.
bool HasConstantParameters(const GraphEditor& editor, std::size_t node) {
  const auto& inputs = editor.node(node).inputs;
  const std::size_t end = std::min(inputs.size(), FixedInputs(editor.node(node).operation));
  for (std::size_t i = 1; i < end; ++i) {
    if (inputs[i] && editor.value(*inputs[i]).constant == nullptr) return false;
  }
  return true;
}

// Multiplies an affine into what `node` computes: a convolution's or product's scale and bias, or
// another affine's.
absl::Status Absorb(GraphEditor& editor, std::size_t node, const Affine& affine) {
  const bool is_affine = std::holds_alternative<ChannelAffine>(editor.node(node).operation);
  const std::size_t scale_at = is_affine ? 1 : 3, shift_at = 2;
  const Value& y = editor.value(editor.node(node).output);
  const std::int64_t channels = y.shape[*ChannelAxis(editor, node)];
  const DataType type = y.type;
  const std::string name = y.name;
  SLUICE_ASSIGN_OR_RETURN(std::vector<float> scale, VectorAt(editor, node, scale_at, channels, 1));
  SLUICE_ASSIGN_OR_RETURN(std::vector<float> shift, VectorAt(editor, node, shift_at, channels, 0));
  for (std::size_t c = 0; c < scale.size(); ++c) {
    const float factor = affine.scale[affine.uniform() ? 0 : c];
    scale[c] *= factor;
    shift[c] = shift[c] * factor + affine.shift[affine.uniform() ? 0 : c];
  }
  std::vector<std::optional<ValueId>> inputs = editor.node(node).inputs;
  inputs.resize(std::max(inputs.size(), is_affine ? std::size_t{3} : std::size_t{4}));
  if (is_affine || inputs[scale_at] || !AllAre(scale, 1)) {
    inputs[scale_at] = AddVector(editor, name + "#scale", type, scale);
  }
  if (is_affine || inputs[shift_at] || !AllAre(shift, 0)) {
    inputs[shift_at] = AddVector(editor, name + "#bias", type, shift);
  }
  editor.SetInputs(node, std::move(inputs));
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::optional<Affine>> AsAffine(const GraphEditor& editor, std::size_t node) {
  const Operation& operation = editor.node(node).operation;
  // Doubles would lose what they are there for.
  const DataType type = editor.value(editor.node(node).output).type;
  if (!IsFloat(type) || type == DataType::kFloat64) return std::nullopt;
  if (const auto* unary = std::get_if<Unary>(&operation)) {
    if (unary->kind != Unary::Kind::kLinear) return std::nullopt;
    return Affine{.x = *editor.node(node).inputs[0],
                  .axis = 0,
                  .scale = {unary->alpha},
                  .shift = {unary->beta}};
  }
  if (const auto* binary = std::get_if<Binary>(&operation)) {
    return FromBinary(editor, node, binary->kind);
  }
  const auto* channel = std::get_if<ChannelAffine>(&operation);
  if (channel == nullptr || !channel->epilogues.empty() ||
      !Fits(editor.input_value(node, 1), editor.input_value(node, 1).shape[0])) {
    return std::nullopt;
  }
  Affine affine{.x = *editor.node(node).inputs[0], .axis = 1, .scale = {}, .shift = {}};
  SLUICE_ASSIGN_OR_RETURN(affine.scale, ReadFloats(editor.input_value(node, 1)));
  SLUICE_ASSIGN_OR_RETURN(affine.shift, ReadFloats(editor.input_value(node, 2)));
  return affine;
}

absl::Status FoldChannelAffines(Graph& graph, std::size_t& applied) {
  GraphEditor editor(graph);
  for (std::size_t i = 0; i < editor.node_count(); ++i) {
    if (editor.removed(i)) continue;
    SLUICE_ASSIGN_OR_RETURN(const std::optional<Affine> affine, AsAffine(editor, i));
    if (!affine) continue;
    const std::optional<std::size_t> producer = editor.PrivateProducer(affine->x);
    if (!producer || !EpiloguesOf(editor.node(*producer).operation).empty()) continue;
    const std::optional<std::size_t> axis = ChannelAxis(editor, *producer);
    if (!axis || !HasConstantParameters(editor, *producer) ||
        (!affine->uniform() && *axis != affine->axis))
      continue;
    const Value& y = editor.value(affine->x);
    if (!Fits(y, y.shape[*axis])) continue;
    SLUICE_RETURN_IF_ERROR(Absorb(editor, *producer, *affine));
    editor.TakeOutput(*producer, i);
    ++applied;
  }
  return absl::OkStatus();
}

}  // namespace sluice
