#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <numeric>
#include <optional>

#include "absl/strings/str_format.h"
#include "base/status_macros.h"
#include "model/element_cast.h"
#include "model/host_tensor.h"

namespace sluice {
namespace {

using MaybeBytes = absl::StatusOr<std::optional<std::vector<std::byte>>>;

// Two's complement, without the undefined behaviour of overflow.
std::int64_t Wrap(std::uint64_t value) { return static_cast<std::int64_t>(value); }

absl::StatusOr<std::int64_t> Compute(Binary::Kind kind, std::int64_t a, std::int64_t b) {
  const auto ua = static_cast<std::uint64_t>(a), ub = static_cast<std::uint64_t>(b);
  switch (kind) {
    case Binary::Kind::kAdd:
      return Wrap(ua + ub);
    case Binary::Kind::kSubtract:
      return Wrap(ua - ub);
    case Binary::Kind::kMultiply:
      return Wrap(ua * ub);
    case Binary::Kind::kDivide:
      if (b == 0) return absl::InvalidArgumentError("division of a constant by zero");
      return b == -1 ? Wrap(0 - ua) : a / b;
    case Binary::Kind::kPower: {
      std::uint64_t power = 1;
      if (b < 0 || b > 64) return absl::InvalidArgumentError("exponent of a constant out of range");
      for (std::int64_t i = 0; i < b; ++i) power *= ua;
      return Wrap(power);
    }
    case Binary::Kind::kMaximum:
      return std::max(a, b);
    case Binary::Kind::kMinimum:
      return std::min(a, b);
    case Binary::Kind::kModulo:
    case Binary::Kind::kRemainder: {
      if (b == 0) return absl::InvalidArgumentError("division of a constant by zero");
      const std::int64_t rest = b == -1 ? 0 : a % b;
      const bool moves = kind == Binary::Kind::kModulo && rest != 0 && (rest < 0) != (b < 0);
      return moves ? rest + b : rest;
    }
    case Binary::Kind::kAnd:
      return a & b;
    case Binary::Kind::kOr:
      return a | b;
    case Binary::Kind::kXor:
      return a ^ b;
    default:
      return absl::UnimplementedError("not one that shapes are computed with");
  }
}

absl::StatusOr<float> Compute(Binary::Kind kind, float a, float b) {
  switch (kind) {
    case Binary::Kind::kAdd:
      return a + b;
    case Binary::Kind::kSubtract:
      return a - b;
    case Binary::Kind::kMultiply:
      return a * b;
    case Binary::Kind::kDivide:
      return a / b;
    case Binary::Kind::kPower:
      return std::pow(a, b);
    case Binary::Kind::kMaximum:
      return std::max(a, b);
    case Binary::Kind::kMinimum:
      return std::min(a, b);
    default:
      return absl::UnimplementedError("not one that shapes are computed with");
  }
}

std::optional<float> Compute(const Unary& op, float x) {
  switch (op.kind) {
    case Unary::Kind::kRelu:
      return std::max(x, 0.0f);
    case Unary::Kind::kClip:
      return std::min(std::max(x, op.alpha), op.beta);
    case Unary::Kind::kSigmoid:
      return 1.0f / (1.0f + std::exp(-x));
    case Unary::Kind::kTanh:
      return std::tanh(x);
    case Unary::Kind::kExp:
      return std::exp(x);
    case Unary::Kind::kLog:
      return std::log(x);
    case Unary::Kind::kSqrt:
      return std::sqrt(x);
    case Unary::Kind::kAbs:
      return std::fabs(x);
    case Unary::Kind::kNegate:
      return -x;
    case Unary::Kind::kReciprocal:
      return 1.0f / x;
    case Unary::Kind::kFloor:
      return std::floor(x);
    case Unary::Kind::kCeil:
      return std::ceil(x);
    case Unary::Kind::kRound:
      return std::nearbyint(x);
    case Unary::Kind::kLinear:
      return op.alpha * x + op.beta;
    default:
      return std::nullopt;
  }
}

template <typename T>
bool Decide(Compare::Kind kind, T a, T b) {
  switch (kind) {
    case Compare::Kind::kEqual:
      return a == b;
    case Compare::Kind::kLess:
      return a < b;
    case Compare::Kind::kLessOrEqual:
      return a <= b;
  }
  return false;
}

std::optional<std::int64_t> Compute(const Unary& op, DataType type, std::int64_t x) {
  switch (op.kind) {
    case Unary::Kind::kNot:
      return type == DataType::kBool ? 1 - x : ~x;
    case Unary::Kind::kSign:
      return (x > 0 ? 1 : 0) - (x < 0 ? 1 : 0);
    case Unary::Kind::kRelu:
      return std::max<std::int64_t>(x, 0);
    case Unary::Kind::kAbs:
      return x < 0 ? Wrap(0 - static_cast<std::uint64_t>(x)) : x;
    case Unary::Kind::kNegate:
      return Wrap(0 - static_cast<std::uint64_t>(x));
    default:
      return std::nullopt;
  }
}

template <typename T>
T Combine(Reduce::Kind kind, T a, T b) {
  switch (kind) {
    case Reduce::Kind::kMax:
      return std::max(a, b);
    case Reduce::Kind::kMin:
      return std::min(a, b);
    case Reduce::Kind::kProduct:
      return a * b;
    default:
      return a + b;
  }
}

// Reads through a table, so that elements move whatever their type.
std::vector<std::byte> Moved(std::span<const std::byte> from, std::size_t width,
                             std::span<const std::size_t> indices) {
  std::vector<std::byte> out(indices.size() * width);
  for (std::size_t i = 0; i < indices.size(); ++i) {
    std::memcpy(out.data() + i * width, from.data() + indices[i] * width, width);
  }
  return out;
}

// Indices of a view: element [i0, i1, ...] of `shape` lies at start + sum(i * stride).
std::vector<std::size_t> ViewIndices(const Shape& shape, std::int64_t start,
                                     const std::vector<std::int64_t>& strides) {
  std::vector<std::int64_t> indices = {start};
  for (std::size_t d = 0; d < shape.size(); ++d) {
    std::vector<std::int64_t> next;
    next.reserve(indices.size() * static_cast<std::size_t>(shape[d]));
    for (const std::int64_t base : indices) {
      for (std::int64_t i = 0; i < shape[d]; ++i) next.push_back(base + i * strides[d]);
    }
    indices = std::move(next);
  }
  return {indices.begin(), indices.end()};
}

std::vector<std::int64_t> Strides(const Shape& shape) {
  std::vector<std::int64_t> strides(shape.size(), 1);
  for (std::size_t d = shape.size(); d-- > 1;) strides[d - 1] = strides[d] * shape[d];
  return strides;
}

struct Folder {
  const Graph& graph;
  const Node& node;
  const Value& x = graph.value(*node.inputs[0]);
  const Value& y = graph.value(node.output);

