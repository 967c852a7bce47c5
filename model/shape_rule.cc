#include "model/shape_rule.h"

#include <algorithm>
#include <variant>

#include "absl/strings/str_format.h"
#include "base/status_macros.h"
#include "model/host_tensor.h"
#include "model/matrix_view.h"
#include "model/operation_rules.h"

namespace sluice {
namespace {

using rules::Arity;
using rules::Inputs;
using rules::MaybeShape;
using rules::Wrong;

// Attributes beyond this are nonsense, and sums of a few of them cannot overflow.
constexpr std::int64_t kMaxAttribute = std::int64_t{1} << 40;

bool Sane(std::span<const std::int64_t> numbers) {
  return std::ranges::all_of(
      numbers, [](std::int64_t n) { return n > -kMaxAttribute && n < kMaxAttribute; });
}

bool Positive(std::span<const std::int64_t> numbers) {
  return Sane(numbers) && std::ranges::all_of(numbers, [](std::int64_t n) { return n > 0; });
}

absl::Status NeedRank(const Value& x, std::size_t least) {
  if (x.shape.size() >= least) return absl::OkStatus();
  return Wrong("input has shape %s, want at least %u dimensions", FormatShape(x.shape), least);
}

// A vector of `count` elements, or absent.
absl::Status NeedVector(Inputs inputs, std::size_t i, std::int64_t count) {
  if (i >= inputs.size() || inputs[i] == nullptr) return absl::OkStatus();
  if (inputs[i]->shape == Shape{count}) return absl::OkStatus();
  return Wrong("input %u has shape %s, want [%d]", i, FormatShape(inputs[i]->shape), count);
}

struct Windows {
  const std::vector<std::int64_t>&kernel, &strides, &dilations, &pads_begin, &pads_end;
};

absl::Status CheckWindows(const Windows& w, std::size_t spatial) {
  for (const auto* entry : {&w.kernel, &w.strides, &w.dilations, &w.pads_begin, &w.pads_end}) {
    if (entry->size() != spatial) {
      return Wrong("got %u window attributes, want one for each of %u spatial dimensions",
                   entry->size(), spatial);
    }
  }
  if (!Positive(w.kernel) || !Positive(w.strides) || !Positive(w.dilations) ||
      !Sane(w.pads_begin) || !Sane(w.pads_end)) {
    return Wrong("got kernel %s, strides %s, dilations %s, pads %s and %s, want positive ones",
                 FormatShape(w.kernel), FormatShape(w.strides), FormatShape(w.dilations),
                 FormatShape(w.pads_begin), FormatShape(w.pads_end));
  }
  return absl::OkStatus();
}

absl::StatusOr<Shape> SlideWindows(const Windows& w, const Shape& x, std::int64_t channels) {
  Shape out = {x[0], channels};
  for (std::size_t d = 0; d + 2 < x.size(); ++d) {
    const std::optional<std::int64_t> count = WindowCount(
        {x[d + 2], w.kernel[d], w.strides[d], w.dilations[d], w.pads_begin[d], w.pads_end[d]});
    if (!count) {
      return Wrong("kernel %s with dilations %s does not fit input %s with pads %s and %s",
                   FormatShape(w.kernel), FormatShape(w.dilations), FormatShape(x),
                   FormatShape(w.pads_begin), FormatShape(w.pads_end));
    }
    out.push_back(*count);
  }
  return out;
}

struct ShapeOf {
  Inputs inputs;
  const Shape& x() const { return inputs[0]->shape; }

  template <typename Op>
  MaybeShape operator()(const Op& op) const {
    return rules::ShapeOf(op, inputs);
  }

  MaybeShape operator()(const Unary&) const { return x(); }
  MaybeShape operator()(const Cast&) const { return x(); }
  MaybeShape operator()(const Reshape&) const { return std::nullopt; }
  MaybeShape operator()(const Slice&) const { return std::nullopt; }
  MaybeShape operator()(const Resize&) const { return std::nullopt; }
  MaybeShape operator()(const Reduce&) const { return std::nullopt; }
  MaybeShape operator()(const Expand&) const { return std::nullopt; }

