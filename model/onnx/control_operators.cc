// If, Loop and Scan. Graphs here have no control flow: a branch that is known is taken, one that is
// not is computed beside the other and selected, and bodies are unrolled.

#include <algorithm>
#include <utility>

#include "absl/strings/str_format.h"
#include "base/status_macros.h"
#include "model/host_tensor.h"
#include "model/onnx/onnx_node.h"

namespace sluice {
namespace {

// Most iterations of a loop that may stop at any of them: all of them are computed.
constexpr std::int64_t kMaxMasked = 1024;

using Values = std::vector<ValueId>;

// Gives the node these outputs, each a value of its own; returns the first.
MaybeValue SetOutputs(OnnxNode& node, const Values& outputs) {
  if (outputs.size() < node.output_count() || outputs.empty()) {
    return absl::InvalidArgumentError(
        absl::StrFormat("has %d outputs, its graph gives %d", node.output_count(), outputs.size()));
  }
  ValueId first = outputs[0];
  for (std::size_t i = 0; i < node.output_count(); ++i) {
    ValueId id = outputs[i];
    if (std::find(outputs.begin(), outputs.begin() + static_cast<std::ptrdiff_t>(i), id) !=
        outputs.begin() + static_cast<std::ptrdiff_t>(i)) {
      SLUICE_ASSIGN_OR_RETURN(id, node.EmitReshape(id, node.graph().value(id).shape));
    }
    if (i == 0) first = id;
    if (i > 0) node.SetOutput(i, id);
  }
  return first;
}

// condition ? a : b. Fails: UNIMPLEMENTED, they differ in type or shape.
MaybeValue EmitSelect(OnnxNode& node, ValueId condition, ValueId a, ValueId b) {
  // Copies: what is emitted below moves the graph's values.
  const Value on = node.graph().value(a), off = node.graph().value(b);
  if (on.type != off.type || on.shape != off.shape) {
    return absl::UnimplementedError(
        absl::StrFormat("its condition is computed, and what it chooses between is %s %s and %s %s",
                        ProtocolName(on.type), FormatShape(on.shape), ProtocolName(off.type),
                        FormatShape(off.shape)));
  }
  SLUICE_ASSIGN_OR_RETURN(const ValueId scalar, node.EmitReshape(condition, {}));
  return node.Emit(Select{}, {scalar, a, b}, std::nullopt, on.type);
}

// A branch that may not be the one that a request takes.
absl::StatusOr<Values> InlineEither(OnnxNode& node, std::string_view branch) {
  absl::StatusOr<Values> outputs = node.Inline(branch, {});
  if (outputs.ok() || outputs.status().message().empty()) return outputs;
  const absl::Status computed = node.NeedConstant(0);
  return absl::Status(outputs.status().code(),
                      absl::StrFormat("%s; %s: %s", std::string(computed.message()), branch,
                                      std::string(outputs.status().message())));
}

MaybeValue If(OnnxNode& node) {
  const ValueId condition = *node.input(0);
  SLUICE_ASSIGN_OR_RETURN(const std::optional<bool> truth, node.Truth(condition));
  if (truth) {
    SLUICE_ASSIGN_OR_RETURN(const Values outputs,
                            node.Inline(*truth ? "then_branch" : "else_branch", {}));
    return SetOutputs(node, outputs);
  }
  SLUICE_ASSIGN_OR_RETURN(const Values on, InlineEither(node, "then_branch"));
  SLUICE_ASSIGN_OR_RETURN(const Values off, InlineEither(node, "else_branch"));
  if (on.size() != off.size()) {
    return absl::InvalidArgumentError(
        absl::StrFormat("its branches have %d and %d outputs", on.size(), off.size()));
  }
  Values chosen;
  chosen.reserve(on.size());
  for (std::size_t i = 0; i < on.size(); ++i) {
    SLUICE_ASSIGN_OR_RETURN(const ValueId id, EmitSelect(node, condition, on[i], off[i]));
    chosen.push_back(id);
  }
  return SetOutputs(node, chosen);
}

// Inputs [begin, end), all of which must be there.
absl::StatusOr<Values> InputsFrom(const OnnxNode& node, std::size_t begin, std::size_t end) {
  Values inputs;
  for (std::size_t i = begin; i < end; ++i) {
    if (!node.input(i)) return absl::InvalidArgumentError(absl::StrFormat("input %d is absent", i));
    inputs.push_back(*node.input(i));
  }
  return inputs;
}

// Parts of one shape side by side along a new dimension. Requires: a part.
MaybeValue EmitStack(OnnxNode& node, const Values& parts, std::int64_t axis, bool reverse) {
  const Shape shape = node.graph().value(parts[0]).shape;
  SLUICE_ASSIGN_OR_RETURN(const std::int64_t along, NormalAxis(axis, shape.size() + 1));
  Shape widened = shape;
  widened.insert(widened.begin() + along, 1);
  std::vector<std::optional<ValueId>> rows;
  rows.reserve(parts.size());
  for (const ValueId part : parts) {
    if (node.graph().value(part).shape != shape) {
      return absl::UnimplementedError(
          absl::StrFormat("what an iteration gives has shape %s, of another %s",
                          FormatShape(node.graph().value(part).shape), FormatShape(shape)));
    }
    SLUICE_ASSIGN_OR_RETURN(const ValueId row, node.EmitReshape(part, widened));
    rows.emplace_back(row);
  }
  if (reverse) std::ranges::reverse(rows);
  return node.Emit(Concat{.axis = along}, std::move(rows));
}

// What no iteration gives: like a part, but none of it.
ValueId AddNothing(OnnxNode& node, ValueId part) {
  const Value& like = node.graph().value(part);
  Shape shape = like.shape;
  shape.insert(shape.begin(), 0);
  return node.AddConstant(like.type, std::move(shape), InlineConstant({}));
}

// A loop as it is unrolled.
class Unrolling {
 public:
  Unrolling(OnnxNode& node, Values states) : node_(node), states_(std::move(states)) {}