  template <typename Op>
  MaybeBytes operator()(const Op&) const {
    return std::nullopt;
  }

  MaybeBytes operator()(const Binary& op) const {
    const Value& b = graph.value(*node.inputs[1]);
    const bool integers = IsInteger(x.type) && x.type != DataType::kUint64;
    if (op.kind > (integers ? Binary::Kind::kXor : Binary::Kind::kMinimum) || x.type != b.type) {
      return std::nullopt;
    }
    const std::vector<std::size_t> ia = BroadcastIndices(x.shape, y.shape);
    const std::vector<std::size_t> ib = BroadcastIndices(b.shape, y.shape);
    return Elementwise([&](const auto& va, const auto& vb, auto& out) -> absl::Status {
      for (std::size_t i = 0; i < out.size(); ++i) {
        SLUICE_ASSIGN_OR_RETURN(out[i], Compute(op.kind, va[ia[i]], vb[ib[i]]));
      }
      return absl::OkStatus();
    });
  }

  // Calls `compute` with the elements of both inputs and of the output, as floats or integers.
  template <typename F>
  MaybeBytes Elementwise(const F& compute) const {
    const Value& b = graph.value(*node.inputs[1]);
    const auto count = static_cast<std::size_t>(ElementCount(y.shape));
    if (x.type == DataType::kFloat32) {
      SLUICE_ASSIGN_OR_RETURN(const auto va, ReadFloats(x));
      SLUICE_ASSIGN_OR_RETURN(const auto vb, ReadFloats(b));
      std::vector<float> out(count);
      SLUICE_RETURN_IF_ERROR(compute(va, vb, out));
      return PackFloats(y.type, out);
    }
    if (!IsInteger(x.type)) return std::nullopt;
    SLUICE_ASSIGN_OR_RETURN(const auto va, ReadIntegers(x));
    SLUICE_ASSIGN_OR_RETURN(const auto vb, ReadIntegers(b));
    std::vector<std::int64_t> out(count);
    SLUICE_RETURN_IF_ERROR(compute(va, vb, out));
    return PackIntegers(y.type, out);
  }

