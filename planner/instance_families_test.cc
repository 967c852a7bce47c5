#include "planner/instance_families.h"

#include <cstdint>
#include <vector>

#include "gtest/gtest.h"
#include "planner/draw.h"
#include "planner/offset_check.h"
#include "planner/offset_plan.h"
#include "planner/section_map.h"
#include "planner/squeaky_wheel.h"

namespace sluice {
namespace {

class FamilyTest : public testing::TestWithParam<InstanceFamily> {};

TEST_P(FamilyTest, GivesTheSameRecordsForASeedAndOthersForAnother) {
  const std::vector<UsageRecord> records = MakeInstance(GetParam(), 300, 1);
  const std::vector<UsageRecord> again = MakeInstance(GetParam(), 300, 1);
  const std::vector<UsageRecord> other = MakeInstance(GetParam(), 300, 2);
  EXPECT_GE(records.size(), 200u);
  EXPECT_LE(records.size(), 300u);
  EXPECT_EQ(MapSections(records).spans, MapSections(again).spans);
  EXPECT_NE(MapSections(records).spans, MapSections(other).spans);
}

TEST_P(FamilyTest, EveryPlanOfALargeOneIsValid) {
  const std::vector<UsageRecord> records = MakeInstance(GetParam(), 5000, 1);
  for (const OffsetStrategy strategy : kOffsetStrategies) {
    const OffsetPlan plan = PlanOffsets(records, strategy);
    EXPECT_EQ(CheckOffsets(records, plan), absl::OkStatus()) << Name(strategy);
    EXPECT_GE(plan.height, OffsetLowerBound(records)) << Name(strategy);
  }
}

std::string NameOfFamily(const testing::TestParamInfo<InstanceFamily>& info) {
  return std::string(Name(info.param));
}

INSTANTIATE_TEST_SUITE_P(All, FamilyTest, testing::ValuesIn(kInstanceFamilies), NameOfFamily);

TEST(InstanceFamiliesTest, AllStepsOfAPerfectOneAreFull) {
  const std::vector<UsageRecord> records = MakeInstance(InstanceFamily::kPerfect, 200, 1);
  for (const Bytes breadth : Breadths(records, MapSections(records))) {
    EXPECT_EQ(breadth, kCutHeight);
  }
}

TEST(InstanceFamiliesTest, NetworksMeetTheirBounds) {
  for (const InstanceFamily family :
       {InstanceFamily::kTraining, InstanceFamily::kSkip, InstanceFamily::kDecoder}) {
    for (std::uint64_t seed = 0; seed < 20; ++seed) {
      SCOPED_TRACE(testing::Message() << Name(family) << ", seed " << seed);
      const std::vector<UsageRecord> records = MakeInstance(family, 400, seed);
      const CertifiedPlan plan = PlanOffsets(records, PlanLimits());
      EXPECT_EQ(CheckOffsets(records, plan.plan), absl::OkStatus());
      EXPECT_EQ(plan.certificate, Certificate::kMeetsBound)
          << plan.plan.height.count() << " of " << plan.bound.count();
    }
  }
}

// Orders that miss the bound by a little meet it when what stuck out goes first.
TEST(SqueakyWheelTest, ClosesSomeOfTheGapsThatEveryGreedyOrderLeaves) {
  std::size_t gaps = 0, closed = 0;
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    SCOPED_TRACE(testing::Message() << "replay with seed " << seed);
    const std::vector<UsageRecord> records = MakeInstance(InstanceFamily::kSkip, 400, seed);
    const Bytes bound = OffsetLowerBound(records);
    OffsetPlan best = PlanOffsets(records, OffsetStrategy::kGreedyBySize);
    for (const OffsetStrategy strategy : kOffsetStrategies) {
      const OffsetPlan plan = PlanOffsets(records, strategy);
      if (plan.height < best.height) best = plan;
    }
    if (best.height == bound) continue;
    ++gaps;
    std::uint64_t work = 0;
    const OffsetPlan lowered = LowerBySqueakyWheel(records, best, bound, 8, PlanLimits(), work);
    EXPECT_EQ(CheckOffsets(records, lowered), absl::OkStatus());
    EXPECT_LE(lowered.height, best.height);
    EXPECT_GT(work, 0u);
    closed += lowered.height == bound ? 1 : 0;
  }
  EXPECT_GE(gaps, 3u);
  EXPECT_GE(closed, 1u);
}

TEST(SqueakyWheelTest, KeepsWithinItsWork) {
  const std::vector<UsageRecord> records = MakeInstance(InstanceFamily::kSkip, 20'000, 1);
  const OffsetPlan start = PlanOffsets(records, OffsetStrategy::kGreedyByBreadth);
  std::uint64_t work = 0;
  const OffsetPlan plan =
      LowerBySqueakyWheel(records, start, Bytes::Of(1), 8, {.work = 200'000}, work);
  EXPECT_EQ(plan.offsets, start.offsets);
  EXPECT_EQ(work, 0u);  // Nowhere near.
  LowerBySqueakyWheel(records, start, start.height - Bytes::Of(1), 8, {.work = 200'000}, work);
  EXPECT_GE(work, 200'000u);
  EXPECT_LT(work, 2'000'000u);
}

}  // namespace
}  // namespace sluice
