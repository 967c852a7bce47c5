#include "planner/shared_objects.h"

#include <algorithm>
#include <cstdint>
#include <functional>
#include <numeric>
#include <optional>
#include <vector>

#include "gtest/gtest.h"
#include "planner/any_problem.h"
#include "planner/draw.h"
#include "planner/min_cost_assignment.h"
#include "planner/offset_plan.h"

namespace sluice {
namespace {

UsageRecord Record(std::uint64_t size, std::uint32_t begin, std::uint32_t end) {
  return {.size = Bytes::Of(size), .live = {StepIndex{begin}, StepIndex{end}}};
}

TEST(SharedObjectsTest, NothingNeedsNothing) {
  for (const SharedObjectsStrategy strategy : kSharedObjectsStrategies) {
    EXPECT_EQ(PlanSharedObjects({}, strategy).total, Bytes()) << Name(strategy);
  }
  EXPECT_EQ(SharedObjectsLowerBound({}), Bytes());
}

// "ComplexRecords" of TensorFlow Lite's memory_management_test; its own expectations are 120 for
// execution order and 112 for the flow. Breadth depends on which of two equal steps comes first.
TEST(SharedObjectsTest, RecordsOfTheUpstreamUnitTest) {
  const std::vector<UsageRecord> records = {Record(32, 0, 2), Record(32, 1, 5), Record(8, 2, 6),
                                            Record(16, 3, 6), Record(8, 4, 6),  Record(64, 5, 8),
                                            Record(8, 6, 9),  Record(8, 7, 9),  Record(16, 8, 10)};
  EXPECT_EQ(SharedObjectsLowerBound(records), Bytes::Of(112));
  const auto total = [&](SharedObjectsStrategy strategy) {
    return PlanSharedObjects(records, strategy).total;
  };
  EXPECT_EQ(total(SharedObjectsStrategy::kGreedyBySize), Bytes::Of(128));
  EXPECT_EQ(total(SharedObjectsStrategy::kGreedyBySizeImproved), Bytes::Of(112));
  EXPECT_EQ(total(SharedObjectsStrategy::kGreedyByBreadth), Bytes::Of(128));
  EXPECT_EQ(total(SharedObjectsStrategy::kGreedyInOrder), Bytes::Of(120));
  EXPECT_EQ(total(SharedObjectsStrategy::kMinCostFlow), Bytes::Of(112));
  EXPECT_EQ(total(SharedObjectsStrategy::kEquality), Bytes::Of(160));
}

class SharedObjectsProperty : public testing::TestWithParam<std::uint64_t> {};

// The definition, by brute force: no two users of an object meet, and it holds each of them.
TEST_P(SharedObjectsProperty, EveryPlanIsValid) {
  Draw draw(GetParam());
  const std::vector<UsageRecord> records = AnyRecords(draw, {});
  const Bytes bound = SharedObjectsLowerBound(records);
  EXPECT_GE(bound, LargestBreadth(records));
  for (const SharedObjectsStrategy strategy : kSharedObjectsStrategies) {
    SCOPED_TRACE(Name(strategy));
    const SharedObjectsPlan plan = PlanSharedObjects(records, strategy);
    ASSERT_EQ(plan.object.size(), records.size());
    Bytes total;
    for (const Bytes size : plan.sizes) total += size;
    EXPECT_EQ(plan.total, total);
    EXPECT_GE(plan.total, bound);
    for (std::size_t i = 0; i < records.size(); ++i) {
      ASSERT_LT(plan.object[i], plan.sizes.size());
      EXPECT_LE(records[i].size, plan.sizes[plan.object[i]]);
      for (std::size_t j = 0; j < i; ++j) {
        const bool meet = records[i].live.begin < records[j].live.end &&
                          records[j].live.begin < records[i].live.end;
        EXPECT_FALSE(meet && plan.object[i] == plan.object[j]);
      }
    }
  }
}

// Against every assignment there is.
TEST_P(SharedObjectsProperty, AssignmentsCostTheLeast) {
  Draw draw(GetParam());
  const std::size_t rows = 1 + draw.Below(5), columns = rows + draw.Below(2);
  std::vector<std::optional<std::uint64_t>> costs(rows * columns);
  for (std::size_t i = 0; i < costs.size(); ++i) {
    const bool diagonal = i / columns == i % columns;  // So that there is an assignment.
    if (diagonal || draw.Below(4) != 0) costs[i] = draw.Below(20);
  }
  const auto cost = [&](std::size_t row, std::size_t column) {
    return costs[row * columns + column];
  };
  std::vector<std::size_t> order(columns);
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::optional<std::uint64_t> least;
  do {
    std::uint64_t sum = 0;
    bool possible = true;
    for (std::size_t row = 0; row < rows && possible; ++row) {
      possible = cost(row, order[row]).has_value();
      sum += cost(row, order[row]).value_or(0);
    }
    if (possible && (!least || sum < *least)) least = sum;
  } while (std::ranges::next_permutation(order).found);
  std::uint64_t sum = 0;
  std::vector<bool> taken(columns);
  const std::vector<std::size_t> chosen = MinCostAssignment(rows, columns, cost);
  for (std::size_t row = 0; row < rows; ++row) {
    ASSERT_TRUE(cost(row, chosen[row]).has_value());
    EXPECT_FALSE(taken[chosen[row]]);
    taken[chosen[row]] = true;
    sum += *cost(row, chosen[row]);
  }
  EXPECT_EQ(sum, least);
}

INSTANTIATE_TEST_SUITE_P(Seeds, SharedObjectsProperty, testing::Range<std::uint64_t>(0, 100));

}  // namespace
}  // namespace sluice