  MaybeBytes operator()(const Unary& op) const {
    if (x.type == DataType::kFloat32) {
      SLUICE_ASSIGN_OR_RETURN(std::vector<float> v, ReadFloats(x));
      for (float& element : v) {
        const std::optional<float> result = Compute(op, element);
        if (!result) return std::nullopt;
        element = *result;
      }
      return PackFloats(y.type, v);
    }
    if (!IsInteger(x.type)) return std::nullopt;
    SLUICE_ASSIGN_OR_RETURN(std::vector<std::int64_t> v, ReadIntegers(x));
    for (std::int64_t& element : v) {
      const std::optional<std::int64_t> result = Compute(op, x.type, element);
      if (!result) return std::nullopt;
      element = *result;
    }
    return PackIntegers(y.type, v);
  }

  MaybeBytes operator()(const Cast&) const {
    SLUICE_ASSIGN_OR_RETURN(const std::vector<std::byte> from, Read(x));
    std::vector<std::byte> to(static_cast<std::size_t>(TensorBytes(y.type, y.shape).count()));
    CastLoopFor(x.type, y.type)(from.data(), to.data(),
                                static_cast<std::size_t>(ElementCount(y.shape)));
    return to;
  }

  MaybeBytes operator()(const Compare& op) const {
    const Value& b = graph.value(*node.inputs[1]);
    const std::vector<std::size_t> ia = BroadcastIndices(x.shape, y.shape);
    const std::vector<std::size_t> ib = BroadcastIndices(b.shape, y.shape);
    const auto compare = [&](const auto& va, const auto& vb) {
      std::vector<std::int64_t> out(ia.size());
      for (std::size_t i = 0; i < out.size(); ++i) {
        out[i] = Decide(op.kind, va[ia[i]], vb[ib[i]]) ? 1 : 0;
      }
      return PackIntegers(y.type, out);
    };
    if (x.type == DataType::kFloat32) {
      SLUICE_ASSIGN_OR_RETURN(const auto va, ReadFloats(x));
      SLUICE_ASSIGN_OR_RETURN(const auto vb, ReadFloats(b));
      return compare(va, vb);
    }
    if (!IsInteger(x.type) || x.type == DataType::kUint64) return std::nullopt;
    SLUICE_ASSIGN_OR_RETURN(const auto va, ReadIntegers(x));
    SLUICE_ASSIGN_OR_RETURN(const auto vb, ReadIntegers(b));
    return compare(va, vb);
  }

