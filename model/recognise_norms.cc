// Layer normalisations that exporters spell out:
//
//   x - mean(x) = d,  d / sqrt(mean(d * d) + epsilon),  * scale,  + shift
//
// and the same without the mean, x / sqrt(mean(x * x) + epsilon). The last of the nodes becomes a
// Normalize; the others go when nothing else reads them.

#include <algorithm>
#include <cmath>
#include <optional>

#include "base/status_macros.h"
#include "model/fold_affines.h"
#include "model/graph_editor.h"
#include "model/host_tensor.h"
#include "model/rewrite_stages.h"

namespace sluice {
namespace {

template <typename Op>
const Op* OperationBehind(const GraphEditor& editor, ValueId id) {
  const std::optional<std::size_t> producer = editor.producer(id);
  return producer ? std::get_if<Op>(&editor.node(*producer).operation) : nullptr;
}

ValueId InputBehind(const GraphEditor& editor, ValueId id, std::size_t i) {
  return *editor.node(*editor.producer(id)).inputs[i];
}

bool IsUnary(const GraphEditor& editor, ValueId id, Unary::Kind kind) {
  const auto* unary = OperationBehind<Unary>(editor, id);
  return unary != nullptr && unary->kind == kind;
}

bool IsBinary(const GraphEditor& editor, ValueId id, Binary::Kind kind) {
  const auto* binary = OperationBehind<Binary>(editor, id);
  return binary != nullptr && binary->kind == kind;
}

// The first of the dimensions that a mean is taken over, when those are all from there on and keep
// their places.
std::optional<std::int64_t> MeanFrom(const GraphEditor& editor, ValueId id) {
  const auto* reduce = OperationBehind<Reduce>(editor, id);
  if (reduce == nullptr || reduce->kind != Reduce::Kind::kMean || reduce->axes.empty()) {
    return std::nullopt;
  }
  const Shape& x = editor.value(InputBehind(editor, id, 0)).shape;
  const auto rank = static_cast<std::int64_t>(x.size());
  const bool tail = reduce->axes.front() + std::ssize(reduce->axes) == rank;
  if (!tail || editor.value(id).shape.size() != x.size()) return std::nullopt;
  return reduce->axes.front();
}

// What is normalised, and over which dimensions.
struct Row {
  ValueId x{};
  std::int64_t axis = 0;
};

// x and the axis when `id` is x - mean(x).
std::optional<Row> CentredRow(const GraphEditor& editor, ValueId id) {
  if (!IsBinary(editor, id, Binary::Kind::kSubtract)) return std::nullopt;
  const ValueId x = InputBehind(editor, id, 0), mean = InputBehind(editor, id, 1);
  const std::optional<std::int64_t> axis = MeanFrom(editor, mean);
  if (!axis || InputBehind(editor, mean, 0) != x) return std::nullopt;
  return Row{x, *axis};
}

// Whether two values are the same difference, computed once or twice.
bool SameRow(const GraphEditor& editor, ValueId a, ValueId b) {
  if (a == b) return true;
  const std::optional<Row> row_a = CentredRow(editor, a), row_b = CentredRow(editor, b);
  return row_a && row_b && row_a->x == row_b->x && row_a->axis == row_b->axis;
}

struct Deviation {
  ValueId row{};  // Whose mean square it is the root of.
  std::int64_t axis = 0;
  float epsilon = 0;
};

// sqrt(mean(row * row) + epsilon).
absl::StatusOr<std::optional<Deviation>> DeviationBehind(const GraphEditor& editor, ValueId id) {
  if (!IsUnary(editor, id, Unary::Kind::kSqrt)) return std::nullopt;
  const ValueId raised = InputBehind(editor, id, 0);
  const std::optional<std::size_t> producer = editor.producer(raised);
  if (!producer) return std::nullopt;
  SLUICE_ASSIGN_OR_RETURN(const std::optional<Affine> affine, AsAffine(editor, *producer));
  if (!affine || !affine->uniform() || affine->scale[0] != 1 || !(affine->shift[0] >= 0)) {
    return std::nullopt;
  }
  const std::optional<std::int64_t> axis = MeanFrom(editor, affine->x);
  if (!axis) return std::nullopt;
  const ValueId square = InputBehind(editor, affine->x, 0);
  if (!IsBinary(editor, square, Binary::Kind::kMultiply)) return std::nullopt;
  const ValueId a = InputBehind(editor, square, 0), b = InputBehind(editor, square, 1);
  if (!SameRow(editor, a, b)) return std::nullopt;
  return Deviation{a, *axis, affine->shift[0]};
}

// row / deviation becomes a Normalize.
bool Normalise(GraphEditor& editor, std::size_t i, ValueId row, const Deviation& deviation) {
  if (!SameRow(editor, row, deviation.row) ||
      editor.value(row).shape != editor.value(editor.node(i).output).shape ||
      editor.value(row).type != DataType::kFloat32) {
    return false;
  }
  const std::optional<Row> centred = CentredRow(editor, row);
  const bool subtracts = centred && centred->axis == deviation.axis;
  editor.operation(i) =
      Normalize{.axis = deviation.axis, .epsilon = deviation.epsilon, .centred = subtracts};
  editor.SetInputs(i, {subtracts ? centred->x : row});
  return true;
}

absl::StatusOr<bool> CompleteQuotient(GraphEditor& editor, std::size_t i, const Binary& binary) {
  const ValueId a = *editor.node(i).inputs[0], b = *editor.node(i).inputs[1];
  if (binary.kind == Binary::Kind::kDivide) {
    SLUICE_ASSIGN_OR_RETURN(const auto deviation, DeviationBehind(editor, b));
    return deviation && Normalise(editor, i, a, *deviation);
  }
  if (binary.kind != Binary::Kind::kMultiply) return false;
  // row * (1 / deviation), in either order.
  for (const auto& [row, inverse] : {std::pair{a, b}, std::pair{b, a}}) {
    if (!IsUnary(editor, inverse, Unary::Kind::kReciprocal)) continue;
    SLUICE_ASSIGN_OR_RETURN(const auto deviation,
                            DeviationBehind(editor, InputBehind(editor, inverse, 0)));
    if (deviation && Normalise(editor, i, row, *deviation)) return true;
  }
  return false;
}

// A constant as a tensor of the row's shape; nullopt when it is none, or broadcasts.
std::optional<ValueId> AsParameter(GraphEditor& editor, ValueId id, const Shape& row,
                                   DataType type) {
  const Value value = editor.value(id);
  if (value.constant == nullptr || value.type != type) return std::nullopt;
  if (value.shape == row) return id;
  const auto first = std::ranges::find_if(value.shape, [](std::int64_t n) { return n != 1; });
  const auto row_first = std::ranges::find_if(row, [](std::int64_t n) { return n != 1; });
  if (!std::equal(first, value.shape.end(), row_first, row.end())) return std::nullopt;
  return editor.Add(
      {.name = value.name + "#row", .type = value.type, .shape = row, .constant = value.constant});
}

// A product or sum with a constant row behind a Normalize that has no scale or shift so far.
bool AbsorbParameter(GraphEditor& editor, std::size_t i, const Binary& binary) {
  const bool multiplies = binary.kind == Binary::Kind::kMultiply;
  if (!multiplies && binary.kind != Binary::Kind::kAdd) return false;
  for (const std::size_t at : {0u, 1u}) {
    const std::optional<std::size_t> producer = editor.PrivateProducer(*editor.node(i).inputs[at]);
    if (!producer) continue;
    const auto* found = std::get_if<Normalize>(&editor.node(*producer).operation);
    if (found == nullptr || found->per_channel) continue;
    const Normalize normalize = *found;
    std::vector<std::optional<ValueId>> inputs = editor.node(*producer).inputs;
    inputs.resize(3);
    if (inputs[2] || (multiplies && inputs[1])) continue;
    const Value y = editor.value(editor.node(i).output);
    const Shape row(y.shape.begin() + normalize.axis, y.shape.end());
    const std::optional<ValueId> parameter =
        AsParameter(editor, *editor.node(i).inputs[1 - at], row, y.type);
    if (!parameter || y.shape != editor.value(*inputs[0]).shape) continue;
    inputs[multiplies ? 1 : 2] = parameter;
    if (!inputs[2]) inputs.pop_back();
    editor.operation(i) = normalize;
    editor.SetInputs(i, std::move(inputs));
    return true;
  }
  return false;
}

}  // namespace

absl::Status RecogniseNorms(Graph& graph, std::size_t& applied) {
  GraphEditor editor(graph);
  for (std::size_t i = 0; i < editor.node_count(); ++i) {
    const auto* found = std::get_if<Binary>(&editor.node(i).operation);
    if (found == nullptr) continue;
    const Binary binary = *found;
    SLUICE_ASSIGN_OR_RETURN(bool changed, CompleteQuotient(editor, i, binary));
    changed = changed || AbsorbParameter(editor, i, binary);
    applied += changed ? 1 : 0;
  }
  return absl::OkStatus();
}

}  // namespace sluice
