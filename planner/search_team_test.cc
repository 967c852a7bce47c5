#include "planner/search_team.h"

#include <cstdint>
#include <vector>

#include "gtest/gtest.h"
#include "planner/instance_families.h"
#include "planner/offset_check.h"
#include "planner/offset_plan.h"

namespace sluice {
namespace {

using Outcome = OffsetSearch::Outcome;

TEST(SearchTeamTest, FindsTheSamePlanWithAnyNumberOfThreads) {
  for (std::uint64_t seed = 0; seed < 4; ++seed) {
    SCOPED_TRACE(testing::Message() << "replay with seed " << seed);
    const std::vector<UsageRecord> records = MakeInstance(InstanceFamily::kLoose, 120, seed);
    const CertifiedPlan alone = PlanOffsets(records, {.work = 2'000'000, .threads = 1});
    EXPECT_EQ(CheckOffsets(records, alone.plan), absl::OkStatus());
    for (const std::size_t threads : {2, 3, 4, 9}) {
      const CertifiedPlan team = PlanOffsets(records, {.work = 2'000'000, .threads = threads});
      EXPECT_EQ(team.plan.offsets, alone.plan.offsets) << threads << " threads";
      EXPECT_EQ(team.bound, alone.bound) << threads << " threads";
    }
  }
}

class SearchTeamRuns : public testing::TestWithParam<std::size_t> {
 protected:
  const std::vector<UsageRecord> records_ = MakeInstance(InstanceFamily::kPerfect, 60, 3);
  const SectionMap map_ = MapSections(records_);
  SearchTeam team_{records_, map_, GetParam()};
};

TEST_P(SearchTeamRuns, TakeTheFirstOfTheRulesThatHasAnAnswer) {
  const std::vector<SearchRules> rules(6);
  EXPECT_EQ(team_.Run(kCutHeight, rules, {.steps = 1'000'000, .work = 100'000'000}),
            Outcome::kFound);
  EXPECT_EQ(team_.runs(), 1u);
  OffsetPlan plan{.offsets = team_.offsets(), .height = kCutHeight};
  EXPECT_EQ(CheckOffsets(records_, plan), absl::OkStatus());
  const std::uint64_t work = team_.work();
  EXPECT_EQ(team_.Run(kCutHeight - Bytes::Of(1), rules, {.steps = 1, .work = 100'000'000}),
            Outcome::kRefuted);
  EXPECT_EQ(team_.runs(), 1u);
  EXPECT_GT(team_.work(), work);
}

TEST_P(SearchTeamRuns, GiveUpWhenTheStepsOrTheWorkAreUsedUp) {
  const std::vector<SearchRules> rules(6);
  EXPECT_EQ(team_.Run(kCutHeight, rules, {.steps = 3, .work = 100'000'000}), Outcome::kGaveUp);
  EXPECT_EQ(team_.runs(), 6u);
  const std::uint64_t work = team_.work();
  EXPECT_EQ(team_.Run(kCutHeight, rules, {.steps = 1'000'000, .work = work}), Outcome::kGaveUp);
  EXPECT_EQ(team_.runs(), 0u);
  EXPECT_EQ(team_.Run(kCutHeight, rules, {.steps = 9, .work = ~0ull, .stop = [] { return true; }}),
            Outcome::kGaveUp);
}

INSTANTIATE_TEST_SUITE_P(Threads, SearchTeamRuns, testing::Values(1, 2, 4));

}  // namespace
}  // namespace sluice
