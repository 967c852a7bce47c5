#include <gtest/gtest.h>

#include <string>

#include "absl/strings/str_format.h"
#include "engine/cpu/against_reference.h"

namespace sluice {
namespace {

struct Shapes {
  std::int64_t batch, in, out, size, kernel, stride, pad, groups, dilation;
  // The first sixteen bytes of gtest's own print would say nothing.
  friend void PrintTo(const Shapes& s, std::ostream* os) {
    *os << absl::StrFormat("n%d %d->%d %dx%d k%d s%d p%d g%d d%d", s.batch, s.in, s.out, s.size,
                           s.size, s.kernel, s.stride, s.pad, s.groups, s.dilation);
  }
};

// Inputs of the shape of the output, for epilogues that add one.
void AddWhatEpiloguesAdd(GraphBuilder& b, const std::vector<Epilogue>& epilogues,
                         const Shape& output, std::vector<std::optional<ValueId>>& inputs) {
  for (const Epilogue& epilogue : epilogues) {
    if (epilogue.kind != Epilogue::Kind::kAdd) continue;
    while (inputs.size() <= epilogue.input) inputs.push_back(b.Input(output));
  }
}

Graph OneConvolution(const Shapes& s, const std::vector<Epilogue>& epilogues = {},
                     bool scaled = false) {
  GraphBuilder b(7);
  Convolution conv = Conv(s.kernel, s.stride, s.pad, s.groups, s.dilation);
  conv.epilogues = epilogues;
  const ValueId x = b.Input({s.batch, s.in, s.size, s.size});
  std::vector<std::optional<ValueId>> inputs = {
      x, b.Weights({s.out, s.in / s.groups, s.kernel, s.kernel}), b.Weights({s.out})};
  inputs.push_back(scaled ? std::optional(b.Weights({s.out}, 0.5f, 2.0f)) : std::nullopt);
  const std::int64_t reach = (s.kernel - 1) * s.dilation + 1;
  const std::int64_t size = (s.size + 2 * s.pad - reach) / s.stride + 1;
  AddWhatEpiloguesAdd(b, epilogues, {s.batch, s.out, size, size}, inputs);
  return b.Finish({b.Add(conv, inputs)});
}

class ConvolutionTest : public testing::TestWithParam<Shapes> {};

TEST_P(ConvolutionTest, MatchesTheReference) {
  ExpectMatchesReference(OneConvolution(GetParam(), {Then(Unary::Kind::kRelu)}, true), {}, 1e-4);
}

INSTANTIATE_TEST_SUITE_P(
    OddSizes, ConvolutionTest,
    testing::Values(Shapes{1, 1, 1, 7, 3, 1, 1, 1, 1}, Shapes{2, 3, 17, 9, 3, 2, 1, 1, 1},
                    Shapes{1, 3, 16, 11, 7, 2, 3, 1, 1}, Shapes{1, 15, 33, 8, 3, 1, 1, 1, 1},
                    Shapes{3, 16, 16, 5, 1, 1, 0, 1, 1}, Shapes{1, 17, 15, 6, 1, 1, 0, 1, 1},
                    Shapes{2, 33, 17, 7, 1, 2, 0, 1, 1}, Shapes{1, 32, 64, 13, 5, 1, 2, 1, 1},
                    Shapes{1, 16, 33, 9, 3, 1, 2, 1, 2}, Shapes{1, 4, 8, 6, 3, 1, 0, 1, 1},
                    Shapes{1, 5, 3, 6, 3, 1, 1, 1, 1}, Shapes{1, 64, 64, 1, 1, 1, 0, 1, 1},
                    Shapes{1, 2, 2, 1, 1, 1, 0, 1, 1}));

INSTANTIATE_TEST_SUITE_P(
    Grouped, ConvolutionTest,
    testing::Values(Shapes{1, 16, 16, 9, 3, 1, 1, 16, 1}, Shapes{2, 33, 33, 8, 5, 2, 2, 33, 1},
                    Shapes{1, 3, 3, 6, 3, 1, 1, 3, 1}, Shapes{1, 32, 64, 6, 3, 1, 1, 32, 1},
                    Shapes{1, 64, 64, 6, 3, 1, 1, 4, 1}, Shapes{2, 24, 48, 5, 3, 1, 1, 3, 1},
                    Shapes{1, 24, 24, 5, 1, 1, 0, 3, 1}, Shapes{1, 17, 17, 9, 3, 1, 2, 17, 2}));

struct Ending {
  std::string name;
  std::vector<Epilogue> epilogues;
  friend void PrintTo(const Ending& e, std::ostream* os) { *os << e.name; }
};

class EpilogueTest : public testing::TestWithParam<Ending> {};

TEST_P(EpilogueTest, MatchesTheReferenceWithFullBlocks) {
  ExpectMatchesReference(OneConvolution({2, 16, 32, 6, 3, 1, 1, 1, 1}, GetParam().epilogues), {},
                         1e-4);
}

TEST_P(EpilogueTest, MatchesTheReferenceWithFilledBlocks) {
  ExpectMatchesReference(OneConvolution({1, 17, 19, 6, 3, 1, 1, 1, 1}, GetParam().epilogues), {},
                         1e-4);
}

TEST_P(EpilogueTest, MatchesTheReferenceInGroups) {
  ExpectMatchesReference(OneConvolution({1, 24, 48, 5, 3, 1, 1, 3, 1}, GetParam().epilogues), {},
                         1e-4);
}

// What lies behind the last channel must be zero again when the next convolution reads it.
TEST_P(EpilogueTest, LeavesTheFillingZeroForTheNextConvolution) {
  GraphBuilder b(3);
  Convolution first = Conv(3, 1, 1);
  first.epilogues = GetParam().epilogues;
  const ValueId x = b.Input({1, 20, 6, 6});
  std::vector<std::optional<ValueId>> inputs = {x, b.Weights({19, 20, 3, 3}), b.Weights({19}),
                                                std::nullopt};
  AddWhatEpiloguesAdd(b, first.epilogues, {1, 19, 6, 6}, inputs);
  const ValueId y = b.Add(first, inputs);
  const ValueId z = b.Add(Conv(1), {y, b.Weights({18, 19, 1, 1}), std::nullopt});
  ExpectMatchesReference(b.Finish({z}), {}, 1e-3);
}

using Kind = Unary::Kind;
INSTANTIATE_TEST_SUITE_P(
    All, EpilogueTest,
    testing::Values(
        Ending{"none", {}}, Ending{"relu", {Then(Kind::kRelu)}},
        Ending{"leaky", {Then(Kind::kLeakyRelu, 0.1f)}}, Ending{"clip", {Then(Kind::kClip, 0, 6)}},
        Ending{"clip_above_zero", {Then(Kind::kClip, 0.5f, 2)}},
        Ending{"sigmoid", {Then(Kind::kSigmoid)}},
        Ending{"hard_sigmoid", {Then(Kind::kHardSigmoid, 0.2f, 0.5f)}},
        Ending{"hard_swish", {Then(Kind::kHardSwish, 1.0f / 6, 0.5f)}},
        Ending{"odd_hard_swish", {Then(Kind::kHardSwish, 0.3f, 0.4f)}},
        Ending{"silu", {Then(Kind::kSilu)}}, Ending{"mish", {Then(Kind::kMish)}},
        Ending{"tanh", {Then(Kind::kTanh)}}, Ending{"elu", {Then(Kind::kElu, 0.7f)}},
        Ending{"exp", {Then(Kind::kClip, -2, 2), Then(Kind::kExp)}},
        Ending{"erf", {Then(Kind::kErf)}}, Ending{"softplus", {Then(Kind::kSoftplus)}},
        Ending{"linear", {Then(Kind::kLinear, 2, 3)}}, Ending{"abs", {Then(Kind::kAbs)}},
        Ending{"negate", {Then(Kind::kNegate)}}, Ending{"floor", {Then(Kind::kFloor)}},
        Ending{"reciprocal", {Then(Kind::kClip, 1, 9), Then(Kind::kReciprocal)}},
        Ending{"log", {Then(Kind::kClip, 1, 9), Then(Kind::kLog)}},
        Ending{"sqrt", {Then(Kind::kRelu), Then(Kind::kSqrt)}}, Ending{"add", {ThenAdd(4)}},
        Ending{"add_relu", {ThenAdd(4), Then(Kind::kRelu)}},
        Ending{"relu_add", {Then(Kind::kRelu), ThenAdd(4)}},
        Ending{"add_add", {ThenAdd(4), Then(Kind::kSilu), ThenAdd(5)}},
        Ending{"erf_add", {Then(Kind::kErf), ThenAdd(4), Then(Kind::kRelu)}}),
    [](const auto& info) { return info.param.name; });

TEST(ConvolutionLayoutTest, StaysBlockedFromConvolutionToConvolution) {
  GraphBuilder b;
  ValueId x = b.Input({1, 3, 16, 16});
  x = b.Add(Conv(3, 2, 1), {x, b.Weights({16, 3, 3, 3}), b.Weights({16})});
  x = b.Add(Conv(3, 1, 1, 16), {x, b.Weights({16, 1, 3, 3}), b.Weights({16})});
  x = b.Add(Conv(1), {x, b.Weights({32, 16, 1, 1}), b.Weights({32})});
  const Outcome outcome = ExpectMatchesReference(b.Finish({x}), {}, 1e-4);
  EXPECT_EQ(Count(outcome, "conv jit"), 3u);
  EXPECT_EQ(Count(outcome, "reorder"), 1u);  // Only the output, which is plain.
  EXPECT_EQ(outcome.kernels.size(), 4u);
}

TEST(ConvolutionLayoutTest, AddsTheResidualInPlaceWhenNobodyElseNeedsIt) {
  GraphBuilder b;
  const ValueId x = b.Input({1, 16, 8, 8});
  const ValueId w = b.Weights({16, 16, 3, 3}), v = b.Weights({16, 16, 3, 3});
  const ValueId trunk = b.Add(Conv(3, 1, 1), {x, w, std::nullopt, std::nullopt});
  Convolution last = Conv(3, 1, 1);
  last.epilogues = {ThenAdd(4), Then(Unary::Kind::kRelu)};
  const ValueId inner = b.Add(Conv(3, 1, 1), {trunk, v, std::nullopt, std::nullopt});
  const ValueId y = b.Add(last, {inner, w, std::nullopt, std::nullopt, trunk});
  ExpectMatchesReference(b.Finish({y}), {}, 1e-3);
  // Once the residual is wanted later too, it must survive.
  GraphBuilder c;
  const ValueId cx = c.Input({1, 16, 8, 8});
  const ValueId cw = c.Weights({16, 16, 3, 3});
  const ValueId ct = c.Add(Conv(3, 1, 1), {cx, cw, std::nullopt, std::nullopt});
  const ValueId cy = c.Add(last, {ct, cw, std::nullopt, std::nullopt, ct});
  const ValueId cz = c.Add(Binary{}, {cy, ct});
  ExpectMatchesReference(c.Finish({cz}), {}, 1e-3);
}

TEST(ConvolutionRankTest, OneAndThreeDimensionsMatchTheReference) {
  for (const std::size_t rank : {std::size_t{1}, std::size_t{3}}) {
    GraphBuilder b;
    Shape x = {2, 17}, w = {33, 17};
    x.resize(2 + rank, 6);
    w.resize(2 + rank, 3);
    const ValueId y = b.Add(Conv(3, 1, 1, 1, 1, rank), {b.Input(x), b.Weights(w), b.Weights({33})});
    ExpectMatchesReference(b.Finish({y}), {}, 1e-4);
  }
}

class SliceTest : public testing::TestWithParam<Shapes> {};

TEST_P(SliceTest, SlicesHaveTheBitsOfTheWhole) {
  const Graph graph = OneConvolution(GetParam(), {ThenAdd(4), Then(Unary::Kind::kRelu)}, true);
  const Outcome whole = ExpectMatchesReference(graph, {}, 1e-3);
  for (const Bytes most : {1_KiB, 40_KiB, 100_KiB}) {
    const Outcome sliced = RunCpu(graph, {.max_slice = most, .min_extent = Bytes::Of(1)});
    EXPECT_EQ(sliced.outputs, whole.outputs) << FormatBytes(most);
    EXPECT_GT(sliced.kernels.size(), whole.kernels.size());
  }
}

INSTANTIATE_TEST_SUITE_P(Shapes, SliceTest,
                         testing::Values(Shapes{1, 64, 96, 7, 3, 1, 1, 1, 1},
                                         Shapes{1, 128, 200, 5, 1, 1, 0, 1, 1},
                                         Shapes{3, 64, 96, 7, 3, 2, 1, 1, 1},
                                         Shapes{1, 256, 250, 4, 1, 2, 0, 1, 1},
                                         Shapes{2, 3, 1001, 8, 3, 1, 1, 1, 1}));

struct TransposedShapes {
  std::int64_t in, out, kernel, stride, pad, groups;
};
class TransposedTest : public testing::TestWithParam<TransposedShapes> {};

TEST_P(TransposedTest, MatchesTheReference) {
  const TransposedShapes& s = GetParam();
  for (const bool tail : {false, true}) {
    GraphBuilder b(5);
    Convolution conv = Conv(s.kernel, s.stride, s.pad, s.groups);
    conv.transposed = true;
    if (tail) conv.epilogues = {Then(Unary::Kind::kSigmoid)};
    const ValueId x = b.Input({2, s.in, 5, 5});
    const ValueId w = b.Weights({s.in, s.out / s.groups, s.kernel, s.kernel});
    const ValueId y = b.Add(conv, {x, w, b.Weights({s.out}), b.Weights({s.out}, 0.5f, 2)});
    ExpectMatchesReference(b.Finish({y}), {}, 1e-4);
  }
}

INSTANTIATE_TEST_SUITE_P(Shapes, TransposedTest,
                         testing::Values(TransposedShapes{24, 24, 2, 2, 0, 1},
                                         TransposedShapes{24, 1, 2, 2, 0, 1},
                                         TransposedShapes{16, 33, 3, 2, 1, 1},
                                         TransposedShapes{6, 4, 3, 1, 1, 2},
                                         TransposedShapes{32, 32, 4, 2, 1, 32}));

// Few channels in windows that do not overlap: moved to their places, never padded to a block.
TEST(ConvolutionTest, WindowsSideBySide) {
  for (const std::int64_t channels : {1, 3, 8}) {
    SCOPED_TRACE(channels);
    GraphBuilder b(6);
    Convolution conv = Conv(2);
    conv.transposed = true;
    conv.kernel = conv.strides = {2, 3};
    conv.epilogues = {ThenAdd(4), Then(Unary::Kind::kSigmoid)};
    const ValueId x = b.Input({2, 24, 5, 4}), added = b.Input({2, channels, 10, 12});
    const ValueId w = b.Weights({24, channels, 2, 3});
    const ValueId y = b.Add(conv, {x, w, b.Weights({channels}), std::nullopt, added});
    const Outcome outcome = ExpectMatchesReference(b.Finish({y}), {}, 1e-4);
    EXPECT_EQ(Count(outcome, "deconv"), 0u);
    EXPECT_EQ(Count(outcome, "windows"), 1u);
  }
}

// Convolutions of one pixel with the same strides read one subsample.
TEST(ConvolutionTest, StridesOfOnePixelAreASubsample) {
  GraphBuilder b(8);
  const ValueId x = b.Add(Conv(1), {b.Input({2, 3, 9, 8}), b.Weights({32, 3, 1, 1})});
  const auto strided = [&](std::int64_t channels, std::int64_t stride) {
    return b.Add(Conv(1, stride), {x, b.Weights({channels, 32, 1, 1}), b.Weights({channels})});
  };
  const ValueId first = strided(48, 2), second = strided(7, 2), third = strided(16, 3);
  const Outcome outcome = ExpectMatchesReference(b.Finish({first, second, third, x}), {}, 1e-4);
  EXPECT_EQ(Count(outcome, "slice"), 2u);
}

}  // namespace
}  // namespace sluice
