// Attention as one operator, of the domain com.microsoft: taken apart into products and a softmax,
// which the rewrites and kernels of separate ones then serve.

#include <algorithm>
#include <cmath>
#include <numeric>

#include "absl/strings/str_format.h"
#include "base/status_macros.h"
#include "model/onnx/onnx_node.h"

namespace sluice {
namespace {

// Queries, keys and values of one node: [batch, heads, positions, head size].
struct Heads {
  ValueId query{}, key{}, value{};
};

struct AttentionOptions {
  std::int64_t heads = 0;
  float scale = 0;           // 0: one over the root of the head size.
  float filter = -10000.0f;  // What is added to the scores of what a mask hides.
  bool causal = false;
  std::optional<ValueId> mask, bias;  // Bias: added to the scores.
};

// [batch, positions, heads * size] as [batch, heads, positions, size].
MaybeValue SplitHeads(OnnxNode& node, ValueId x, std::int64_t heads) {
  const Shape shape = node.graph().value(x).shape;
  if (shape.size() != 3 || heads < 1 || shape[2] % heads != 0) {
    return absl::InvalidArgumentError(
        absl::StrFormat("got shape %s, want [batch, sequence, hidden] that makes %d heads",
                        FormatShape(shape), heads));
  }
  SLUICE_ASSIGN_OR_RETURN(const ValueId split,
                          node.EmitReshape(x, {shape[0], shape[1], heads, shape[2] / heads}));
  return node.Emit(Transpose{{0, 2, 1, 3}}, {split});
}

// Elements [first, first + count) along an axis.
MaybeValue Part(OnnxNode& node, ValueId x, std::size_t axis, std::int64_t first,
                std::int64_t count) {
  Shape shape = node.graph().value(x).shape;
  Slice slice{.starts = std::vector<std::int64_t>(shape.size(), 0),
              .steps = std::vector<std::int64_t>(shape.size(), 1)};
  slice.starts[axis] = first;
  shape[axis] = count;
  return node.Emit(std::move(slice), {x}, shape);
}

// 0 where the mask is set and the filter's value elsewhere, of the scores' type.
MaybeValue FilterOf(OnnxNode& node, ValueId mask, DataType type, float filter) {
  ValueId x = mask;
  if (node.graph().value(x).type != type) {
    SLUICE_ASSIGN_OR_RETURN(x, node.Emit(Cast{}, {x}, std::nullopt, type));
  }
  SLUICE_ASSIGN_OR_RETURN(x,
                          node.EmitUnary({.kind = Unary::Kind::kClip, .alpha = 0, .beta = 1}, x));
  return node.EmitUnary({.kind = Unary::Kind::kLinear, .alpha = -filter, .beta = filter}, x);
}

// The mask of any rank as what is added to scores [batch, heads, queries, keys].
MaybeValue MaskToAdd(OnnxNode& node, ValueId mask, const Value& scores, float filter) {
  const Shape shape = node.graph().value(mask).shape;
  const std::int64_t batch = scores.shape[0], queries = scores.shape[2], keys = scores.shape[3];
  if (shape == Shape{batch, keys}) {
    SLUICE_ASSIGN_OR_RETURN(mask, node.EmitReshape(mask, {batch, 1, 1, keys}));
  } else if (shape == Shape{batch, queries, keys}) {
    SLUICE_ASSIGN_OR_RETURN(mask, node.EmitReshape(mask, {batch, 1, queries, keys}));
  } else if (shape == Shape{batch}) {
    // How many keys of each batch there are: those before the length are set.
    SLUICE_RETURN_IF_ERROR(node.BookGenerated(TensorBytes(DataType::kInt64, Shape{keys})));
    std::vector<std::int64_t> places(static_cast<std::size_t>(keys));
    std::iota(places.begin(), places.end(), 0);
    SLUICE_ASSIGN_OR_RETURN(const ValueId lengths,
                            node.Emit(Cast{}, {mask}, std::nullopt, DataType::kInt64));
    SLUICE_ASSIGN_OR_RETURN(const ValueId column, node.EmitReshape(lengths, {batch, 1, 1, 1}));
    SLUICE_ASSIGN_OR_RETURN(mask, node.Emit(Compare{Compare::Kind::kLess},
                                            {node.AddIntegers(std::move(places)), column},
                                            std::nullopt, DataType::kBool));
  } else {
    return absl::UnimplementedError(absl::StrFormat("a mask of shape %s for scores of %s",
                                                    FormatShape(shape), FormatShape(scores.shape)));
  }
  return FilterOf(node, mask, scores.type, filter);
}

// What hides keys that come after the query, the last query seeing all keys.
MaybeValue CausalMask(OnnxNode& node, const Value& scores, float filter) {
  const std::int64_t queries = scores.shape[2], keys = scores.shape[3];
  SLUICE_RETURN_IF_ERROR(node.BookGenerated(TensorBytes(scores.type, Shape{queries, keys})));
  std::vector<float> mask(static_cast<std::size_t>(queries * keys), 0.0f);
  for (std::int64_t q = 0; q < queries; ++q) {
    for (std::int64_t k = std::max<std::int64_t>(0, q + keys - queries + 1); k < keys; ++k) {
      mask[static_cast<std::size_t>(q * keys + k)] = filter;
    }
  }
  return node.AddFloats(scores.type, {queries, keys}, mask);
}

// softmax(scale * query key^T + masks) value, heads side by side again.
MaybeValue Attend(OnnxNode& node, const Heads& heads, const AttentionOptions& options) {
  const Shape query = node.graph().value(heads.query).shape;
  const Shape value = node.graph().value(heads.value).shape;
  const float scale =
      options.scale != 0 ? options.scale : 1.0f / std::sqrt(static_cast<float>(query.back()));
  if (!std::isfinite(options.filter)) {
    return absl::UnimplementedError("mask_filter_value is not finite");
  }
  SLUICE_ASSIGN_OR_RETURN(ValueId scores, node.Emit(MatMul{.transposed_b = true, .alpha = scale},
                                                    {heads.query, heads.key}));
  std::vector<ValueId> addends;
  const Value described = node.graph().value(scores);
  if (options.mask) {
    SLUICE_ASSIGN_OR_RETURN(addends.emplace_back(),
                            MaskToAdd(node, *options.mask, described, options.filter));
  }
  if (options.causal) {
    SLUICE_ASSIGN_OR_RETURN(addends.emplace_back(), CausalMask(node, described, options.filter));
  }
  if (options.bias) addends.push_back(*options.bias);
  for (const ValueId addend : addends) {
    SLUICE_ASSIGN_OR_RETURN(scores, node.EmitBinary(Binary::Kind::kAdd, scores, addend));
  }
  if (node.graph().value(scores).shape != described.shape) {
    return absl::InvalidArgumentError(absl::StrFormat(
        "a mask or bias does not broadcast to scores of %s", FormatShape(described.shape)));
  }
  SLUICE_ASSIGN_OR_RETURN(const ValueId weights, node.Emit(Softmax{.axis = 3}, {scores}));
  SLUICE_ASSIGN_OR_RETURN(const ValueId mixed, node.Emit(MatMul{}, {weights, heads.value}));
  SLUICE_ASSIGN_OR_RETURN(const ValueId joined, node.Emit(Transpose{{0, 2, 1, 3}}, {mixed}));
  return node.EmitReshape(joined, {query[0], query[2], value[1] * value[3]});
}

absl::Status CheckHeads(OnnxNode& node, const Heads& heads) {
  const Shape q = node.graph().value(heads.query).shape, k = node.graph().value(heads.key).shape;
  const Shape v = node.graph().value(heads.value).shape;
  if (q.size() == 4 && k.size() == 4 && v.size() == 4 && q[0] == k[0] && q[1] == k[1] &&
      q[3] == k[3] && std::equal(k.begin(), k.begin() + 3, v.begin())) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      absl::StrFormat("queries %s, keys %s and values %s do not go together", FormatShape(q),
                      FormatShape(k), FormatShape(v)));
}

absl::StatusOr<AttentionOptions> ReadOptions(OnnxNode& node) {
  AttentionOptions options{.heads = node.Int("num_heads", 0),
                           .scale = node.Float("scale", 0),
                           .filter = node.Float("mask_filter_value", -10000.0f),
                           .causal = node.Flag("unidirectional"),
                           .mask = std::nullopt,
                           .bias = std::nullopt};
  SLUICE_RETURN_IF_ERROR(node.attribute_error());
  if (options.heads < 1) {
    return absl::InvalidArgumentError(
        absl::StrFormat("num_heads is %d, want a positive number", options.heads));
  }
  return options;
}

// Keys or values of earlier positions before those of this call.
MaybeValue WithPast(OnnxNode& node, ValueId past, ValueId now) {
  return node.Emit(Concat{.axis = 2}, {past, now});
}

// input [batch, sequence, width] times weights [width, q + k + v] plus bias.
MaybeValue Project(OnnxNode& node) {
  const bool constant = node.IsConstant(1) && (!node.input(2) || node.IsConstant(2));
  if (node.shape(1).size() == 2 && constant) {
    std::vector<std::optional<ValueId>> inputs = {node.input(0), node.input(1)};
    if (node.input(2)) inputs.push_back(node.input(2));
    return node.Emit(FullyConnected{}, std::move(inputs));
  }
  SLUICE_ASSIGN_OR_RETURN(const ValueId product,
                          node.Emit(MatMul{}, {node.input(0), node.input(1)}));
  if (!node.input(2)) return product;
  return node.EmitBinary(Binary::Kind::kAdd, product, *node.input(2));
}

// Inputs: input, weights, bias, mask, past, attention bias.
MaybeValue Attention(OnnxNode& node) {
  SLUICE_ASSIGN_OR_RETURN(AttentionOptions options, ReadOptions(node));
  if (node.Flag("do_rotary") || node.Flag("past_present_share_buffer")) {
    return absl::UnimplementedError("do_rotary or past_present_share_buffer is set");
  }
  options.mask = node.input(3);
  options.bias = node.input(5);
  SLUICE_ASSIGN_OR_RETURN(const ValueId projected, Project(node));
  const std::int64_t width = node.graph().value(projected).shape.back();
  std::vector<std::int64_t> sizes = node.Ints("qkv_hidden_sizes");
  if (sizes.empty()) sizes.assign(3, width / 3);
  std::int64_t total = 0;
  for (const std::int64_t size : sizes) total += size > 0 && size <= width ? size : width + 1;
  if (node.shape(0).size() != 3 || sizes.size() != 3 || total != width) {
    return absl::InvalidArgumentError(
        absl::StrFormat("input %s and a projection to %d for hidden sizes %s do not go together",
                        FormatShape(node.shape(0)), width, FormatShape(sizes)));
  }
  Heads heads;
  std::int64_t first = 0;
  std::size_t i = 0;
  for (ValueId* one : {&heads.query, &heads.key, &heads.value}) {
    SLUICE_ASSIGN_OR_RETURN(const ValueId part, Part(node, projected, 2, first, sizes[i]));
    SLUICE_ASSIGN_OR_RETURN(*one, SplitHeads(node, part, options.heads));
    first += sizes[i++];
  }
  const bool present = node.output_count() > 1 && !node.proto().output(1).empty();
  if (node.input(4)) {
    const Shape past = node.shape(4);
    if (past.size() != 5 || past[0] != 2) {
      return absl::InvalidArgumentError(absl::StrFormat(
          "past has shape %s, want [2, batch, heads, positions, size]", FormatShape(past)));
    }
    const Shape one(past.begin() + 1, past.end());
    for (const std::int64_t which : {0, 1}) {
      ValueId& now = which == 0 ? heads.key : heads.value;
      SLUICE_ASSIGN_OR_RETURN(const ValueId part, Part(node, *node.input(4), 0, which, 1));
      SLUICE_ASSIGN_OR_RETURN(const ValueId before, node.EmitReshape(part, one));
      SLUICE_ASSIGN_OR_RETURN(now, WithPast(node, before, now));
    }
  }
  SLUICE_RETURN_IF_ERROR(CheckHeads(node, heads));
  if (present) {
    Shape stacked = node.graph().value(heads.key).shape;
    stacked.insert(stacked.begin(), 1);
    SLUICE_ASSIGN_OR_RETURN(const ValueId keys, node.EmitReshape(heads.key, stacked));
    SLUICE_ASSIGN_OR_RETURN(const ValueId values, node.EmitReshape(heads.value, stacked));
    SLUICE_ASSIGN_OR_RETURN(const ValueId both, node.Emit(Concat{.axis = 0}, {keys, values}));
    node.SetOutput(1, both);
  }
  return Attend(node, heads, options);
}

// One of query, key, value of [batch, positions, hidden], with its part of the bias.
MaybeValue HeadsOf(OnnxNode& node, std::size_t i, std::int64_t heads, std::int64_t bias_first) {
  ValueId x = *node.input(i);
  if (node.shape(i).size() == 4) return x;
  if (node.input(3)) {
    SLUICE_ASSIGN_OR_RETURN(const ValueId bias,
                            Part(node, *node.input(3), 0, bias_first, node.shape(i).back()));
    SLUICE_ASSIGN_OR_RETURN(x, node.EmitBinary(Binary::Kind::kAdd, x, bias));
  }
  return SplitHeads(node, x, heads);
}

// Inputs: query, key, value, bias, key padding mask, attention bias, past key, past value.
MaybeValue MultiHeadAttention(OnnxNode& node) {
  SLUICE_ASSIGN_OR_RETURN(AttentionOptions options, ReadOptions(node));
  if (!node.input(1) || !node.input(2) || node.shape(0).size() != 3 || node.input_count() > 8) {
    return absl::UnimplementedError(
        "packed queries, keys and values, or a shared cache, are not supported");
  }
  options.mask = node.input(4);
  options.bias = node.input(5);
  const std::int64_t hidden = node.shape(0)[2], keys = node.shape(1).back();
  if (node.input(3) &&
      (node.shape(3).size() != 1 || node.shape(1).size() != 3 || node.shape(2).size() != 3 ||
       node.shape(3)[0] != hidden + keys + node.shape(2)[2])) {
    return absl::InvalidArgumentError(
        absl::StrFormat("the bias has shape %s, want one element for each of query, key and value",
                        FormatShape(node.shape(3))));
  }
  Heads heads;
  SLUICE_ASSIGN_OR_RETURN(heads.query, HeadsOf(node, 0, options.heads, 0));
  SLUICE_ASSIGN_OR_RETURN(heads.key, HeadsOf(node, 1, options.heads, hidden));
  SLUICE_ASSIGN_OR_RETURN(heads.value, HeadsOf(node, 2, options.heads, hidden + keys));
  if (node.input(6) && node.input(7)) {
    SLUICE_ASSIGN_OR_RETURN(heads.key, WithPast(node, *node.input(6), heads.key));
    SLUICE_ASSIGN_OR_RETURN(heads.value, WithPast(node, *node.input(7), heads.value));
  }
  SLUICE_RETURN_IF_ERROR(CheckHeads(node, heads));
  node.SetOutput(1, heads.key);
  node.SetOutput(2, heads.value);
  return Attend(node, heads, options);
}

// Pairs of elements turned by the angle of their position. x: [batch, heads, positions, size].
struct Rotation {
  ValueId cosine{}, sine{};  // [batch or 1, 1, positions, pairs]
  std::int64_t pairs = 0;
  bool interleaved = false;
};

MaybeValue Rotate(OnnxNode& node, ValueId x, const Rotation& rotation) {
  const Shape shape = node.graph().value(x).shape;
  const std::int64_t rotated = 2 * rotation.pairs;
  Shape half = shape;
  half[3] = rotation.pairs;
  std::vector<ValueId> halves(2);
  for (const std::int64_t i : {0, 1}) {
    const Slice slice{.starts = {0, 0, 0, rotation.interleaved ? i : i * rotation.pairs},
                      .steps = {1, 1, 1, rotation.interleaved ? 2 : 1}};
    SLUICE_ASSIGN_OR_RETURN(halves[static_cast<std::size_t>(i)], node.Emit(slice, {x}, half));
  }
  const auto product = [&](ValueId a, ValueId b) {
    return node.EmitBinary(Binary::Kind::kMultiply, a, b);
  };
  SLUICE_ASSIGN_OR_RETURN(const ValueId first_cosine, product(halves[0], rotation.cosine));
  SLUICE_ASSIGN_OR_RETURN(const ValueId second_sine, product(halves[1], rotation.sine));
  SLUICE_ASSIGN_OR_RETURN(const ValueId first_sine, product(halves[0], rotation.sine));
  SLUICE_ASSIGN_OR_RETURN(const ValueId second_cosine, product(halves[1], rotation.cosine));
  SLUICE_ASSIGN_OR_RETURN(ValueId first,
                          node.EmitBinary(Binary::Kind::kSubtract, first_cosine, second_sine));
  SLUICE_ASSIGN_OR_RETURN(ValueId second,
                          node.EmitBinary(Binary::Kind::kAdd, first_sine, second_cosine));
  std::vector<std::optional<ValueId>> parts;
  if (rotation.interleaved) {
    Shape column = half;
    column.push_back(1);
    SLUICE_ASSIGN_OR_RETURN(first, node.EmitReshape(first, column));
    SLUICE_ASSIGN_OR_RETURN(second, node.EmitReshape(second, column));
    SLUICE_ASSIGN_OR_RETURN(const ValueId woven, node.Emit(Concat{.axis = 4}, {first, second}));
    Shape whole = half;
    whole[3] = rotated;
    SLUICE_ASSIGN_OR_RETURN(const ValueId flat, node.EmitReshape(woven, whole));
    parts = {flat};
  } else {
    parts = {first, second};
  }
  if (rotated < shape[3]) {
    SLUICE_ASSIGN_OR_RETURN(const ValueId rest, Part(node, x, 3, rotated, shape[3] - rotated));
    parts.emplace_back(rest);
  }
  return node.Emit(Concat{.axis = 3}, std::move(parts));
}

// Rows of a cache [positions, pairs] for the positions of each batch.
MaybeValue Angles(OnnxNode& node, ValueId cache, ValueId positions, std::int64_t pairs) {
  SLUICE_ASSIGN_OR_RETURN(const ValueId rows, node.Emit(Gather{}, {cache, positions}));
  const Shape shape = node.graph().value(rows).shape;
  if (shape.size() != 3 || shape[2] != pairs) {
    return absl::InvalidArgumentError(
        absl::StrFormat("a cache gives angles %s, want %d pairs", FormatShape(shape), pairs));
  }
  return node.EmitReshape(rows, {shape[0], 1, shape[1], pairs});
}

// Inputs: x [batch, sequence, hidden] or [batch, heads, sequence, size], positions, cosines, sines.
MaybeValue RotaryEmbedding(OnnxNode& node) {
  ValueId x = *node.input(0);
  const Shape given = node.shape(0), cache = node.shape(2);
  if ((given.size() != 3 && given.size() != 4) || cache.size() != 2 ||
      node.Flag("is_packed_batching")) {
    return absl::UnimplementedError(absl::StrFormat("x of shape %s with a cache of %s",
                                                    FormatShape(given), FormatShape(cache)));
  }
  const std::int64_t pairs = cache[1];
  if (given.size() == 3) {
    const std::int64_t stated = node.Int("num_heads", 0);
    const std::int64_t heads =
        stated > 0 ? stated : given[2] / std::max<std::int64_t>(1, 2 * pairs);
    SLUICE_ASSIGN_OR_RETURN(x, SplitHeads(node, x, heads));
  }
  const Shape shape = node.graph().value(x).shape;
  if (shape[3] < 2 * pairs || node.shape(3) != cache) {
    return absl::InvalidArgumentError(absl::StrFormat("caches of %s and %s for heads of size %d",
                                                      FormatShape(cache),
                                                      FormatShape(node.shape(3)), shape[3]));
  }
  ValueId positions = *node.input(1);
  if (ElementCount(node.shape(1)) == 1 && node.shape(1).size() < 2) {
    // The first position; the others follow.
    SLUICE_RETURN_IF_ERROR(node.BookGenerated(TensorBytes(DataType::kInt64, Shape{shape[2]})));
    std::vector<std::int64_t> steps(static_cast<std::size_t>(shape[2]));
    std::iota(steps.begin(), steps.end(), 0);
    SLUICE_ASSIGN_OR_RETURN(const ValueId first,
                            node.Emit(Cast{}, {positions}, std::nullopt, DataType::kInt64));
    SLUICE_ASSIGN_OR_RETURN(
        positions, node.EmitBinary(Binary::Kind::kAdd, first, node.AddIntegers(std::move(steps))));
    SLUICE_ASSIGN_OR_RETURN(positions, node.EmitReshape(positions, {1, shape[2]}));
  }
  Rotation rotation{.pairs = pairs, .interleaved = node.Flag("interleaved")};
  SLUICE_ASSIGN_OR_RETURN(rotation.cosine, Angles(node, *node.input(2), positions, pairs));
  SLUICE_ASSIGN_OR_RETURN(rotation.sine, Angles(node, *node.input(3), positions, pairs));
  SLUICE_ASSIGN_OR_RETURN(const ValueId y, Rotate(node, x, rotation));
  if (given.size() == 4) return y;
  SLUICE_ASSIGN_OR_RETURN(const ValueId joined, node.Emit(Transpose{{0, 2, 1, 3}}, {y}));
  return node.EmitReshape(joined, given);
}

constexpr OnnxOperator kOperators[] = {
    {"Attention", 2, 6, Attention},
    {"MultiHeadAttention", 3, 10, MultiHeadAttention},
    {"RotaryEmbedding", 4, 4, RotaryEmbedding},
};

}  // namespace

std::span<const OnnxOperator> ContribAttentionOperators() { return kOperators; }

}  // namespace sluice