  // `limit`: how often at most; nullopt where the file does not say.
  absl::Status Run(std::optional<ValueId> condition, std::optional<std::int64_t> limit);
  absl::StatusOr<Values> Outputs();

 private:
  absl::Status Iterate(std::int64_t iteration);
  // Takes the condition for the next iteration into account.
  absl::Status Continue(ValueId condition);

  OnnxNode& node_;
  Values states_;
  std::vector<Values> parts_;  // Of each scan output, one for each iteration.
  std::optional<std::int64_t> limit_;
  std::optional<ValueId> alive_;  // Whether this iteration counts, where that is computed.
  bool ended_ = false;
};

absl::Status Unrolling::Continue(ValueId condition) {
  SLUICE_ASSIGN_OR_RETURN(const std::optional<bool> truth, node_.Truth(condition));
  if (truth) {
    ended_ = !*truth;
    return absl::OkStatus();
  }
  if (!limit_ || *limit_ > kMaxMasked) {
    return absl::UnimplementedError(absl::StrFormat(
        "when it ends is computed, and its trip count is not a constant of at most %d",
        kMaxMasked));
  }
  SLUICE_ASSIGN_OR_RETURN(const ValueId scalar, node_.EmitReshape(condition, {}));
  if (!alive_) {
    alive_ = scalar;
    return absl::OkStatus();
  }
  SLUICE_ASSIGN_OR_RETURN(alive_, node_.EmitBinary(Binary::Kind::kAnd, *alive_, scalar));
  return absl::OkStatus();
}

absl::Status Unrolling::Iterate(std::int64_t iteration) {
  const std::int64_t count[] = {iteration};
  Values inputs = {node_.AddConstant(DataType::kInt64, {},
                                     InlineConstant(PackIntegers(DataType::kInt64, count)))};
  inputs.push_back(alive_ ? *alive_
                          : node_.AddConstant(DataType::kBool, {}, InlineConstant({std::byte{1}})));
  inputs.insert(inputs.end(), states_.begin(), states_.end());
  SLUICE_ASSIGN_OR_RETURN(const Values outputs, node_.Inline("body", inputs));
  if (outputs.size() < 1 + states_.size()) {
    return absl::InvalidArgumentError(absl::StrFormat("its body has %d outputs, want at least %d",
                                                      outputs.size(), 1 + states_.size()));
  }
  parts_.resize(outputs.size() - 1 - states_.size());
  if (alive_ && !parts_.empty()) {
    return absl::UnimplementedError("when it ends is computed, and it gathers outputs");
  }
  for (std::size_t i = 0; i < states_.size(); ++i) {
    ValueId next = outputs[1 + i];
    if (alive_) {
      SLUICE_ASSIGN_OR_RETURN(next, EmitSelect(node_, *alive_, next, states_[i]));
    }
    states_[i] = next;
  }
  for (std::size_t i = 0; i < parts_.size(); ++i) {
    parts_[i].push_back(outputs[1 + states_.size() + i]);
  }
  return Continue(outputs[0]);
}

absl::Status Unrolling::Run(std::optional<ValueId> condition, std::optional<std::int64_t> limit) {
  limit_ = limit;
  if (condition) SLUICE_RETURN_IF_ERROR(Continue(*condition));
  for (std::int64_t i = 0; !ended_ && (!limit || i < *limit); ++i) {
    SLUICE_RETURN_IF_ERROR(Iterate(i));
  }
  return absl::OkStatus();
}

absl::StatusOr<Values> Unrolling::Outputs() {
  Values outputs = states_;
  if (node_.output_count() > outputs.size() && parts_.empty()) {
    // No iteration: one that nobody uses tells what they would have looked like.
    const Values before = states_;
    SLUICE_RETURN_IF_ERROR(Iterate(0));
    outputs = before;
    for (const Values& parts : parts_) outputs.push_back(AddNothing(node_, parts[0]));
    return outputs;
  }
  for (const Values& parts : parts_) {
    SLUICE_ASSIGN_OR_RETURN(const ValueId stacked, EmitStack(node_, parts, 0, false));
    outputs.push_back(stacked);
  }
  return outputs;
}

MaybeValue Loop(OnnxNode& node) {
  std::optional<std::int64_t> limit;
  if (node.input(0)) {
    SLUICE_ASSIGN_OR_RETURN(const std::vector<std::int64_t> trips, node.Integers(0));
    if (trips.size() != 1) {
      return absl::InvalidArgumentError(
          absl::StrFormat("its trip count has %d elements, want 1", trips.size()));
    }
    limit = trips[0];
  }
  SLUICE_ASSIGN_OR_RETURN(Values states, InputsFrom(node, 2, node.input_count()));
  Unrolling unrolling(node, std::move(states));
  SLUICE_RETURN_IF_ERROR(unrolling.Run(node.input(1), limit));
  SLUICE_ASSIGN_OR_RETURN(const Values outputs, unrolling.Outputs());
  return SetOutputs(node, outputs);
}

// How a Scan goes through its inputs and puts its outputs together; one entry for each.
struct ScanWays {
  std::vector<std::int64_t> axes, reverse;
};

absl::StatusOr<std::vector<std::int64_t>> OneForEach(OnnxNode& node, std::string_view name,
                                                     std::size_t count) {
  std::vector<std::int64_t> given = node.Ints(name);
  if (given.empty()) given.assign(count, 0);
  if (given.size() == count) return given;
  return absl::InvalidArgumentError(
      absl::StrFormat("%s has %d entries, want %d", name, given.size(), count));
}

// Entry `index` along a dimension, which goes.
MaybeValue EmitEntry(OnnxNode& node, ValueId x, std::size_t axis, std::int64_t index) {
  Shape shape = node.graph().value(x).shape;
  Slice slice{.starts = std::vector<std::int64_t>(shape.size(), 0),
              .steps = std::vector<std::int64_t>(shape.size(), 1)};
  slice.starts[axis] = index;
  shape[axis] = 1;
  SLUICE_ASSIGN_OR_RETURN(const ValueId entry, node.Emit(std::move(slice), {x}, shape));
  shape.erase(shape.begin() + static_cast<std::ptrdiff_t>(axis));
  return node.EmitReshape(entry, shape);
}

// The states after all steps, then the outputs of all steps.
absl::StatusOr<Values> ScanSequence(OnnxNode& node, Values states, const Values& sequences,
                                    const ScanWays& in) {
  std::optional<std::int64_t> steps;
  std::vector<std::size_t> axes;
  for (std::size_t i = 0; i < sequences.size(); ++i) {
    const Shape shape = node.graph().value(sequences[i]).shape;
    SLUICE_ASSIGN_OR_RETURN(const std::int64_t axis, NormalAxis(in.axes[i], shape.size()));
    axes.push_back(static_cast<std::size_t>(axis));
    const std::int64_t length = shape[axes.back()];
    if (steps.value_or(length) != length) {
      return absl::InvalidArgumentError(
          absl::StrFormat("it scans %d steps of one input and %d of another", *steps, length));
    }
    steps = length;
  }
  if (steps.value_or(0) == 0) return absl::UnimplementedError("a scan of no steps");
  const std::size_t count = states.size();
  std::vector<Values> parts;
  for (std::int64_t t = 0; t < *steps; ++t) {
    Values inputs = states;
    for (std::size_t i = 0; i < sequences.size(); ++i) {
      const std::int64_t at = in.reverse[i] != 0 ? *steps - 1 - t : t;
      SLUICE_ASSIGN_OR_RETURN(const ValueId entry, EmitEntry(node, sequences[i], axes[i], at));
      inputs.push_back(entry);
    }
    SLUICE_ASSIGN_OR_RETURN(const Values outputs, node.Inline("body", inputs));
    if (outputs.size() < count) {
      return absl::InvalidArgumentError(
          absl::StrFormat("its body has %d outputs, want at least %d", outputs.size(), count));
    }
    std::copy_n(outputs.begin(), count, states.begin());
    parts.resize(outputs.size() - count);
    for (std::size_t i = 0; i < parts.size(); ++i) parts[i].push_back(outputs[count + i]);
  }
  SLUICE_ASSIGN_OR_RETURN(const auto axes_out, OneForEach(node, "scan_output_axes", parts.size()));
  SLUICE_ASSIGN_OR_RETURN(const auto reverse_out,
                          OneForEach(node, "scan_output_directions", parts.size()));
  for (std::size_t i = 0; i < parts.size(); ++i) {
    SLUICE_ASSIGN_OR_RETURN(const ValueId stacked,
                            EmitStack(node, parts[i], axes_out[i], reverse_out[i] != 0));
    states.push_back(stacked);
  }
  return states;
}

// Opset 8: a dimension in front is a batch, whose entries are scanned one by one.
MaybeValue ScanBatch(OnnxNode& node, const Values& states, const Values& sequences,
                     const ScanWays& in) {
  const Shape first = node.graph().value(sequences[0]).shape;
  const std::int64_t batch = first.empty() ? 0 : first[0];
  if (batch == 0) return absl::UnimplementedError("a scan of an empty batch");
  std::vector<Values> outputs;
  for (std::int64_t b = 0; b < batch; ++b) {
    const auto entries = [&](const Values& all) -> absl::StatusOr<Values> {
      Values of_batch;
      for (const ValueId id : all) {
        const Shape& shape = node.graph().value(id).shape;
        if (shape.empty() || shape[0] != batch) {
          return absl::InvalidArgumentError(absl::StrFormat(
              "an input has shape %s, want a batch of %d", FormatShape(shape), batch));
        }
        SLUICE_ASSIGN_OR_RETURN(const ValueId entry, EmitEntry(node, id, 0, b));
        of_batch.push_back(entry);
      }
      return of_batch;
    };
    SLUICE_ASSIGN_OR_RETURN(Values state, entries(states));
    SLUICE_ASSIGN_OR_RETURN(const Values sequence, entries(sequences));
    SLUICE_ASSIGN_OR_RETURN(const Values given, ScanSequence(node, std::move(state), sequence, in));
    outputs.resize(given.size());
    for (std::size_t i = 0; i < given.size(); ++i) outputs[i].push_back(given[i]);
  }
  Values stacked;
  for (const Values& parts : outputs) {
    SLUICE_ASSIGN_OR_RETURN(const ValueId id, EmitStack(node, parts, 0, false));
    stacked.push_back(id);
  }
  return SetOutputs(node, stacked);
}

MaybeValue Scan(OnnxNode& node) {
  const bool batched = node.opset() < 9;
  if (batched && node.input(0)) {
    return absl::UnimplementedError("lengths of sequences are not supported");
  }
  const std::size_t first = batched ? 1 : 0;
  if (node.input_count() <= first) return absl::InvalidArgumentError("has nothing to scan");
  const std::size_t count = node.input_count() - first;
  const std::int64_t scanned = node.Int("num_scan_inputs", 0);
  if (scanned < 1 || static_cast<std::uint64_t>(scanned) > count) {
    return absl::InvalidArgumentError(
        absl::StrFormat("num_scan_inputs is %d, want 1 to %d", scanned, count));
  }
  const std::size_t begin = first + count - static_cast<std::size_t>(scanned);
  SLUICE_ASSIGN_OR_RETURN(Values states, InputsFrom(node, first, begin));
  SLUICE_ASSIGN_OR_RETURN(const Values sequences, InputsFrom(node, begin, node.input_count()));
  ScanWays in;
  SLUICE_ASSIGN_OR_RETURN(in.axes,
                          OneForEach(node, batched ? "" : "scan_input_axes", sequences.size()));
  SLUICE_ASSIGN_OR_RETURN(
      in.reverse,
      OneForEach(node, batched ? "directions" : "scan_input_directions", sequences.size()));
  if (batched) return ScanBatch(node, states, sequences, in);
  SLUICE_ASSIGN_OR_RETURN(const Values outputs,
                          ScanSequence(node, std::move(states), sequences, in));
  return SetOutputs(node, outputs);
}

constexpr OnnxOperator kOperators[] = {
    {"If", 1, 1, If},
    {"Loop", 0, SIZE_MAX, Loop},
    {"Scan", 0, SIZE_MAX, Scan},  // Opset 8 has lengths in front, which are mostly absent.
};

}  // namespace

std::span<const OnnxOperator> ControlOperators() { return kOperators; }

}  // namespace sluice
