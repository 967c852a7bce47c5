// The definitions against answers worked out by hand or printed in the ONNX specification.

#include "engine/reference/definitions.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <utility>

#include "engine/reference/element.h"

namespace sluice::reference {
namespace {

using testing::ElementsAre;
using testing::FloatNear;
using testing::Pointwise;

constexpr float kInfinity = std::numeric_limits<float>::infinity();
const float kNan = std::numeric_limits<float>::quiet_NaN();

template <typename T>
constexpr DataType kTypeOf = DataType::kFloat32;
template <>
constexpr DataType kTypeOf<std::int64_t> = DataType::kInt64;
template <>
constexpr DataType kTypeOf<std::int32_t> = DataType::kInt32;
template <>
constexpr DataType kTypeOf<std::int8_t> = DataType::kInt8;
template <>
constexpr DataType kTypeOf<Half> = DataType::kFloat16;
template <>
constexpr DataType kTypeOf<Bfloat16> = DataType::kBfloat16;

template <typename T = float>
struct Array {
  Shape shape;
  std::vector<T> elements;

  Tensor tensor() const {
    return {.type = kTypeOf<T>,
            .shape = shape,
            .data = reinterpret_cast<const std::byte*>(elements.data())};
  }
};

template <typename T = float>
std::vector<T> Compute(const Operation& operation, const std::vector<Tensor>& inputs,
                       const Shape& shape) {
  std::vector<T> y(ElementCount(shape));
  Evaluate(operation, inputs,
           {.type = kTypeOf<T>, .shape = shape, .data = reinterpret_cast<std::byte*>(y.data())});
  return y;
}

Array<> Counting(Shape shape, float first = 0) {
  Array<> array{std::move(shape), {}};
  for (std::uint64_t i = 0; i < ElementCount(array.shape); ++i) {
    array.elements.push_back(first + static_cast<float>(i));
  }
  return array;
}
Array<> Filled(Shape shape, float value) {
  const std::size_t count = ElementCount(shape);
  return {std::move(shape), std::vector<float>(count, value)};
}

Convolution Conv(std::size_t rank, std::int64_t kernel) {
  Convolution conv;
  conv.kernel.assign(rank, kernel);
  conv.strides.assign(rank, 1);
  conv.dilations.assign(rank, 1);
  conv.pads_begin.assign(rank, 0);
  conv.pads_end.assign(rank, 0);
  return conv;
}

TEST(DefinitionsTest, ConvolutionSumsEachWindow) {
  const Array<> x = Counting({1, 1, 3, 3}), w = Filled({1, 1, 2, 2}, 1);
  EXPECT_THAT(Compute(Conv(2, 2), {x.tensor(), w.tensor()}, {1, 1, 2, 2}),
              ElementsAre(8, 12, 20, 24));
}

TEST(DefinitionsTest, ConvolutionHonoursStridesPadsAndDilations) {
  Convolution conv = Conv(2, 2);
  conv.strides = {2, 1};
  conv.dilations = {1, 2};
  conv.pads_begin = {1, 0};
  conv.pads_end = {0, 1};
  const Array<> x = Counting({1, 1, 3, 3}, 1), w{{1, 1, 2, 2}, {1, 10, 100, 1000}};
  // Windows start at rows -1 and 1, at columns 0 and 1, and skip a column.
  EXPECT_THAT(
      Compute(conv, {x.tensor(), w.tensor()}, {1, 1, 2, 2}),
      ElementsAre(100 * 1 + 1000 * 3, 100 * 2, 4 + 10 * 6 + 100 * 7 + 1000 * 9, 5 + 100 * 8));
}

TEST(DefinitionsTest, ConvolutionInGroupsReadsItsOwnChannels) {
  Convolution conv = Conv(1, 1);
  conv.groups = 2;
  const Array<> x{{1, 4, 1}, {1, 2, 3, 4}}, w{{2, 2, 1}, {1, 10, 100, 1000}};
  EXPECT_THAT(Compute(conv, {x.tensor(), w.tensor()}, {1, 2, 1}), ElementsAre(21, 4300));
}

TEST(DefinitionsTest, ConvolutionAppliesScaleThenBiasThenItsTail) {
  Convolution conv = Conv(3, 1);
  conv.epilogues = {
      {.kind = Epilogue::Kind::kAdd, .unary = {}, .input = 4},
      {.kind = Epilogue::Kind::kUnary, .unary = {.kind = Unary::Kind::kRelu}, .input = 0}};
  const Array<> x{{1, 1, 1, 1, 2}, {1, 2}}, w{{2, 1, 1, 1, 1}, {3, -5}}, bias{{2}, {0.5f, 1}};
  const Array<> scale{{2}, {2, 1}}, residual{{1, 2, 1, 1, 2}, {100, 200, 3, 10}};
  EXPECT_THAT(
      Compute(conv, {x.tensor(), w.tensor(), bias.tensor(), scale.tensor(), residual.tensor()},
              {1, 2, 1, 1, 2}),
      ElementsAre(106.5f, 212.5f, 0, 1));
}

TEST(DefinitionsTest, TransposedConvolutionSpreadsEachElement) {
  Convolution conv = Conv(2, 3);
  conv.transposed = true;
  const Array<> x = Counting({1, 1, 3, 3}), w = Filled({1, 1, 3, 3}, 1);
  EXPECT_THAT(Compute(conv, {x.tensor(), w.tensor()}, {1, 1, 5, 5}),
              ElementsAre(0, 1, 3, 3, 2, 3, 8, 15, 12, 7, 9, 21, 36, 27, 15, 9, 20, 33, 24, 13, 6,
                          13, 21, 15, 8));
}

TEST(DefinitionsTest, TransposedConvolutionHonoursStridePadAndGroups) {
  Convolution conv = Conv(1, 3);
  conv.transposed = true;
  conv.strides = {2};
  conv.pads_begin = {1};
  conv.groups = 2;
  // Each input element adds (1, 10, 100) at 2 * i - 1; the second group's weights are negative.
  const Array<> x{{1, 2, 2}, {1, 2, 3, 4}}, w{{2, 1, 3}, {1, 10, 100, -1, -10, -100}};
  EXPECT_THAT(Compute(conv, {x.tensor(), w.tensor()}, {1, 2, 4}),
              ElementsAre(10, 102, 20, 200, -30, -304, -40, -400));
}

TEST(DefinitionsTest, FullyConnectedTakesBothOrdersOfItsWeights) {
  const Array<> a{{2, 2}, {1, 2, 3, 4}}, b{{2, 3}, {1, 2, 3, 4, 5, 6}};
  const Array<> transposed{{3, 2}, {1, 4, 2, 5, 3, 6}}, bias{{3}, {100, 200, 300}};
  const Array<> scale{{3}, {1, 2, 3}};
  const auto want = ElementsAre(109, 224, 345, 119, 252, 399);
  const std::vector<Tensor> inputs = {a.tensor(), b.tensor(), bias.tensor(), scale.tensor()};
  EXPECT_THAT(Compute(FullyConnected{}, inputs, {2, 3}), want);
  std::vector<Tensor> swapped = inputs;
  swapped[1] = transposed.tensor();
  FullyConnected by_rows;
  by_rows.transposed_b = true;
  EXPECT_THAT(Compute(by_rows, swapped, {2, 3}), want);
}

TEST(DefinitionsTest, MatMulBroadcastsBatchesAndTransposes) {
  const Array<> a{{2, 1, 1, 2}, {1, 2, 3, 4}}, b{{2, 2, 1}, {1, 10, 100, 1000}};
  EXPECT_THAT(Compute(MatMul{}, {a.tensor(), b.tensor()}, {2, 2, 1, 1}),
              ElementsAre(21, 2100, 43, 4300));
  const MatMul transposed{.transposed_a = true, .transposed_b = true, .alpha = 2};
  const Array<> c{{2, 1}, {1, 2}}, d{{2, 2}, {1, 2, 3, 4}};
  EXPECT_THAT(Compute(transposed, {c.tensor(), d.tensor()}, {1, 2}), ElementsAre(10, 22));
}

Pool Windows(Pool::Kind kind, std::int64_t kernel, std::int64_t stride, std::int64_t pad) {
  Pool pool;
  pool.kind = kind;
  pool.kernel = {kernel};
  pool.strides = {stride};
  pool.dilations = {1};
  pool.pads_begin = {pad};
  pool.pads_end = {pad};
  return pool;
}

TEST(DefinitionsTest, PoolsIgnorePaddingUnlessItCounts) {
  const Array<> x{{1, 1, 4}, {-1, -2, -6, -8}};
  EXPECT_THAT(Compute(Windows(Pool::Kind::kMax, 3, 2, 1), {x.tensor()}, {1, 1, 2}),
              ElementsAre(-1, -2));
  Pool average = Windows(Pool::Kind::kAverage, 3, 2, 1);
  EXPECT_THAT(Compute(average, {x.tensor()}, {1, 1, 2}), ElementsAre(-1.5f, -16 / 3.0f));
  average.count_include_pad = true;
  EXPECT_THAT(Compute(average, {x.tensor()}, {1, 1, 2}), ElementsAre(-1, -16 / 3.0f));
}

TEST(DefinitionsTest, MaxPoolPassesNanOnAndSettlesEmptyWindows) {
  const Array<> x{{1, 1, 3}, {1, kNan, -kInfinity}};
  EXPECT_THAT(Compute(Windows(Pool::Kind::kMax, 1, 1, 1), {x.tensor()}, {1, 1, 5}),
              ElementsAre(std::numeric_limits<float>::lowest(), 1, testing::IsNan(), -kInfinity,
                          std::numeric_limits<float>::lowest()));
}

TEST(DefinitionsTest, ChannelAffineScalesAndShiftsEachChannel) {
  const Array<> x{{1, 2, 2}, {1, 2, 3, 4}}, scale{{2}, {10, 100}}, shift{{2}, {1, -1}};
  EXPECT_THAT(Compute(ChannelAffine{}, {x.tensor(), scale.tensor(), shift.tensor()}, {1, 2, 2}),
              ElementsAre(11, 21, 299, 399));
}

TEST(DefinitionsTest, SoftmaxNormalisesAlongItsAxis) {
  const Array<> x{{2, 2}, {0, 7, std::log(3.0f), 7}};
  EXPECT_THAT(Compute(Softmax{.axis = 0}, {x.tensor()}, {2, 2}),
              Pointwise(FloatNear(1e-7f), std::vector<float>{0.25f, 0.5f, 0.75f, 0.5f}));
  EXPECT_THAT(Compute(Softmax{.axis = 0, .log = true}, {x.tensor()}, {2, 2}),
              Pointwise(FloatNear(1e-6f),
                        std::vector<float>{-1.3862944f, -0.6931472f, -0.2876821f, -0.6931472f}));
}

TEST(DefinitionsTest, LrnDividesByItsNeighboursSquares) {
  const Array<> x{{1, 3, 1}, {1, 2, 3}};
  const Lrn lrn{.size = 3, .alpha = 3, .beta = 1, .bias = 1};
  EXPECT_THAT(Compute(lrn, {x.tensor()}, {1, 3, 1}),
              Pointwise(FloatNear(1e-7f), std::vector<float>{1 / 6.0f, 2 / 15.0f, 3 / 14.0f}));
}

TEST(DefinitionsTest, ReduceCombinesItsAxes) {
  const Array<> x{{2, 1, 2}, {1, 2, 3, -4}};
  const auto reduce = [&](Reduce::Kind kind) {
    return Compute(Reduce{.kind = kind, .axes = {0, 1}}, {x.tensor()}, {2});
  };
  EXPECT_THAT(reduce(Reduce::Kind::kSum), ElementsAre(4, -2));
  EXPECT_THAT(reduce(Reduce::Kind::kMean), ElementsAre(2, -1));
  EXPECT_THAT(reduce(Reduce::Kind::kMax), ElementsAre(3, 2));
  EXPECT_THAT(reduce(Reduce::Kind::kMin), ElementsAre(1, -4));
  EXPECT_THAT(reduce(Reduce::Kind::kProduct), ElementsAre(3, -8));
  EXPECT_THAT(reduce(Reduce::Kind::kL2), ElementsAre(std::sqrt(10.0f), std::sqrt(20.0f)));
}

TEST(DefinitionsTest, MovesPutEachElementInItsPlace) {
  const Array<> x = Counting({2, 3}, 1);
  EXPECT_THAT(Compute(Transpose{{1, 0}}, {x.tensor()}, {3, 2}), ElementsAre(1, 4, 2, 5, 3, 6));
  EXPECT_THAT(Compute(Slice{.starts = {1, 2}, .steps = {-1, -2}}, {x.tensor()}, {2, 2}),
              ElementsAre(6, 4, 3, 1));
  EXPECT_THAT(Compute(Concat{.axis = 1}, {x.tensor(), x.tensor()}, {2, 6}),
              ElementsAre(1, 2, 3, 1, 2, 3, 4, 5, 6, 4, 5, 6));
  EXPECT_THAT(Compute(Expand{}, {x.tensor()}, {2, 2, 3}),
              ElementsAre(1, 2, 3, 4, 5, 6, 1, 2, 3, 4, 5, 6));
  EXPECT_THAT(Compute(Reshape{}, {x.tensor()}, {6}), ElementsAre(1, 2, 3, 4, 5, 6));
}

TEST(DefinitionsTest, PadShowsWhatItsModeSays) {
  const Array<> x{{3}, {1, 2, 3}};
  Pad pad{.mode = Pad::Mode::kConstant, .begin = {2}, .end = {1}, .value = 9};
  EXPECT_THAT(Compute(pad, {x.tensor()}, {6}), ElementsAre(9, 9, 1, 2, 3, 9));
  pad.mode = Pad::Mode::kReflect;
  EXPECT_THAT(Compute(pad, {x.tensor()}, {6}), ElementsAre(3, 2, 1, 2, 3, 2));
  pad.mode = Pad::Mode::kEdge;
  EXPECT_THAT(Compute(pad, {x.tensor()}, {6}), ElementsAre(1, 1, 1, 2, 3, 3));
}

TEST(DefinitionsTest, GatherCountsFromTheEndAndGivesZerosOutOfRange) {
  const Array<> x = Counting({2, 3}, 1);
  const Array<std::int64_t> indices{{4}, {-1, 0, 3, -4}};
  EXPECT_THAT(Compute(Gather{.axis = 1}, {x.tensor(), indices.tensor()}, {2, 4}),
              ElementsAre(3, 1, 0, 0, 6, 4, 0, 0));
}

TEST(DefinitionsTest, BinaryBroadcastsBothSides) {
  const Array<> a{{2, 1}, {1, 2}}, b{{3}, {10, 20, 30}};
  const auto binary = [&](Binary::Kind kind) {
    return Compute(Binary{kind}, {a.tensor(), b.tensor()}, {2, 3});
  };
  EXPECT_THAT(binary(Binary::Kind::kSubtract), ElementsAre(-9, -19, -29, -8, -18, -28));
  EXPECT_THAT(binary(Binary::Kind::kPower), ElementsAre(1, 1, 1, 1024, 1048576, 1073741824));
}

TEST(DefinitionsTest, BinaryPassesNanOnFromEitherSide) {
  const Array<> a{{3}, {kNan, 1, 1}}, b{{3}, {1, kNan, 2}};
  for (const Binary::Kind kind : {Binary::Kind::kMaximum, Binary::Kind::kMinimum}) {
    EXPECT_THAT(
        Compute(Binary{kind}, {a.tensor(), b.tensor()}, {3}),
        ElementsAre(testing::IsNan(), testing::IsNan(), kind == Binary::Kind::kMaximum ? 2 : 1));
  }
}

TEST(DefinitionsTest, IntegersWrapAndDivideBySafeRules) {
  constexpr auto kLow = std::numeric_limits<std::int64_t>::min();
  const Array<std::int64_t> a{{3}, {7, kLow, -7}}, b{{3}, {0, -1, 2}};
  EXPECT_THAT(Compute<std::int64_t>(Binary{Binary::Kind::kDivide}, {a.tensor(), b.tensor()}, {3}),
              ElementsAre(0, kLow, -3));
  EXPECT_THAT(Compute<std::int64_t>(Binary{Binary::Kind::kAdd}, {a.tensor(), b.tensor()}, {3}),
              ElementsAre(7, std::numeric_limits<std::int64_t>::max(), -5));
}

TEST(DefinitionsTest, CastClampsTruncatesAndRoundsToEven) {
  const Array<> x{{5}, {1.9f, -1.9f, 300, -kInfinity, kNan}};
  EXPECT_THAT(Compute<std::int8_t>(Cast{}, {x.tensor()}, {5}), ElementsAre(1, -1, 127, -128, 0));
  const Array<std::int32_t> wide{{2}, {257, -129}};
  EXPECT_THAT(Compute<std::int8_t>(Cast{}, {wide.tensor()}, {2}), ElementsAre(1, 127));
  // 2049 and 2051 lie between two halves; 65520 is the first that has none.
  const Array<> halves{{5}, {2049, 2051, 65519, 65520, 0x1p-25f}};
  const std::vector<Half> rounded = Compute<Half>(Cast{}, {halves.tensor()}, {5});
  EXPECT_EQ(rounded[0].Get(), 2048);
  EXPECT_EQ(rounded[1].Get(), 2052);
  EXPECT_EQ(rounded[2].Get(), 65504);
  EXPECT_EQ(rounded[3].Get(), kInfinity);
  EXPECT_EQ(rounded[4].Get(), 0);
  const Array<> brains{{2}, {1.00390625f, 1.01171875f}};
  const std::vector<Bfloat16> brief = Compute<Bfloat16>(Cast{}, {brains.tensor()}, {2});
  EXPECT_EQ(brief[0].Get(), 1.0);
  EXPECT_EQ(brief[1].Get(), 1.015625);
}

TEST(DefinitionsTest, UnaryFunctionsHaveTheirKnownValues) {
  const auto at = [](Unary::Kind kind, double x, float alpha = 0, float beta = 0) {
    return Apply(Unary{.kind = kind, .alpha = alpha, .beta = beta}, x);
  };
  EXPECT_EQ(at(Unary::Kind::kRelu, -2), 0);
  EXPECT_TRUE(std::isnan(at(Unary::Kind::kRelu, std::nan(""))));
  EXPECT_EQ(at(Unary::Kind::kLeakyRelu, -2, 0.5f), -1);
  EXPECT_EQ(at(Unary::Kind::kClip, 9, 0, 6), 6);
  EXPECT_DOUBLE_EQ(at(Unary::Kind::kSigmoid, 0), 0.5);
  EXPECT_EQ(at(Unary::Kind::kHardSigmoid, 1, 0.25f, 0.5f), 0.75);
  EXPECT_EQ(at(Unary::Kind::kHardSwish, 2, 0.125f, 0.5f), 1.5);
  EXPECT_NEAR(at(Unary::Kind::kSilu, 1), 0.7310585786300049, 1e-15);
  EXPECT_NEAR(at(Unary::Kind::kMish, 1), 0.8650983882673103, 1e-15);
  EXPECT_NEAR(at(Unary::Kind::kTanh, 1), 0.7615941559557649, 1e-15);
  EXPECT_NEAR(at(Unary::Kind::kErf, 1), 0.8427007929497149, 1e-15);
  EXPECT_NEAR(at(Unary::Kind::kSoftplus, 0), 0.6931471805599453, 1e-15);
  EXPECT_EQ(at(Unary::Kind::kSoftplus, 1000), 1000);
  EXPECT_NEAR(at(Unary::Kind::kElu, -1, 2), -1.2642411176571153, 1e-15);
  EXPECT_EQ(at(Unary::Kind::kReciprocal, 4), 0.25);
  EXPECT_EQ(at(Unary::Kind::kFloor, -1.5), -2);
  EXPECT_EQ(at(Unary::Kind::kCeil, -1.5), -1);
  EXPECT_EQ(at(Unary::Kind::kLinear, 3, 2, 1), 7);
  EXPECT_EQ(at(Unary::Kind::kAbs, -3), 3);
  EXPECT_EQ(at(Unary::Kind::kNegate, -3), 3);
  EXPECT_EQ(at(Unary::Kind::kSqrt, 9), 3);
  EXPECT_EQ(at(Unary::Kind::kExp, 0), 1);
  EXPECT_EQ(at(Unary::Kind::kLog, 1), 0);
}

}  // namespace
}  // namespace sluice::reference