  MaybeShape operator()(const Binary&) const {
    std::optional<Shape> shape = BroadcastShape(x(), inputs[1]->shape);
    if (shape) return shape;
    return Wrong("shapes %s and %s do not broadcast", FormatShape(x()),
                 FormatShape(inputs[1]->shape));
  }

  MaybeShape operator()(const Convolution& op) const {
    SLUICE_RETURN_IF_ERROR(NeedRank(*inputs[0], 3));
    const Shape& w = inputs[1]->shape;
    SLUICE_RETURN_IF_ERROR(CheckWindows(
        {op.kernel, op.strides, op.dilations, op.pads_begin, op.pads_end}, x().size() - 2));
    if (w.size() != x().size() || !std::ranges::equal(op.kernel, std::span(w).subspan(2))) {
      return Wrong("weights have shape %s, want kernel %s and %u dimensions", FormatShape(w),
                   FormatShape(op.kernel), x().size());
    }
    if (op.groups < 1 || op.groups >= kMaxAttribute || w[1] < 1 || w[1] >= kMaxAttribute) {
      return Wrong("got %d groups and weights %s, want both positive", op.groups, FormatShape(w));
    }
    const std::int64_t w_channels = op.transposed ? w[0] : w[1] * op.groups;
    const std::int64_t channels = op.transposed ? w[1] * op.groups : w[0];
    if (w_channels != x()[1] || channels < 1 || channels % op.groups != 0 ||
        w_channels % op.groups != 0) {
      return Wrong("input %s with weights %s in %d groups: channels do not agree", FormatShape(x()),
                   FormatShape(w), op.groups);
    }
    SLUICE_RETURN_IF_ERROR(NeedVector(inputs, 2, channels));
    SLUICE_RETURN_IF_ERROR(NeedVector(inputs, 3, channels));
    if (op.transposed) return Transposed(op, channels);
    SLUICE_ASSIGN_OR_RETURN(
        Shape shape, SlideWindows({op.kernel, op.strides, op.dilations, op.pads_begin, op.pads_end},
                                  x(), channels));
    return shape;
  }

  MaybeShape Transposed(const Convolution& op, std::int64_t channels) const {
    Shape out = {x()[0], channels};
    for (std::size_t d = 0; d < op.kernel.size(); ++d) {
      std::int64_t size = 0, span = 0;
      if (__builtin_mul_overflow(x()[d + 2] - 1, op.strides[d], &size) ||
          __builtin_mul_overflow(op.kernel[d] - 1, op.dilations[d], &span) ||
          __builtin_add_overflow(size, span, &size) ||
          (size += 1 - op.pads_begin[d] - op.pads_end[d]) < 1) {
        return Wrong("transposed convolution of %s has no output in dimension %u", FormatShape(x()),
                     d + 2);
      }
      out.push_back(size);
    }
    return out;
  }

  MaybeShape operator()(const FullyConnected& op) const {
    SLUICE_RETURN_IF_ERROR(NeedRank(*inputs[0], 1));
    const Shape& w = inputs[1]->shape;
    if (w.size() != 2) return Wrong("weights have shape %s, want 2 dimensions", FormatShape(w));
    const std::int64_t depth = op.transposed_b ? w[1] : w[0];
    const std::int64_t columns = op.transposed_b ? w[0] : w[1];
    if (x().back() != depth) {
      return Wrong("input %s has %d columns, weights %s want %d", FormatShape(x()), x().back(),
                   FormatShape(w), depth);
    }
    SLUICE_RETURN_IF_ERROR(NeedVector(inputs, 2, columns));
    SLUICE_RETURN_IF_ERROR(NeedVector(inputs, 3, columns));
    Shape out = x();
    out.back() = columns;
    return out;
  }

