#include "planner/budget_split.h"

#include <cstdint>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "planner/draw.h"

namespace sluice {
namespace {

SplitRequest Request(std::uint64_t minimum, std::uint64_t useful, double weight = 1) {
  return {.minimum = Bytes::Of(minimum), .useful = Bytes::Of(useful), .weight = weight};
}

std::optional<std::vector<std::uint64_t>> Split(const std::vector<SplitRequest>& requests,
                                                std::uint64_t budget) {
  const auto bytes = SplitBudget(requests, Bytes::Of(budget));
  if (!bytes) return std::nullopt;
  std::vector<std::uint64_t> counts;
  for (const Bytes share : *bytes) counts.push_back(share.count());
  return counts;
}

using Counts = std::vector<std::uint64_t>;

TEST(SplitBudgetTest, NobodyGetsNothing) { EXPECT_EQ(Split({}, 100), Counts{}); }

TEST(SplitBudgetTest, GivesEachAllItCanUseWhenThereIsEnough) {
  EXPECT_EQ(Split({Request(0, 10), Request(5, 20)}, 100), (Counts{10, 20}));
}

TEST(SplitBudgetTest, DeclinesABudgetBelowTheMinima) {
  EXPECT_EQ(Split({Request(6, 10), Request(5, 20)}, 10), std::nullopt);
  EXPECT_EQ(Split({Request(6, 10), Request(5, 20)}, 11), (Counts{6, 5}));
  EXPECT_EQ(Split({Request(~0ull, ~0ull), Request(5, 20)}, 100), std::nullopt);
}

TEST(SplitBudgetTest, SmallModelsComeFirst) {
  EXPECT_EQ(Split({Request(0, 100), Request(0, 10)}, 40), (Counts{30, 10}));
}

TEST(SplitBudgetTest, WhatIsLeftGoesByWeight) {
  EXPECT_EQ(Split({Request(0, 100, 1), Request(0, 100, 3)}, 40), (Counts{10, 30}));
  EXPECT_EQ(Split({Request(10, 100, 1), Request(0, 100, 3), Request(0, 4)}, 54),
            (Counts{20, 30, 4}));
}

TEST(SplitBudgetTest, AHeavyModelCountsAsSmallerThanItIs) {
  EXPECT_EQ(Split({Request(0, 30, 1), Request(0, 40, 4)}, 50), (Counts{10, 40}));
}

TEST(SplitBudgetTest, TheLargestBudgetDoesNotOverflow) {
  EXPECT_EQ(Split({Request(0, ~0ull), Request(0, ~0ull)}, ~0ull)->size(), 2u);
}

class SplitBudgetProperty : public testing::TestWithParam<std::uint64_t> {};

TEST_P(SplitBudgetProperty, KeepsEveryBoundAndWastesNothing) {
  SCOPED_TRACE(testing::Message() << "replay with seed " << GetParam());
  Draw draw(GetParam());
  std::vector<SplitRequest> requests(draw.Below(12));
  std::uint64_t minima = 0, useful = 0;
  for (SplitRequest& request : requests) {
    const std::uint64_t minimum = draw.Below(3) == 0 ? draw.Below(1000) : 0;
    request = Request(minimum, minimum + draw.Below(100'000),
                      0.1 * static_cast<double>(1 + draw.Below(100)));
    minima += request.minimum.count();
    useful += request.useful.count();
  }
  const std::uint64_t budget = draw.Below(useful + 1000);
  const auto bytes = Split(requests, budget);
  ASSERT_EQ(bytes.has_value(), minima <= budget);
  if (!bytes) return;
  ASSERT_EQ(bytes->size(), requests.size());
  std::uint64_t sum = 0;
  for (std::size_t i = 0; i < requests.size(); ++i) {
    EXPECT_GE((*bytes)[i], requests[i].minimum.count());
    EXPECT_LE((*bytes)[i], requests[i].useful.count());
    sum += (*bytes)[i];
  }
  EXPECT_EQ(sum, std::min(budget, useful));
}

INSTANTIATE_TEST_SUITE_P(Seeds, SplitBudgetProperty, testing::Range<std::uint64_t>(0, 300));

}  // namespace
}  // namespace sluice
