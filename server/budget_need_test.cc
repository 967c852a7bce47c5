#include "server/budget_need.h"

#include <gtest/gtest.h>

#include <vector>

namespace sluice {
namespace {

// One model as a daemon sees it: restates the two sums that the budget has to cover.
struct Case {
  Config config;
  ModelNeed need;
  std::vector<Bytes> extents;

  Bytes Loading(Bytes budget) const {
    return need.base + ReceiveLimitsOf(config, budget).memory() + need.loading;
  }
  Bytes Serving(Bytes budget) const {
    return need.base + ReceiveLimitsOf(config, budget).memory() + need.kernels +
           RequestsRoom(need.request, budget) + LeastMemory({&need.demand, 1});
  }
  Bytes Start(Bytes budget) const { return need.start + ReceiveLimitsOf(config, budget).memory(); }
  bool Passes(Bytes budget) const {
    return Start(budget) <= budget && Loading(budget) <= budget && Serving(budget) <= budget;
  }
};

Case AnyCase(Bytes loading, Bytes request, std::vector<Bytes> extents) {
  Case made{.config = {},
            .need = {.start = 33_MiB,
                     .base = 30_MiB,
                     .loading = loading,
                     .kernels = 2_MiB,
                     .request = request,
                     .demand = {}},
            .extents = std::move(extents)};
  made.need.demand = {.steps = {}, .extents = made.extents, .activations = 5_MiB};
  return made;
}

TEST(BudgetNeedTest, TheSmallestBudgetIsTheLeastThatPasses) {
  for (Case& model : std::vector<Case>{
           AnyCase(3_MiB, 256_KiB, {1_MiB, 4_MiB, 2_MiB}),
           AnyCase(40_MiB, 256_KiB, {1_MiB}),
           AnyCase(3_MiB, 60_MiB, std::vector<Bytes>(100, 4_MiB)),
           AnyCase(3_MiB, 1_MiB, {}),
           AnyCase(1_MiB, 256_KiB, {1_MiB}),
       }) {
    model.need.demand.extents = model.extents;
    const Bytes smallest = SmallestBudget(model.config, model.need);
    EXPECT_TRUE(model.Passes(smallest)) << FormatBytes(smallest);
    EXPECT_FALSE(model.Passes(smallest - kPageSize)) << FormatBytes(smallest);
    EXPECT_LE(smallest, LargestUsefulBudget(model.config, model.need));
  }
}

TEST(BudgetNeedTest, ACappedMessageLowersIt) {
  Case model = AnyCase(3_MiB, 256_KiB, std::vector<Bytes>(40, 4_MiB));
  model.need.demand.extents = model.extents;
  const Bytes before = SmallestBudget(model.config, model.need);
  model.config.max_request = 1_MiB;
  const Bytes after = SmallestBudget(model.config, model.need);
  EXPECT_TRUE(model.Passes(after));
  EXPECT_LT(after + 2_MiB, before);
}

TEST(BudgetNeedTest, TheLargestUsefulBudgetHoldsEveryWeight) {
  Case model = AnyCase(3_MiB, 256_KiB, std::vector<Bytes>(40, 4_MiB));
  model.need.demand.extents = model.extents;
  const auto left = [&](Bytes budget) {
    return budget - model.need.base - ReceiveLimitsOf(model.config, budget).memory() -
           model.need.kernels - RequestsRoom(model.need.request, budget);
  };
  const Bytes largest = LargestUsefulBudget(model.config, model.need);
  EXPECT_GE(left(largest), 165_MiB);
  EXPECT_LT(left(largest - kPageSize), 165_MiB);
  const std::optional<MemorySplit> split =
      SplitMemory({&model.need.demand, 1}, ReadCost{}, left(largest));
  ASSERT_TRUE(split.has_value());
  EXPECT_EQ(split->plans[0].resident_bytes, 160_MiB);
}

TEST(BudgetNeedTest, APinnedModelNeedsItsWeights) {
  Case model = AnyCase(3_MiB, 256_KiB, std::vector<Bytes>(40, 4_MiB));
  model.need.demand.extents = model.extents;
  model.need.demand.all_resident = true;
  EXPECT_EQ(SmallestBudget(model.config, model.need),
            LargestUsefulBudget(model.config, model.need));
}

}  // namespace
}  // namespace sluice
