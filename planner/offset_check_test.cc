#include "planner/offset_check.h"

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "planner/any_problem.h"
#include "planner/draw.h"
#include "planner/offset_plan.h"

namespace sluice {
namespace {

using ::testing::HasSubstr;

UsageRecord Record(std::uint64_t size, std::uint32_t begin, std::uint32_t end,
                   std::uint64_t alignment) {
  return {.size = Bytes::Of(size),
          .live = {StepIndex{begin}, StepIndex{end}},
          .alignment = Bytes::Of(alignment)};
}

TEST(OffsetCheckTest, SeesEachWayToBreakAPlan) {
  const std::vector<UsageRecord> records = {Record(8, 0, 2, 4), Record(8, 1, 3, 4)};
  const OffsetPlan good = PlanOffsets(records);
  ASSERT_TRUE(CheckOffsets(records, good).ok());

  OffsetPlan bad = good;
  bad.offsets[1] = Bytes::Of(4);
  EXPECT_THAT(std::string(CheckOffsets(records, bad).message()), HasSubstr("share bytes"));
  bad.offsets[1] = Bytes::Of(10);
  EXPECT_THAT(std::string(CheckOffsets(records, bad).message()), HasSubstr("multiple"));
  bad.offsets[1] = Bytes::Of(12);
  EXPECT_THAT(std::string(CheckOffsets(records, bad).message()), HasSubstr("highest end"));
  bad.offsets[1] = Bytes::Max() - Bytes::Of(3);
  EXPECT_THAT(std::string(CheckOffsets(records, bad).message()), HasSubstr("2^64"));
  bad.offsets.pop_back();
  EXPECT_THAT(std::string(CheckOffsets(records, bad).message()), HasSubstr("1 offsets"));
}

// Every pair, every byte.
bool AnyPairMeets(const std::vector<UsageRecord>& records, const OffsetPlan& plan) {
  for (std::size_t i = 0; i < records.size(); ++i) {
    for (std::size_t j = 0; j < i; ++j) {
      const bool in_time = records[i].live.begin < records[j].live.end &&
                           records[j].live.begin < records[i].live.end;
      const Bytes begin = std::max(plan.offsets[i], plan.offsets[j]);
      const Bytes end =
          std::min(plan.offsets[i] + records[i].size, plan.offsets[j] + records[j].size);
      if (in_time && begin < end) return true;
    }
  }
  return false;
}

TEST(OffsetCheckTest, AgreesWithAllPairsOnPlansThatAreNearlyRight) {
  std::size_t broken = 0;
  for (std::uint64_t seed = 0; seed < 500; ++seed) {
    SCOPED_TRACE(testing::Message() << "replay with seed " << seed);
    Draw draw(seed);
    const std::vector<UsageRecord> records =
        AnyRecords(draw, {.size_below = 20, .alignment_bits_below = 1});
    OffsetPlan plan = PlanOffsets(records, OffsetStrategy::kGreedyBySize);
    if (!records.empty()) plan.offsets[draw.Below(records.size())] = Bytes::Of(draw.Below(40));
    plan.height = Bytes();
    for (std::size_t i = 0; i < records.size(); ++i) {
      plan.height = std::max(plan.height, plan.offsets[i] + records[i].size);
    }
    const bool meets = AnyPairMeets(records, plan);
    EXPECT_EQ(CheckOffsets(records, plan).ok(), !meets);
    broken += meets ? 1 : 0;
  }
  EXPECT_GT(broken, 100u);
  EXPECT_LT(broken, 400u);
}

}  // namespace
}  // namespace sluice
