// Random nodes of every family against the reference, at every instruction set, place in memory and
// in place where that is allowed. A failure names the seed that replays it.

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <numeric>
#include <ostream>
#include <utility>

#include "engine/kernels/kernel_case.h"

namespace sluice::kernels {
namespace {

struct Problem {
  KernelCase node;
  Tolerance tolerance;
};

constexpr std::array kMovedTypes = {DataType::kFloat32, DataType::kFloat64, DataType::kFloat16,
                                    DataType::kInt8,    DataType::kInt64,   DataType::kUint16,
                                    DataType::kBool,    DataType::kUint32};
constexpr std::array kAllTypes = {DataType::kFloat32,  DataType::kFloat64, DataType::kFloat16,
                                  DataType::kBfloat16, DataType::kInt8,    DataType::kInt16,
                                  DataType::kInt32,    DataType::kInt64,   DataType::kUint8,
                                  DataType::kUint16,   DataType::kUint32,  DataType::kUint64,
                                  DataType::kBool};

DataType AnyMovedType(Draw& draw) {
  return kMovedTypes[static_cast<std::size_t>(draw.Below(std::ssize(kMovedTypes)))];
}

// `shape` with dimensions left out at the front, and some of the others of size 1.
Shape AnyBroadcast(Draw& draw, const Shape& shape) {
  Shape part(shape.begin() + draw.Below(std::ssize(shape) + 1), shape.end());
  for (std::int64_t& size : part) {
    if (draw.Below(3) == 0) size = 1;
  }
  return part;
}

Problem AnyUnary(Draw& draw) {
  auto kind = static_cast<Unary::Kind>(draw.Below(kUnaryKinds));
  if (kind == Unary::Kind::kNot) kind = Unary::Kind::kSign;  // Not of floats.
  KernelCase node(Unary{.kind = kind, .alpha = 0.25f, .beta = 0.75f});
  node.Input(draw, draw.AnyShape(draw.Below(5), 20));
  return {std::move(node), {.ulp = 5, .absolute = 1e-6f}};
}

Problem AnyBinary(Draw& draw) {
  const std::array types = {DataType::kFloat32, DataType::kInt32, DataType::kInt64};
  const DataType type =
      types[static_cast<std::size_t>(std::max<std::int64_t>(0, draw.Below(5) - 2))];
  auto kind = static_cast<Binary::Kind>(draw.Below(kBinaryKinds));
  const bool power = kind == Binary::Kind::kPower;
  if (power && type != DataType::kFloat32) kind = Binary::Kind::kAdd;
  const Shape shape = draw.AnyShape(draw.Below(6), 9);
  Shape a = AnyBroadcast(draw, shape), b = AnyBroadcast(draw, shape);
  (draw.Coin() ? a : b) = shape;
  KernelCase node(Binary{kind});
  node.Input(draw, a, type, power ? 0.0f : -9.0f, 9).Input(draw, b, type, -9, 9);
  return {std::move(node), {.ulp = 1}};
}

Problem AnyChannelAffine(Draw& draw) {
  const Shape shape = draw.AnyShape(draw.Between(2, 5), 18);
  ChannelAffine affine;
  if (draw.Coin()) affine.epilogues.push_back({.unary = {.kind = Unary::Kind::kRelu}});
  if (draw.Coin())
    affine.epilogues.push_back({.kind = Epilogue::Kind::kAdd, .unary = {}, .input = 3});
  if (draw.Coin()) affine.epilogues.push_back({.unary = {.kind = Unary::Kind::kTanh}});
  const bool adds = std::ranges::any_of(
      affine.epilogues, [](const Epilogue& e) { return e.kind == Epilogue::Kind::kAdd; });
  KernelCase node(affine);
  node.Input(draw, shape);
  node.Input(draw, {shape[1]}).Constant().Input(draw, {shape[1]}).Constant();
  if (adds) node.Input(draw, shape);
  return {std::move(node), {.ulp = 8, .absolute = 1e-5f}};
}

Problem AnyCast(Draw& draw) {
  const DataType from = kAllTypes[static_cast<std::size_t>(draw.Below(std::ssize(kAllTypes)))];
  const DataType to = kAllTypes[static_cast<std::size_t>(draw.Below(std::ssize(kAllTypes)))];
  const Shape shape = draw.AnyShape(draw.Below(4), 20);
  const float reach = draw.Coin() ? 300.0f : draw.Coin() ? 1e20f : 1e-5f;
  KernelCase node((Cast()));
  node.Input(draw, shape, from, -reach, reach).Output(shape, to);
  return {std::move(node), {}};
}

Problem AnySoftmax(Draw& draw) {
  const Shape shape = draw.AnyShape(draw.Between(1, 3), 70);
  const std::int64_t axis = draw.Below(std::ssize(shape));
  KernelCase node(Softmax{.axis = axis, .log = draw.Coin()});
  node.Input(draw, shape, DataType::kFloat32, -30, 30);
  return {std::move(node), {.ulp = 8, .absolute = 1e-6f}};
}

Problem AnyReduce(Draw& draw) {
  const auto kind = static_cast<Reduce::Kind>(draw.Below(kReduceKinds));
  const Shape shape = draw.AnyShape(draw.Between(0, 5), 7);
  Reduce reduce{.kind = kind, .axes = {}};
  Shape out;
  const bool keep = draw.Coin();
  for (std::size_t d = 0; d < shape.size(); ++d) {
    const bool reduced = draw.Coin();
    if (reduced) reduce.axes.push_back(static_cast<std::int64_t>(d));
    if (!reduced) out.push_back(shape[d]);
    if (reduced && keep) out.push_back(1);
  }
  KernelCase node(reduce);
  // A product of many keeps near 1, and in range.
  const bool product = kind == Reduce::Kind::kProduct;
  node.Input(draw, shape, DataType::kFloat32, product ? 0.9f : -1.0f, product ? 1.1f : 2.0f)
      .Output(out);
  // Sums: n roundings of partial sums, none above n * 2.
  const auto n = static_cast<float>(ElementCount(shape));
  return {std::move(node), {.ulp = product ? n + 1 : 8, .absolute = n * n * 1e-8f}};
}

Problem AnyPool(Draw& draw) {
  const std::int64_t spatial = draw.Between(1, 3);
  Pool pool;
  pool.kind = draw.Coin() ? Pool::Kind::kMax : Pool::Kind::kAverage;
  pool.count_include_pad = draw.Coin();
  Shape shape = {draw.Between(1, 2), draw.Between(1, 3)};
  for (std::int64_t d = 0; d < spatial; ++d) {
    pool.kernel.push_back(draw.Between(1, 5));
    pool.strides.push_back(draw.Between(1, 3));
    pool.dilations.push_back(draw.Between(1, 2));
    pool.pads_begin.push_back(draw.Below(3));
    pool.pads_end.push_back(draw.Below(5));
    const std::int64_t reach = (pool.kernel.back() - 1) * pool.dilations.back() + 1;
    const std::int64_t pads = pool.pads_begin.back() + pool.pads_end.back();
    shape.push_back(std::max<std::int64_t>(1, reach - pads) + draw.Below(20));
  }
  KernelCase node(pool);
  node.Input(draw, shape);
  return {std::move(node), {.ulp = 4, .absolute = 2e-6f}};
}

Problem AnyLrn(Draw& draw) {
  Shape shape = draw.AnyShape(draw.Between(3, 4), 12);
  shape[1] = draw.Between(1, 9);
  Lrn lrn{
      .size = draw.Between(1, 6), .alpha = 0.3f, .beta = draw.Coin() ? 0.75f : 0.5f, .bias = 1.5f};
  KernelCase node(lrn);
  node.Input(draw, shape);
  return {std::move(node), {.ulp = 16}};
}

Problem AnyMatMul(Draw& draw) {
  const Shape batch = draw.AnyShape(draw.Below(3), 3);
  const std::int64_t m = draw.Between(1, 40), n = draw.Between(1, 80), k = draw.Between(0, 300);
  MatMul product{.transposed_a = draw.Coin(), .transposed_b = draw.Coin(), .alpha = 0.5f};
  Shape a = AnyBroadcast(draw, batch), b = AnyBroadcast(draw, batch);
  (draw.Coin() ? a : b) = batch;
  a.insert(a.end(), {product.transposed_a ? k : m, product.transposed_a ? m : k});
  b.insert(b.end(), {product.transposed_b ? n : k, product.transposed_b ? k : n});
  KernelCase node(product);
  node.Input(draw, a, DataType::kFloat32, -1, 1).Input(draw, b, DataType::kFloat32, -1, 1);
  return {std::move(node), {.ulp = 4, .absolute = 2e-5f}};
}

// A product whose operands and result are permuted, as attention has them.
Problem AnyPermutedMatMul(Draw& draw) {
  const std::int64_t batch = draw.Between(1, 3), heads = draw.Between(1, 3);
  const std::int64_t m = draw.Between(1, 40), n = draw.Between(1, 80), k = draw.Between(0, 70);
  const std::vector<std::int64_t> split = {0, 2, 1, 3}, turned = {0, 2, 3, 1};
  const bool turn = draw.Coin();
  const MatMul product{.transposed_b = !turn,
                       .alpha = 0.5f,
                       .perm_a = split,
                       .perm_b = turn ? turned : split,
                       .perm_y = draw.Coin() ? split : std::vector<std::int64_t>()};
  KernelCase node(product);
  node.Input(draw, {batch, m, heads, k}, DataType::kFloat32, -1, 1)
      .Input(draw, {draw.Coin() ? 1 : batch, n, heads, k}, DataType::kFloat32, -1, 1);
  return {std::move(node), {.ulp = 4, .absolute = 2e-5f}};
}

Problem AnyNormalize(Draw& draw) {
  const Shape shape = draw.AnyShape(draw.Between(2, 4), 40);
  Normalize normalize{.axis = draw.Below(std::ssize(shape)),
                      .epsilon = 1e-3f,
                      .centred = draw.Coin(),
                      .per_channel = draw.Coin()};
  Shape parameters(shape.begin() + normalize.axis, shape.end());
  if (normalize.per_channel) {
    parameters = {shape[1]};
    normalize.groups = draw.Coin() && shape[1] > 0 ? shape[1] : 1;
  }
  KernelCase node(normalize);
  node.Input(draw, shape, DataType::kFloat32, -2, 4);
  if (draw.Coin()) {
    node.Input(draw, parameters);
    if (draw.Coin()) node.Input(draw, parameters);
  }
  return {std::move(node), {.ulp = 16, .absolute = 4e-5f}};
}

Problem AnyResize(Draw& draw) {
  Resize resize;
  resize.mode = static_cast<Resize::Mode>(draw.Below(3));
  resize.coordinates = static_cast<Resize::Coordinates>(draw.Below(4));
  resize.rounding = static_cast<Resize::Rounding>(draw.Below(4));
  const std::int64_t spatial = draw.Between(1, 3);
  Shape in = {draw.Between(1, 2), draw.Between(1, 3)};
  Shape out = in;
  resize.scales = {1, 1};
  for (std::int64_t d = 0; d < spatial; ++d) {
    in.push_back(draw.Between(1, 20));
    const std::int64_t how = draw.Below(4);
    const float scale = how == 0 ? 1.0f : how == 1 ? 2.0f : draw.Float(0.3f, 4.0f);
    const auto size = static_cast<std::int64_t>(static_cast<float>(in.back()) * scale);
    out.push_back(std::max<std::int64_t>(1, size));
    resize.scales.push_back(
        draw.Coin() ? scale : static_cast<float>(out.back()) / static_cast<float>(in.back()));
  }
  KernelCase node(resize);
  node.Input(draw, in).Output(out);
  return {std::move(node), {.ulp = 4, .absolute = 2e-5f}};
}

Problem AnyConcat(Draw& draw) {
  Shape shape = draw.AnyShape(draw.Between(1, 4), 9);
  const std::int64_t axis = draw.Below(std::ssize(shape));
  const DataType type = AnyMovedType(draw);
  KernelCase node(Concat{axis});
  for (std::int64_t parts = draw.Between(1, 4); parts > 0; --parts) {
    shape[static_cast<std::size_t>(axis)] = draw.Below(7);
    node.Input(draw, shape, type);
  }
  return {std::move(node), {}};
}

Problem AnyTranspose(Draw& draw) {
  const Shape shape = draw.AnyShape(draw.Between(0, 5), 40 / draw.Between(2, 8));
  Transpose transpose;
  transpose.perm.resize(shape.size());
  std::iota(transpose.perm.begin(), transpose.perm.end(), 0);
  for (std::int64_t i = std::ssize(shape) - 1; i > 0; --i) {
    std::swap(transpose.perm[static_cast<std::size_t>(i)],
              transpose.perm[static_cast<std::size_t>(draw.Below(i + 1))]);
  }
  KernelCase node(transpose);
  node.Input(draw, shape, AnyMovedType(draw));
  return {std::move(node), {}};
}

Problem AnySlice(Draw& draw) {
  const Shape in = draw.AnyShape(draw.Between(1, 4), 18);
  Slice slice;
  Shape out;
  for (const std::int64_t size : in) {
    const std::int64_t start = size == 0 ? 0 : draw.Below(size), step = draw.Between(1, 3);
    const bool backwards = draw.Coin();
    const std::int64_t room = size == 0 ? 0 : (backwards ? start : size - 1 - start) / step + 1;
    slice.starts.push_back(start);
    slice.steps.push_back(backwards ? -step : step);
    out.push_back(draw.Between(0, room));
  }
  KernelCase node(slice);
  node.Input(draw, in, AnyMovedType(draw)).Output(out);
  return {std::move(node), {}};
}

Problem AnyPad(Draw& draw) {
  Shape in = draw.AnyShape(draw.Between(1, 5), 9);
  Pad pad{.mode = static_cast<Pad::Mode>(draw.Below(3)), .begin = {}, .end = {}, .value = 2};
  for (std::int64_t& size : in) {
    if (pad.mode != Pad::Mode::kConstant) size = std::max<std::int64_t>(size, 1);
    const std::int64_t most = pad.mode == Pad::Mode::kReflect ? size - 1 : 4;
    const bool padded = draw.Coin();
    pad.begin.push_back(padded ? draw.Between(0, most) : 0);
    pad.end.push_back(padded ? draw.Between(0, most) : 0);
  }
  const std::array types = {DataType::kFloat32, DataType::kFloat64, DataType::kInt64,
                            DataType::kUint8};
  KernelCase node(pad);
  node.Input(draw, in, types[static_cast<std::size_t>(draw.Below(4))]);
  return {std::move(node), {}};
}

Problem AnyGather(Draw& draw) {
  Shape shape = draw.AnyShape(draw.Between(1, 4), 9);
  const std::int64_t axis = draw.Below(std::ssize(shape));
  std::int64_t& size = shape[static_cast<std::size_t>(axis)];
  size = std::max<std::int64_t>(1, size);
  KernelCase node(Gather{axis});
  node.Input(draw, shape, AnyMovedType(draw));
  // A little out of range on both sides: that gives zeros.
  const auto reach = static_cast<float>(size) + 1.5f;
  node.Input(draw, draw.AnyShape(draw.Below(3), 6),
             draw.Coin() ? DataType::kInt64 : DataType::kInt32, -reach, reach);
  return {std::move(node), {}};
}

Problem AnyExpand(Draw& draw) {
  const Shape out = draw.AnyShape(draw.Between(0, 5), 9);
  KernelCase node((Expand()));
  node.Input(draw, AnyBroadcast(draw, out), AnyMovedType(draw)).Output(out);
  return {std::move(node), {}};
}

Problem AnyReshape(Draw& draw) {
  const Shape in = draw.AnyShape(draw.Between(0, 4), 18);
  KernelCase node((Reshape()));
  node.Input(draw, in, AnyMovedType(draw)).Output({static_cast<std::int64_t>(ElementCount(in))});
  return {std::move(node), {}};
}

Problem AnyRecurrent(Draw& draw) {
  using Kind = Recurrent::Kind;
  const auto kind = static_cast<Kind>(draw.Below(3));
  const std::int64_t gates = kind == Kind::kRnn ? 1 : kind == Kind::kGru ? 3 : 4;
  Recurrent op;
  op.kind = kind;
  op.direction = static_cast<Recurrent::Direction>(draw.Below(3));
  const std::int64_t directions = op.direction == Recurrent::Direction::kBidirectional ? 2 : 1;
  const std::array kinds = {Unary::Kind::kSigmoid, Unary::Kind::kTanh, Unary::Kind::kRelu,
                            Unary::Kind::kHardSigmoid};
  for (std::int64_t i = 0; i < directions * std::min<std::int64_t>(gates, 3); ++i) {
    if (kind == Kind::kGru && i >= directions * 2) break;
    const std::int64_t any = draw.Below(std::ssize(kinds));
    op.activations.push_back(
        {.kind = kinds[static_cast<std::size_t>(any)], .alpha = 0.2f, .beta = 0.5f});
  }
  if (draw.Coin()) op.clip = 0.75f;
  op.linear_before_reset = draw.Coin();
  op.coupled_input_forget = draw.Below(4) == 0;
  const std::int64_t steps = draw.Below(5), batch = draw.Below(4), hidden = draw.Below(70);
  KernelCase node(op);
  // Small enough that states stay near 1 and rounding errors do not grow from step to step.
  const auto floats = [&](Shape shape) {
    node.Input(draw, std::move(shape), DataType::kFloat32, -0.1f, 0.1f);
  };
  const auto maybe = [&](const Shape& shape) {
    draw.Coin() ? floats(shape) : static_cast<void>(node.Absent());
  };
  floats({steps, batch, directions * gates * hidden});
  floats({directions, gates * hidden, hidden});
  maybe({directions, 2 * gates * hidden});
  if (draw.Coin()) {
    node.Input(draw, {batch}, DataType::kInt32, -1, 6);
  } else {
    node.Absent();
  }
  maybe({directions, batch, hidden});
  if (kind == Kind::kLstm) {
    maybe({directions, batch, hidden});
    maybe({directions, 3 * hidden});
  }
  return {std::move(node), {.ulp = 64, .absolute = 1e-5f}};
}

using Generator = Problem (*)(Draw&);
struct Family {
  const char* name;
  Generator any;
  friend void PrintTo(const Family& family, std::ostream* out) { *out << family.name; }
};
constexpr Family kFamilies[] = {
    {"unary", &AnyUnary},
    {"binary", &AnyBinary},
    {"affine", &AnyChannelAffine},
    {"cast", &AnyCast},
    {"softmax", &AnySoftmax},
    {"reduce", &AnyReduce},
    {"pool", &AnyPool},
    {"lrn", &AnyLrn},
    {"matmul", &AnyMatMul},
    {"resize", &AnyResize},
    {"concat", &AnyConcat},
    {"transpose", &AnyTranspose},
    {"slice", &AnySlice},
    {"pad", &AnyPad},
    {"gather", &AnyGather},
    {"expand", &AnyExpand},
    {"reshape", &AnyReshape},
    {"normalize", &AnyNormalize},
    {"permuted_matmul", &AnyPermutedMatMul},
    {"recurrent", &AnyRecurrent},
};

class KernelProperty : public testing::TestWithParam<Family> {};

TEST_P(KernelProperty, AgreesWithTheReference) {
  for (std::uint64_t seed = 0; seed < 150; ++seed) {
    for (const Loops* loops : AvailableLoops()) {
      SCOPED_TRACE(testing::Message() << "replay with seed " << seed << " for " << loops->isa);
      Draw draw(seed);
      Problem problem = GetParam().any(draw);
      const auto misalignment = static_cast<std::size_t>(draw.Below(4));
      const absl::Status status = problem.node.Check(
          *loops, problem.tolerance, {.misalignment = misalignment, .in_place = {}});
      ASSERT_TRUE(status.ok()) << status;
    }
  }
}

TEST_P(KernelProperty, GivesTheSameBitsInPlace) {
  int tried = 0;
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    for (const std::size_t input : {0u, 1u}) {
      SCOPED_TRACE(testing::Message() << "replay with seed " << seed << ", input " << input);
      Draw draw(seed), same(seed), again(seed);
      const absl::StatusOr<Kernel> kernel = GetParam().any(draw).node.Make(BestLoops());
      ASSERT_TRUE(kernel.ok()) << kernel.status();
      if (input == 0 ? !kernel->in_place_0 : !kernel->in_place_1) continue;
      ++tried;
      EXPECT_EQ(GetParam().any(same).node.Run(BestLoops(), {.in_place = input}),
                GetParam().any(again).node.Run(BestLoops()));
    }
  }
  RecordProperty("in_place", tried);
}

INSTANTIATE_TEST_SUITE_P(Families, KernelProperty, testing::ValuesIn(kFamilies),
                         [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace sluice::kernels