  MaybeShape operator()(const MatMul& op) const {
    SLUICE_RETURN_IF_ERROR(NeedRank(*inputs[0], 2));
    SLUICE_RETURN_IF_ERROR(NeedRank(*inputs[1], 2));
    if (!IsPermutation(op.perm_a, x().size()) ||
        !IsPermutation(op.perm_b, inputs[1]->shape.size())) {
      return Wrong("perms %s and %s do not permute the dimensions of %s and %s",
                   FormatShape(op.perm_a), FormatShape(op.perm_b), FormatShape(x()),
                   FormatShape(inputs[1]->shape));
    }
    const Shape a = ViewA(op, x()).shape, b = ViewB(op, inputs[1]->shape).shape;
    std::optional<Shape> out =
        BroadcastShape(std::span(a).first(a.size() - 2), std::span(b).first(b.size() - 2));
    if (!out || a.back() != b[b.size() - 2]) {
      return Wrong("matrices %s and %s do not multiply", FormatShape(a), FormatShape(b));
    }
    out->push_back(a[a.size() - 2]);
    out->push_back(b.back());
    const bool columns_last =
        op.perm_y.empty() || op.perm_y.back() == static_cast<std::int64_t>(out->size()) - 1;
    if (!IsPermutation(op.perm_y, out->size()) || !columns_last) {
      return Wrong("perm %s does not permute the rows and batches of %s", FormatShape(op.perm_y),
                   FormatShape(*out));
    }
    return op.perm_y.empty() ? *out : ViewOperand(*out, op.perm_y, false).shape;
  }

  MaybeShape operator()(const Pool& op) const {
    SLUICE_RETURN_IF_ERROR(NeedRank(*inputs[0], 3));
    const Windows w = {op.kernel, op.strides, op.dilations, op.pads_begin, op.pads_end};
    SLUICE_RETURN_IF_ERROR(CheckWindows(w, x().size() - 2));
    SLUICE_ASSIGN_OR_RETURN(Shape shape, SlideWindows(w, x(), x()[1]));
    return shape;
  }

  MaybeShape operator()(const ChannelAffine&) const {
    SLUICE_RETURN_IF_ERROR(NeedRank(*inputs[0], 2));
    SLUICE_RETURN_IF_ERROR(NeedVector(inputs, 1, x()[1]));
    SLUICE_RETURN_IF_ERROR(NeedVector(inputs, 2, x()[1]));
    return x();
  }

  MaybeShape operator()(const Softmax& op) const {
    SLUICE_RETURN_IF_ERROR(rules::CheckAxis(op.axis, x()));
    return x();
  }

  MaybeShape operator()(const Concat& op) const {
    SLUICE_RETURN_IF_ERROR(rules::CheckAxis(op.axis, x()));
    const auto axis = static_cast<std::size_t>(op.axis);
    Shape out = x();
    for (std::size_t i = 1; i < inputs.size(); ++i) {
      Shape part = inputs[i]->shape;
      const std::int64_t length = axis < part.size() ? part[axis] : 0;
      if (axis < part.size()) part[axis] = x()[axis];
      if (part != x() || __builtin_add_overflow(out[axis], length, &out[axis])) {
        return Wrong("part %u has shape %s, want that of %s but for dimension %d", i,
                     FormatShape(inputs[i]->shape), FormatShape(x()), op.axis);
      }
    }
    return out;
  }

  MaybeShape operator()(const Transpose& op) const {
    std::vector<bool> seen(x().size(), false);
    Shape out;
    for (const std::int64_t from : op.perm) {
      const auto d = static_cast<std::size_t>(from);
      if (from < 0 || d >= x().size() || seen[d]) break;
      seen[d] = true;
      out.push_back(x()[d]);
    }
    if (out.size() == x().size() && op.perm.size() == x().size()) return out;
    return Wrong("perm %s does not permute the dimensions of %s", FormatShape(op.perm),
                 FormatShape(x()));
  }