  MaybeBytes operator()(const Select&) const {
    const Value &a = graph.value(*node.inputs[1]), &b = graph.value(*node.inputs[2]);
    const std::vector<std::size_t> ic = BroadcastIndices(x.shape, y.shape);
    const std::vector<std::size_t> ia = BroadcastIndices(a.shape, y.shape);
    const std::vector<std::size_t> ib = BroadcastIndices(b.shape, y.shape);
    SLUICE_ASSIGN_OR_RETURN(const std::vector<std::int64_t> condition, ReadIntegers(x));
    SLUICE_ASSIGN_OR_RETURN(std::vector<std::byte> from, Read(a));
    SLUICE_ASSIGN_OR_RETURN(const std::vector<std::byte> otherwise, Read(b));
    const auto width = static_cast<std::size_t>(SizeOf(y.type).count());
    const std::size_t behind = from.size() / width;  // Where the elements of b lie.
    from.insert(from.end(), otherwise.begin(), otherwise.end());
    std::vector<std::size_t> indices(ic.size());
    for (std::size_t i = 0; i < indices.size(); ++i) {
      indices[i] = condition[ic[i]] != 0 ? ia[i] : behind + ib[i];
    }
    return Moved(from, width, indices);
  }

  MaybeBytes operator()(const Slice& op) const {
    const std::vector<std::int64_t> strides = Strides(x.shape);
    std::int64_t start = 0;
    std::vector<std::int64_t> steps(strides.size());
    for (std::size_t d = 0; d < strides.size(); ++d) {
      start += op.starts[d] * strides[d];
      steps[d] = op.steps[d] * strides[d];
    }
    return View(start, steps);
  }

  MaybeBytes operator()(const Transpose& op) const {
    const std::vector<std::int64_t> strides = Strides(x.shape);
    std::vector<std::int64_t> permuted;
    for (const std::int64_t d : op.perm) permuted.push_back(strides[static_cast<std::size_t>(d)]);
    return View(0, permuted);
  }

  MaybeBytes View(std::int64_t start, const std::vector<std::int64_t>& strides) const {
    return Move(ViewIndices(y.shape, start, strides));
  }

  MaybeBytes operator()(const Expand&) const { return Move(BroadcastIndices(x.shape, y.shape)); }

  MaybeBytes Move(const std::vector<std::size_t>& indices) const {
    SLUICE_ASSIGN_OR_RETURN(const std::vector<std::byte> from, Read(x));
    return Moved(from, static_cast<std::size_t>(SizeOf(x.type).count()), indices);
  }

  static absl::StatusOr<std::vector<std::byte>> Read(const Value& value) {
    std::vector<std::byte> bytes(static_cast<std::size_t>(value.constant->size().count()));
    SLUICE_RETURN_IF_ERROR(value.constant->Read(Bytes(), bytes));
    return bytes;
  }

  MaybeBytes operator()(const Gather& op) const {
    SLUICE_ASSIGN_OR_RETURN(const auto picks, ReadIntegers(graph.value(*node.inputs[1])));
    const auto axis = static_cast<std::size_t>(op.axis);
    const auto length = x.shape[axis];
    const auto outer = static_cast<std::size_t>(ElementCount(std::span(x.shape).first(axis)));
    const auto inner = static_cast<std::size_t>(ElementCount(std::span(x.shape).subspan(axis + 1)));
    std::vector<std::size_t> indices;
    for (std::size_t o = 0; o < outer; ++o) {
      for (std::int64_t pick : picks) {
        if (pick < -length || pick >= length) {
          return absl::InvalidArgumentError(
              absl::StrFormat("index %d is not in a dimension of %d", pick, length));
        }
        if (pick < 0) pick += length;
        const std::size_t row =
            (o * static_cast<std::size_t>(length) + static_cast<std::size_t>(pick)) * inner;
        for (std::size_t i = 0; i < inner; ++i) indices.push_back(row + i);
      }
    }
    return Move(indices);
  }

