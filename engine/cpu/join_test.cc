// Concats whose parts are written in place.

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

TEST(JoinPlanTest, PartsLieOneBehindTheOther) {
  GraphBuilder b;
  const ValueId x = Blocked(b, b.Input({1, 3, 4, 4}), 32), y = Blocked(b, x, 16);
  const ValueId z = b.Add(Concat{1}, {x, y});
  const Graph graph = b.Finish({z});
  const auto places = PlanJoins(graph);
  ASSERT_TRUE(places[Index(x)] && places[Index(y)] && places[Index(z)]);
  EXPECT_EQ(places[Index(y)]->whole, z);
  EXPECT_EQ(places[Index(x)]->offset, Bytes());
  EXPECT_EQ(places[Index(y)]->offset, StorageBytes(graph.value(x), Layout::kBlocked));
}

TEST(JoinPlanTest, SeveralImagesAndHalfBlocksAreLeftAlone) {
  GraphBuilder b;
  const ValueId x = Blocked(b, b.Input({2, 3, 4, 4}), 32);
  const ValueId y = Blocked(b, b.Input({1, 3, 4, 4}), 33);
  const auto places = PlanJoins(b.Finish({b.Add(Concat{1}, {x, x}), b.Add(Concat{1}, {y, y})}));
  for (const auto& place : places) EXPECT_FALSE(place.has_value());
}

TEST(JoinPlanTest, AWholeThatWouldWaitInTheWayIsLeftAlone) {
  GraphBuilder b;
  const ValueId early = Blocked(b, b.Input({1, 3, 8, 8}), 16);
  // The peak lies between the first part and the last, which is much larger than the first.
  const ValueId wide = Blocked(b, early, 512);
  const ValueId wider = Blocked(b, wide, 512);
  const ValueId late = Blocked(b, Blocked(b, wider, 16), 256);
  const auto places = PlanJoins(b.Finish({b.Add(Concat{1}, {early, late})}));
  for (const auto& place : places) EXPECT_FALSE(place.has_value());
}

}  // namespace
}  // namespace sluice