  MaybeShape operator()(const Pad& op) const {
    if (op.begin.size() != x().size() || op.end.size() != x().size()) {
      return Wrong("pads %s and %s, want one for each dimension of %s", FormatShape(op.begin),
                   FormatShape(op.end), FormatShape(x()));
    }
    Shape out = x();
    for (std::size_t d = 0; d < out.size(); ++d) {
      const std::int64_t most = std::max(op.begin[d], op.end[d]);
      const bool reaches = op.mode == Pad::Mode::kConstant || most == 0 ||
                           (op.mode == Pad::Mode::kReflect ? most < out[d] : out[d] > 0);
      if (op.begin[d] < 0 || op.end[d] < 0 || most >= kMaxAttribute || !reaches) {
        return Wrong("pads %s and %s are not possible for %s", FormatShape(op.begin),
                     FormatShape(op.end), FormatShape(x()));
      }
      if (__builtin_add_overflow(out[d], op.begin[d] + op.end[d], &out[d])) {
        return Wrong("dimension %u overflows", d);
      }
    }
    return out;
  }

  MaybeShape operator()(const Gather& op) const {
    SLUICE_RETURN_IF_ERROR(rules::CheckAxis(op.axis, x()));
    SLUICE_RETURN_IF_ERROR(rules::CheckIndexType(*inputs[1]));
    Shape out(x().begin(), x().begin() + op.axis);
    out.insert(out.end(), inputs[1]->shape.begin(), inputs[1]->shape.end());
    out.insert(out.end(), x().begin() + op.axis + 1, x().end());
    return out;
  }

  MaybeShape operator()(const Lrn& op) const {
    SLUICE_RETURN_IF_ERROR(NeedRank(*inputs[0], 3));
    if (op.size < 1) return Wrong("got size %d, want a positive one", op.size);
    return x();
  }
};

// What a node's output must be where its operation alone does not say.
struct ChoiceCheck {
  Inputs inputs;
  const Value& output;
  const Shape& x = inputs[0]->shape;
  const Shape& y = output.shape;

  template <typename Op>
  absl::Status operator()(const Op& op) const {
    return rules::CheckChoice(op, inputs, output);
  }

  absl::Status operator()(const Reshape&) const {
    if (ElementCount(x) == ElementCount(y)) return absl::OkStatus();
    return Disagree("reshape");
  }

  absl::Status operator()(const Slice& op) const {
    if (y.size() != x.size() || op.starts.size() != x.size() || op.steps.size() != x.size()) {
      return Disagree("slice");
    }
    for (std::size_t d = 0; d < x.size(); ++d) {
      if (y[d] == 0) continue;
      std::int64_t last = 0;
      if (op.steps[d] == 0 || op.starts[d] < 0 || op.starts[d] >= x[d] ||
          __builtin_mul_overflow(y[d] - 1, op.steps[d], &last) ||
          __builtin_add_overflow(op.starts[d], last, &last) || last < 0 || last >= x[d]) {
        return Wrong("slice of %s from %s by %s to %s leaves the input", FormatShape(x),
                     FormatShape(op.starts), FormatShape(op.steps), FormatShape(y));
      }
    }
    return absl::OkStatus();
  }

  absl::Status operator()(const Resize& op) const {
    const bool scales = std::ranges::all_of(op.scales, [](float s) { return s > 0 && s < 1e9f; });
    const bool crops = op.coordinates == Resize::Coordinates::kTfCropAndResize;
    const std::size_t parts = crops ? x.size() : 0;
    if (y.size() != x.size() || op.scales.size() != x.size() || !scales || ElementCount(x) == 0 ||
        op.crop_begin.size() != parts || op.crop_end.size() != parts) {
      return Disagree("resize");
    }
    return absl::OkStatus();
  }

