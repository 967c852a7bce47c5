// Random nodes of element types beside FP32, and of operations that know all types, against the
// reference. A failure names the seed that replays it.

#include <gtest/gtest.h>

#include <array>
#include <ostream>
#include <utility>

#include "engine/kernels/kernel_case.h"

namespace sluice::kernels {
namespace {

constexpr std::array kNumbers = {DataType::kFloat64, DataType::kInt8,   DataType::kInt16,
                                 DataType::kInt32,   DataType::kInt64,  DataType::kUint8,
                                 DataType::kUint16,  DataType::kUint32, DataType::kUint64,
                                 DataType::kFloat32};
constexpr std::array kFloats = {DataType::kFloat32, DataType::kFloat64};

template <std::size_t n>
DataType Any(Draw& draw, const std::array<DataType, n>& types) {
  return types[static_cast<std::size_t>(draw.Below(static_cast<std::int64_t>(n)))];
}

// `shape` with dimensions left out at the front, and some of the others of size 1.
Shape AnyBroadcast(Draw& draw, const Shape& shape) {
  Shape part(shape.begin() + draw.Below(std::ssize(shape) + 1), shape.end());
  for (std::int64_t& size : part) {
    if (draw.Below(3) == 0) size = 1;
  }
  return part;
}

// What the random contents of an operand reach: integers of all signs that the type has.
float Reach(DataType type) {
  return type == DataType::kInt8 || type == DataType::kUint8 ? 120.0f : 1000.0f;
}

KernelCase AnyWideUnary(Draw& draw) {
  auto kind = static_cast<Unary::Kind>(draw.Below(39));
  if (kind == Unary::Kind::kNot) kind = Unary::Kind::kRound;
  KernelCase node(Unary{.kind = kind, .alpha = 0.25f, .beta = 0.75f});
  node.Input(draw, draw.AnyShape(draw.Below(5), 20), DataType::kFloat64, -4, 4);
  return node;
}

KernelCase AnyIntegerUnary(Draw& draw) {
  constexpr std::array kKinds = {Unary::Kind::kRelu, Unary::Kind::kAbs, Unary::Kind::kNegate,
                                 Unary::Kind::kSign, Unary::Kind::kNot};
  KernelCase node(Unary{.kind = kKinds[static_cast<std::size_t>(draw.Below(5))]});
  const DataType type = kNumbers[static_cast<std::size_t>(draw.Between(1, 8))];
  node.Input(draw, draw.AnyShape(draw.Below(5), 20), type, -Reach(type), Reach(type));
  return node;
}

KernelCase AnyTypedBinary(Draw& draw) {
  DataType type = Any(draw, kNumbers);
  auto kind = static_cast<Binary::Kind>(draw.Below(14));
  const bool bits = kind >= Binary::Kind::kAnd;
  if (kind > Binary::Kind::kXor) type = kNumbers[static_cast<std::size_t>(draw.Between(5, 8))];
  if (bits && (type == DataType::kFloat32 || type == DataType::kFloat64)) type = DataType::kInt16;
  if (bits && kind <= Binary::Kind::kXor && draw.Coin()) type = DataType::kBool;
  const bool power = kind == Binary::Kind::kPower;
  const DataType second = power ? Any(draw, kNumbers) : type;
  const Shape shape = draw.AnyShape(draw.Below(5), 9);
  Shape a = AnyBroadcast(draw, shape), b = AnyBroadcast(draw, shape);
  (draw.Coin() ? a : b) = shape;
  const float reach = power || type == DataType::kBool ? 3.0f : Reach(type);
  const float low = power ? 0.0f : -reach;
  KernelCase node(Binary{kind});
  node.Input(draw, a, type, low, reach).Input(draw, b, second, low, reach);
  return node;
}

KernelCase AnyCompare(Draw& draw) {
  const DataType type = draw.Below(8) == 0 ? DataType::kBool : Any(draw, kNumbers);
  const auto kind =
      type == DataType::kBool ? Compare::Kind::kEqual : static_cast<Compare::Kind>(draw.Below(3));
  const Shape shape = draw.AnyShape(draw.Below(5), 9);
  KernelCase node(Compare{kind});
  node.Input(draw, shape, type, -3, 3).Input(draw, AnyBroadcast(draw, shape), type, -3, 3);
  node.Output(shape, DataType::kBool);
  return node;
}

KernelCase AnySelect(Draw& draw) {
  const DataType type = draw.Below(8) == 0 ? DataType::kBool : Any(draw, kNumbers);
  const Shape shape = draw.AnyShape(draw.Below(5), 9);
  KernelCase node((Select()));
  node.Input(draw, AnyBroadcast(draw, shape), DataType::kBool, -1, 1);
  node.Input(draw, shape, type, -9, 9).Input(draw, AnyBroadcast(draw, shape), type, -9, 9);
  node.Output(shape, type);
  return node;
}

KernelCase AnyTypedReduce(Draw& draw) {
  const DataType type = kNumbers[static_cast<std::size_t>(draw.Below(9))];
  const Shape shape = draw.AnyShape(draw.Between(0, 5), 7);
  Reduce reduce{.kind = static_cast<Reduce::Kind>(draw.Below(7)), .axes = {}};
  Shape out;
  for (std::size_t d = 0; d < shape.size(); ++d) {
    const bool reduced = draw.Coin();
    if (reduced) reduce.axes.push_back(static_cast<std::int64_t>(d));
    if (!reduced) out.push_back(shape[d]);
  }
  // Sums whose squares wrap have no root.
  const float reach = reduce.kind == Reduce::Kind::kProduct ? 2.0f : 20.0f;
  const bool wide = type == DataType::kFloat64;
  KernelCase node(reduce);
  node.Input(draw, shape, type, wide ? 0.5f : -reach, wide ? 1.5f : reach).Output(out);
  return node;
}

KernelCase AnyArgReduce(Draw& draw) {
  Shape shape = draw.AnyShape(draw.Between(1, 4), 9);
  const std::int64_t axis = draw.Below(std::ssize(shape));
  std::int64_t& size = shape[static_cast<std::size_t>(axis)];
  size = std::max<std::int64_t>(size, 1);
  KernelCase node(ArgReduce{.kind = draw.Coin() ? ArgReduce::Kind::kMax : ArgReduce::Kind::kMin,
                            .axis = axis,
                            .last = draw.Coin()});
  node.Input(draw, shape, Any(draw, kNumbers), -5, 5);
  size = 1;
  node.Output(shape, DataType::kInt64);
  return node;
}

KernelCase AnyHardmax(Draw& draw) {
  const Shape shape = draw.AnyShape(draw.Between(1, 4), 9);
  KernelCase node(Hardmax{.axis = draw.Below(std::ssize(shape))});
  node.Input(draw, shape, Any(draw, kFloats));
  return node;
}

KernelCase AnyCumulativeSum(Draw& draw) {
  const Shape shape = draw.AnyShape(draw.Between(1, 4), 9);
  KernelCase node(CumulativeSum{
      .axis = draw.Below(std::ssize(shape)), .exclusive = draw.Coin(), .reverse = draw.Coin()});
  // No floats whose sums would round.
  node.Input(draw, shape, kNumbers[static_cast<std::size_t>(draw.Between(1, 8))], -99, 99);
  return node;
}

using Generator = KernelCase (*)(Draw&);
struct Family {
  const char* name;
  Generator any;
  friend void PrintTo(const Family& family, std::ostream* out) { *out << family.name; }
};
constexpr Family kFamilies[] = {
    {"wide_unary", &AnyWideUnary},
    {"integer_unary", &AnyIntegerUnary},
    {"typed_binary", &AnyTypedBinary},
    {"compare", &AnyCompare},
    {"select", &AnySelect},
    {"typed_reduce", &AnyTypedReduce},
    {"arg_reduce", &AnyArgReduce},
    {"hardmax", &AnyHardmax},
    {"cumulative_sum", &AnyCumulativeSum},
};

class TypedKernelProperty : public testing::TestWithParam<Family> {};

TEST_P(TypedKernelProperty, AgreesWithTheReference) {
  for (std::uint64_t seed = 0; seed < 400; ++seed) {
    SCOPED_TRACE(testing::Message() << "replay with seed " << seed);
    Draw draw(seed);
    KernelCase node = GetParam().any(draw);
    const auto misalignment = static_cast<std::size_t>(draw.Below(4));
    const absl::Status status =
        node.Check(BestLoops(), {.ulp = 1}, {.misalignment = misalignment, .in_place = {}});
    ASSERT_TRUE(status.ok()) << status;
  }
}

INSTANTIATE_TEST_SUITE_P(Families, TypedKernelProperty, testing::ValuesIn(kFamilies),
                         [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace sluice::kernels
