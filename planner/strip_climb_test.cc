#include "planner/strip_climb.h"

#include <cstdint>
#include <vector>

#include "gtest/gtest.h"
#include "planner/any_problem.h"
#include "planner/draw.h"
#include "planner/instance_families.h"
#include "planner/offset_check.h"
#include "planner/strip_packing.h"

namespace sluice {
namespace {

TEST(StripClimbTest, EveryPlanIsValidAndNoneIsHigherThanTheStripItBeganWith) {
  for (std::uint64_t seed = 0; seed < 50; ++seed) {
    SCOPED_TRACE(testing::Message() << "replay with seed " << seed);
    Draw draw(seed);
    const std::vector<UsageRecord> records = AnyRecords(draw, {.records_below = 80});
    const SectionMap map = MapSections(records);
    StripClimb climb(records, map);
    Bytes height = PackStrip(records).height;
    for (const std::uint64_t until : {1, 20'000, 200'000}) {
      climb.Run(OffsetLowerBound(records), until, {});
      EXPECT_EQ(CheckOffsets(records, climb.best()), absl::OkStatus());
      EXPECT_LE(climb.best().height, height);
      height = climb.best().height;
    }
  }
}

TEST(StripClimbTest, LowersWhatOnePackingLeavesHigh) {
  const std::vector<UsageRecord> records = MakeInstance(InstanceFamily::kLoose, 400, 1);
  const SectionMap map = MapSections(records);
  StripClimb climb(records, map);
  climb.Run(kCutHeight, 3'000'000, {});
  const Bytes packed = PackStrip(records).height;
  EXPECT_LT((climb.best().height - kCutHeight).count() * 3, (packed - kCutHeight).count() * 2);
  // A second one with the same work does the same.
  StripClimb again(records, map);
  again.Run(kCutHeight, 1'000'000, {});
  again.Run(kCutHeight, 3'000'000, {});
  EXPECT_EQ(again.best().offsets, climb.best().offsets);
  EXPECT_EQ(again.work(), climb.work());
}

TEST(StripClimbTest, StopsAtTheTargetOrWhenItIsTold) {
  const std::vector<UsageRecord> records = MakeInstance(InstanceFamily::kLoose, 400, 1);
  const SectionMap map = MapSections(records);
  StripClimb climb(records, map);
  climb.Run(Bytes::Max(), ~0ull, {});
  const std::uint64_t once = climb.work();
  climb.Run(Bytes(), ~0ull, [] { return true; });
  EXPECT_LT(climb.work(), 4 * once);
}

TEST(StripClimbTest, HasNothingToDoWithoutRecords) {
  const std::vector<UsageRecord> none, empty = {{.size = {}, .live = {StepIndex{0}, StepIndex{1}}}};
  for (const auto& records : {none, empty}) {
    const SectionMap map = MapSections(records);
    StripClimb climb(records, map);
    climb.Run(Bytes(), 1000, {});
    EXPECT_EQ(climb.best().height, Bytes());
    EXPECT_EQ(climb.best().offsets.size(), records.size());
  }
}

}  // namespace
}  // namespace sluice