  absl::Status operator()(const Reduce& op) const {
    Shape kept = x, dropped;
    for (std::size_t d = 0, i = 0; d < x.size(); ++d) {
      if (i < op.axes.size() && op.axes[i] == static_cast<std::int64_t>(d)) {
        kept[d] = 1;
        ++i;
      } else {
        dropped.push_back(x[d]);
      }
    }
    const bool ascending =
        std::ranges::is_sorted(op.axes) && std::ranges::adjacent_find(op.axes) == op.axes.end() &&
        (op.axes.empty() || (op.axes.front() >= 0 && op.axes.back() < std::ssize(x)));
    if (ascending && (y == kept || y == dropped)) return absl::OkStatus();
    return Wrong("reduction of %s over axes %s to %s", FormatShape(x), FormatShape(op.axes),
                 FormatShape(y));
  }

  absl::Status operator()(const Expand&) const {
    const std::optional<Shape> both = BroadcastShape(x, y);
    if (both && *both == y) return absl::OkStatus();
    return Disagree("expansion");
  }

  absl::Status Disagree(const char* what) const {
    return Wrong("%s of %s to %s is not possible", what, FormatShape(x), FormatShape(y));
  }
};

struct ArityCase {
  template <typename Op>
  Arity operator()(const Op& op) const {
    return rules::ArityOf(op);
  }
  Arity operator()(const Convolution&) const { return {2, 7}; }
  Arity operator()(const FullyConnected&) const { return {2, 4}; }
  Arity operator()(const ChannelAffine&) const { return {3, 3}; }
  Arity operator()(const Binary&) const { return {2, 2}; }
  Arity operator()(const MatMul&) const { return {2, 4}; }
  Arity operator()(const Gather&) const { return {2, 2}; }
  Arity operator()(const Concat&) const { return {1, SIZE_MAX}; }
};

absl::Status CheckEpilogues(const Node& node, Inputs inputs, const Value& y) {
  const std::span<const Epilogue> epilogues = EpiloguesOf(node.operation);
  for (const Epilogue& epilogue : epilogues) {
    if (epilogue.kind == Epilogue::Kind::kUnary) continue;
    if (epilogue.input < FixedInputs(node.operation) || epilogue.input >= inputs.size() ||
        inputs[epilogue.input] == nullptr) {
      return Wrong("an epilogue adds input %u of %u, which is not one of its own", epilogue.input,
                   inputs.size());
    }
    const Value& addend = *inputs[epilogue.input];
    if (addend.shape != y.shape || addend.type != y.type) {
      return Wrong("an epilogue adds %s to %s", FormatShape(addend.shape), FormatShape(y.shape));
    }
  }
  return absl::OkStatus();
}

absl::Status CheckArity(const Operation& operation, Inputs inputs) {
  const Arity arity = std::visit(ArityCase{}, operation);
  std::size_t most = arity.most;
  for (const Epilogue& epilogue : EpiloguesOf(operation)) {
    if (epilogue.kind == Epilogue::Kind::kAdd) {
      most = std::max<std::size_t>(most, std::size_t{epilogue.input} + 1);
    }
  }
  if (inputs.size() < arity.least || inputs.size() > most) {
    return Wrong("got %u inputs, want %u to %u", inputs.size(), arity.least, most);
  }
  const std::size_t needed =
      std::holds_alternative<Concat>(operation) ? inputs.size() : arity.least;
  for (std::size_t i = 0; i < needed; ++i) {
    if (inputs[i] == nullptr) return Wrong("input %u is absent", i);
  }
  return absl::OkStatus();
}

// Constants where the contract marks inputs with "c:".
absl::Status CheckConstants(const Operation& operation, Inputs inputs) {
  if (EpiloguesOf(operation).empty() && !std::holds_alternative<Convolution>(operation) &&
      !std::holds_alternative<FullyConnected>(operation) &&
      !std::holds_alternative<ChannelAffine>(operation)) {
    return absl::OkStatus();
  }
  for (std::size_t i = 1; i < std::min(inputs.size(), FixedInputs(operation)); ++i) {
    // Weights and bias of a convolution without a tail may be computed, and the factor of bytes.
    if ((i < 3 || !IsFloat(inputs[0]->type)) && std::holds_alternative<Convolution>(operation) &&
        EpiloguesOf(operation).empty()) {
      continue;
    }
    if (inputs[i] != nullptr && inputs[i]->constant == nullptr) {
      return Wrong("input %u (\"%s\") is computed, want a constant", i, inputs[i]->name);
    }
  }
  return absl::OkStatus();
}

struct TypeCheck {
  Inputs inputs;
  const Value& y;

