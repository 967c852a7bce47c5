// Concats whose parts are written in place or never joined, and slices that are names.

#include <gtest/gtest.h>

#include "engine/cpu/against_reference.h"
#include "engine/cpu/join_plan.h"
#include "engine/cpu/layout.h"

namespace sluice {
namespace {

using Kind = Unary::Kind;

// A value of one image that lies blocked, as a convolution leaves it.
ValueId Blocked(GraphBuilder& b, ValueId x, std::int64_t channels) {
  return b.Add(Conv(1), {x, b.Weights({channels, b.shape(x)[1], 1, 1}), b.Weights({channels})});
}

class JoinTest : public testing::TestWithParam<std::int64_t> {};
INSTANTIATE_TEST_SUITE_P(Pixels, JoinTest, testing::Values(1, 5));

// A dense block: every concat begins with the parts of the one before.
TEST_P(JoinTest, ConcatsOfOneChainShareABuffer) {
  GraphBuilder b;
  const ValueId x = Blocked(b, b.Input({1, 5, GetParam(), GetParam()}), 32);
  const ValueId first = Blocked(b, x, 16);
  const ValueId two = b.Add(Concat{1}, {x, first});
  const ValueId second = Blocked(b, b.Add(Unary{Kind::kRelu}, {two}), 48);
  const ValueId three = b.Add(Concat{1}, {x, first, second});
  const ValueId third = Blocked(b, b.Add(Unary{Kind::kRelu}, {three}), 16);
  const ValueId four = b.Add(Concat{1}, {three, third});
  const Outcome outcome = ExpectMatchesReference(b.Finish({Blocked(b, four, 16)}), {}, 1e-4);
  EXPECT_EQ(Count(outcome, "join"), 0u);
}

// What cannot lie at its place is copied there.
TEST_P(JoinTest, PartsThatLieElsewhereAreCopied) {
  GraphBuilder b;
  const std::int64_t size = GetParam();
  const ValueId input = b.Input({1, 32, size, size});
  const ValueId x = Blocked(b, input, 32), y = Blocked(b, x, 16);
  const ValueId swapped = b.Add(Concat{1}, {y, x});
  const ValueId twice = b.Add(Concat{1}, {x, y, x, input});
  const ValueId in_place = b.Add(Unary{Kind::kSigmoid}, {twice});
  const ValueId sum = b.Add(Binary{Binary::Kind::kAdd}, {swapped, swapped});
  const Graph graph = b.Finish({Blocked(b, in_place, 16), Blocked(b, sum, 16), x, swapped, twice});
  ExpectMatchesReference(graph, {}, 1e-4);
}

// A residual is not added in place where the sum belongs elsewhere, nor to what is still read.
TEST_P(JoinTest, ResidualsKeepToTheirPlaces) {
  GraphBuilder b;
  const ValueId x = Blocked(b, b.Input({1, 16, GetParam(), GetParam()}), 16);
  Convolution residual = Conv(1);
  residual.epilogues = {ThenAdd(4), Then(Kind::kRelu)};
  const auto added = [&](ValueId to) {
    return b.Add(residual, {to, b.Weights({16, 16, 1, 1}), std::nullopt, std::nullopt, to});
  };
  const ValueId first = added(x);
  const ValueId second = added(first);
  const ValueId whole = b.Add(Concat{1}, {second, first});
  const Graph graph = b.Finish({Blocked(b, whole, 16), added(second)});
  ExpectMatchesReference(graph, {}, 1e-4);
}

// Where a concat would be the peak, convolutions read its parts: with a residual in place (which
// may be a part itself), bias, tail, slices, several images, a part that lies plain.
struct Elision {
  std::int64_t images, result;
  std::size_t residual;  // 0: none, 1: another value, 2: a part.
  Bytes max_slice;
};

class ElisionTest : public testing::TestWithParam<Elision> {};
INSTANTIATE_TEST_SUITE_P(Shapes, ElisionTest,
                         testing::Values(Elision{1, 16, 0, 4_MiB}, Elision{1, 64, 1, 4_MiB},
                                         Elision{1, 32, 2, 4_MiB}, Elision{3, 48, 1, 4_MiB},
                                         Elision{1, 64, 1, 8_KiB}, Elision{2, 80, 0, 8_KiB},
                                         Elision{2, 33, 0, 4_MiB}));

TEST_P(ElisionTest, ConvolutionsSumWhatThePartsContribute) {
  const auto [images, result, residual, max_slice] = GetParam();
  GraphBuilder b;
  const ValueId input = b.Input({images, 16, 9, 9});
  const ValueId small = Blocked(b, input, result);
  const ValueId wide = Blocked(b, small, 96), part = Blocked(b, small, 32);
  const ValueId whole = b.Add(Concat{1}, {part, wide, input});
  Convolution conv = Conv(3, 1, 1);
  std::vector<std::optional<ValueId>> inputs = {whole, b.Weights({result, 144, 3, 3}, -0.1f, 0.1f),
                                                b.Weights({result}), b.Weights({result}, 0.5f, 2)};
  if (residual > 0) {
    conv.epilogues.push_back(ThenAdd(4));
    inputs.emplace_back(residual == 1 ? small : part);
  }
  conv.epilogues.push_back(Then(Kind::kRelu));
  const Graph graph = b.Finish({b.Add(conv, inputs)});
  ASSERT_TRUE(PlanJoins(graph).elided[Index(whole)]);
  const Outcome outcome = ExpectMatchesReference(graph, {.max_slice = max_slice}, 1e-4);
  EXPECT_EQ(Count(outcome, "join"), 0u);
}

// A split of channels, as in a shuffle unit: both halves are names, one of them is overwritten by a
// function while the other is still to be read, and a slice of a slice lies in the first.
TEST_P(JoinTest, SlicesOfWholeBlocksAreNames) {
  GraphBuilder b;
  const std::int64_t size = GetParam();
  const ValueId x = Blocked(b, b.Input({1, 3, size, size}), 64);
  const auto channels = [&](ValueId of, std::int64_t first, std::int64_t count) {
    return b.Add(Slice{{0, first, 0, 0}, {1, 1, 1, 1}}, {of}, Shape{1, count, size, size});
  };
  const ValueId low = channels(x, 0, 32), high = channels(x, 32, 32);
  const ValueId changed = b.Add(Unary{Kind::kSigmoid}, {low});
  const ValueId inner = channels(high, 16, 16);
  const Graph graph =
      b.Finish({Blocked(b, changed, 16), Blocked(b, high, 16), Blocked(b, inner, 16), low});
  const Outcome outcome = ExpectMatchesReference(graph, {}, 1e-4);
  EXPECT_EQ(Count(outcome, "slice"), 0u);
}

// Rows of a plain matrix, an input of the model among them; columns are copied.
TEST(SliceTest, RowsAreNamesAndColumnsAreNot) {
  GraphBuilder b;
  const ValueId x = b.Input({6, 5});
  const ValueId y = b.Add(Unary{Kind::kRelu}, {x});
  const auto rows = [&](ValueId of, std::int64_t first) {
    return b.Add(Slice{{first, 0}, {1, 1}}, {of}, Shape{3, 5});
  };
  const ValueId sum = b.Add(Binary{Binary::Kind::kAdd}, {rows(y, 0), rows(x, 3)});
  EXPECT_EQ(Count(ExpectMatchesReference(b.Finish({sum, y}), {}, 1e-4), "slice"), 0u);

  GraphBuilder c;
  const ValueId z = c.Add(Unary{Kind::kRelu}, {c.Input({6, 5})});
  const ValueId column = c.Add(Slice{{0, 1}, {1, 1}}, {z}, Shape{6, 3});
  const ValueId every_other = c.Add(Slice{{1, 0}, {2, 1}}, {z}, Shape{3, 5});
  const ValueId backwards = c.Add(Slice{{5, 0}, {-1, 1}}, {z}, Shape{6, 5});
  const Outcome outcome =
      ExpectMatchesReference(c.Finish({column, every_other, backwards, z}), {}, 1e-4);
  EXPECT_EQ(Count(outcome, "slice"), 3u);
}

// A name would keep much alive for little.
TEST(SliceTest, ASmallPartThatOutlivesItsSourceIsCopied) {
  GraphBuilder b;
  const ValueId x = Blocked(b, b.Input({1, 3, 4, 4}), 96);
  const ValueId part = b.Add(Slice{{0, 16, 0, 0}, {1, 1, 1, 1}}, {x}, Shape{1, 16, 4, 4});
  const ValueId y = Blocked(b, Blocked(b, x, 16), 16);
  const ValueId sum = b.Add(Binary{Binary::Kind::kAdd}, {y, part});
  EXPECT_EQ(Count(ExpectMatchesReference(b.Finish({sum}), {}, 1e-4), "slice"), 1u);
}

TEST(JoinPlanTest, WhatOthersReadToo) {
  GraphBuilder b;
  const ValueId x = Blocked(b, b.Input({1, 3, 4, 4}), 32), y = Blocked(b, x, 32);
  const ValueId z = b.Add(Concat{1}, {x, y});
  const ValueId sum = b.Add(Binary{Binary::Kind::kAdd}, {z, z});
  const JoinPlan plan = PlanJoins(b.Finish({Blocked(b, z, 16), sum}));
  EXPECT_FALSE(plan.elided[Index(z)]);
}

TEST(JoinPlanTest, PartsLieOneBehindTheOther) {
  GraphBuilder b;
  const ValueId x = Blocked(b, b.Input({1, 3, 4, 4}), 32), y = Blocked(b, x, 16);
  const ValueId z = b.Add(Concat{1}, {x, y});
  const Graph graph = b.Finish({z});
  const auto places = PlanJoins(graph).places;
  ASSERT_TRUE(places[Index(x)] && places[Index(y)] && places[Index(z)]);
  EXPECT_EQ(places[Index(y)]->whole, z);
  EXPECT_EQ(places[Index(x)]->offset, Bytes());
  EXPECT_EQ(places[Index(y)]->offset, StorageBytes(graph.value(x), Layout::kBlocked));
}

TEST(JoinPlanTest, SeveralImagesAndHalfBlocksAreLeftAlone) {
  GraphBuilder b;
  const ValueId x = Blocked(b, b.Input({2, 3, 4, 4}), 32);
  const ValueId y = Blocked(b, b.Input({1, 3, 4, 4}), 33);
  const auto places =
      PlanJoins(b.Finish({b.Add(Concat{1}, {x, x}), b.Add(Concat{1}, {y, y})})).places;
  for (const auto& place : places) EXPECT_FALSE(place.has_value());
}

TEST(JoinPlanTest, AWholeThatWouldWaitInTheWayIsLeftAlone) {
  GraphBuilder b;
  const ValueId early = Blocked(b, b.Input({1, 3, 8, 8}), 16);
  // The peak lies between the first part and the last, which is much larger than the first.
  const ValueId wide = Blocked(b, early, 512);
  const ValueId wider = Blocked(b, wide, 512);
  const ValueId late = Blocked(b, Blocked(b, wider, 16), 256);
  const auto places = PlanJoins(b.Finish({b.Add(Concat{1}, {early, late})})).places;
  for (const auto& place : places) EXPECT_FALSE(place.has_value());
}

}  // namespace
}  // namespace sluice