  MaybeBytes operator()(const Concat& op) const {
    const auto axis = static_cast<std::size_t>(op.axis);
    const auto outer = static_cast<std::size_t>(ElementCount(std::span(y.shape).first(axis)));
    std::vector<std::vector<std::byte>> parts;
    for (const std::optional<ValueId>& input : node.inputs) {
      SLUICE_ASSIGN_OR_RETURN(std::vector<std::byte> part, Read(graph.value(*input)));
      parts.push_back(std::move(part));
    }
    std::vector<std::byte> out;
    for (std::size_t o = 0; o < outer; ++o) {
      for (const std::vector<std::byte>& part : parts) {
        const std::size_t run = part.size() / outer;
        out.insert(out.end(), part.begin() + static_cast<std::ptrdiff_t>(o * run),
                   part.begin() + static_cast<std::ptrdiff_t>((o + 1) * run));
      }
    }
    return out;
  }

  MaybeBytes operator()(const Reduce& op) const {
    if (op.kind == Reduce::Kind::kL2 || op.kind == Reduce::Kind::kL1 || ElementCount(x.shape) == 0)
      return std::nullopt;
    if (x.type == DataType::kFloat32) {
      SLUICE_ASSIGN_OR_RETURN(const std::vector<float> v, ReadFloats(x));
      return PackFloats(y.type, Reduced(op, v));
    }
    if (!IsInteger(x.type) || op.kind == Reduce::Kind::kMean) return std::nullopt;
    SLUICE_ASSIGN_OR_RETURN(const std::vector<std::int64_t> v, ReadIntegers(x));
    std::vector<std::uint64_t> wrapping(v.begin(), v.end());
    if (op.kind == Reduce::Kind::kMax || op.kind == Reduce::Kind::kMin) {
      return PackIntegers(y.type, Reduced(op, v));
    }
    const std::vector<std::uint64_t> out = Reduced(op, wrapping);
    return PackIntegers(y.type, std::vector<std::int64_t>(out.begin(), out.end()));
  }

  template <typename T>
  std::vector<T> Reduced(const Reduce& op, const std::vector<T>& v) const {
    Shape kept = x.shape;
    for (const std::int64_t axis : op.axes) kept[static_cast<std::size_t>(axis)] = 1;
    const std::vector<std::size_t> to = BroadcastIndices(kept, x.shape);
    const auto count = static_cast<std::size_t>(ElementCount(kept));
    std::vector<std::optional<T>> sums(count);
    for (std::size_t i = 0; i < v.size(); ++i) {
      sums[to[i]] = sums[to[i]] ? Combine(op.kind, *sums[to[i]], v[i]) : v[i];
    }
    const std::size_t entries = count == 0 ? 0 : v.size() / count;  // Behind each result.
    std::vector<T> out;
    out.reserve(count);
    for (const std::optional<T>& sum : sums) {
      T element = sum.value_or(T{});
      if (op.kind == Reduce::Kind::kMean) element /= static_cast<T>(entries);
      out.push_back(element);
    }
    return out;
  }
};

}  // namespace

absl::StatusOr<std::shared_ptr<const Constant>> Fold(const Graph& graph, const Node& node) {
  bool small =
      TensorBytes(graph.value(node.output).type, graph.value(node.output).shape) <= kMaxFolded;
  for (const std::optional<ValueId>& input : node.inputs) {
    if (!input || graph.value(*input).constant == nullptr) return nullptr;
    small = small && graph.value(*input).constant->size() <= kMaxFolded;
  }
  if (std::holds_alternative<Reshape>(node.operation)) {
    return graph.value(*node.inputs[0]).constant;
  }
  if (!small) return nullptr;
  SLUICE_ASSIGN_OR_RETURN(std::optional<std::vector<std::byte>> bytes,
                          std::visit(Folder{graph, node}, node.operation));
  if (!bytes) return nullptr;
  return InlineConstant(*std::move(bytes));
}

}  // namespace sluice