  template <typename Op>
  absl::Status operator()(const Op& op) const {
    return rules::CheckTypes(op, inputs, y);
  }
  absl::Status operator()(const Cast&) const { return absl::OkStatus(); }
  absl::Status operator()(const Gather&) const { return rules::CheckOneType(inputs, y, 0, 1); }
};

}  // namespace

std::optional<std::int64_t> WindowCount(const WindowDim& dim) {
  std::int64_t span = 0;
  if (__builtin_mul_overflow(dim.kernel - 1, dim.dilation, &span)) return std::nullopt;
  std::int64_t room = 0;
  if (__builtin_add_overflow(dim.size, dim.pad_begin + dim.pad_end, &room) ||
      __builtin_sub_overflow(room, span, &room) || room < 1) {
    return std::nullopt;
  }
  return (room - 1) / dim.stride + 1;
}

std::optional<Shape> BroadcastShape(std::span<const std::int64_t> a,
                                    std::span<const std::int64_t> b) {
  if (a.size() < b.size()) std::swap(a, b);
  Shape out(a.begin(), a.end());
  const std::size_t lead = a.size() - b.size();
  for (std::size_t d = 0; d < b.size(); ++d) {
    std::int64_t& dim = out[lead + d];
    if (dim == 1) {
      dim = b[d];
    } else if (b[d] != 1 && b[d] != dim) {
      return std::nullopt;
    }
  }
  return out;
}

absl::StatusOr<std::optional<Shape>> OutputShape(const Operation& operation, Inputs inputs) {
  SLUICE_RETURN_IF_ERROR(CheckArity(operation, inputs));
  return std::visit(ShapeOf{inputs}, operation);
}

absl::Status CheckShapes(const Graph& graph, const Node& node) {
  std::vector<const Value*> inputs;
  for (const std::optional<ValueId>& input : node.inputs) {
    inputs.push_back(input ? &graph.value(*input) : nullptr);
  }
  const Value& y = graph.value(node.output);
  SLUICE_ASSIGN_OR_RETURN(const std::optional<Shape> shape, OutputShape(node.operation, inputs));
  if (shape && *shape != y.shape) {
    return Wrong("output has shape %s, want %s", FormatShape(y.shape), FormatShape(*shape));
  }
  SLUICE_RETURN_IF_ERROR(std::visit(ChoiceCheck{inputs, y}, node.operation));
  SLUICE_RETURN_IF_ERROR(CheckConstants(node.operation, inputs));
  SLUICE_RETURN_IF_ERROR(std::visit(TypeCheck{inputs, y}, node.operation));
  return CheckEpilogues(node, inputs, y);
}

std::span<const Epilogue> EpiloguesOf(const Operation& operation) {
  if (const auto* op = std::get_if<Convolution>(&operation)) return op->epilogues;
  if (const auto* op = std::get_if<FullyConnected>(&operation)) return op->epilogues;
  if (const auto* op = std::get_if<ChannelAffine>(&operation)) return op->epilogues;
  return {};
}

std::size_t FixedInputs(const Operation& operation) {
  return std::holds_alternative<ChannelAffine>(operation) ? 3 : 4;
}

}  // namespace sluice
