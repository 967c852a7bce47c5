#include "server/memory_split.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

namespace sluice {
namespace {

constexpr ReadCost kDisk{.latency = std::chrono::microseconds(100), .bytes_per_second = 1e9};

// A chain: step i uses extent i.
struct Chain {
  Chain(std::size_t count, Bytes extent, Bytes activation_height, Duration compute)
      : extents(count, extent), height(activation_height) {
    for (std::size_t i = 0; i < count; ++i) {
      steps.push_back({.compute = compute, .extent = At<ExtentIndex>(i)});
    }
  }
  ModelDemand demand(double weight = 1, bool all_resident = false) const {
    return {.steps = steps,
            .extents = extents,
            .activations = height,
            .weight = weight,
            .all_resident = all_resident};
  }
  std::vector<StepCost> steps;
  std::vector<Bytes> extents;
  Bytes height;
};

// Restates what a split promises; shares no code with it.
void Check(const std::vector<ModelDemand>& models, const MemorySplit& split, Bytes memory) {
  ASSERT_EQ(split.plans.size(), models.size());
  Bytes used = split.arena;
  for (std::size_t i = 0; i < models.size(); ++i) {
    const StreamPlan& plan = split.plans[i];
    Bytes resident, largest_streamed;
    for (std::size_t e = 0; e < models[i].extents.size(); ++e) {
      if (plan.resident[e]) {
        resident += models[i].extents[e];
      } else {
        largest_streamed = std::max(largest_streamed, models[i].extents[e]);
        EXPECT_FALSE(models[i].all_resident);
      }
    }
    EXPECT_EQ(plan.resident_bytes, resident);
    EXPECT_LE(AlignUp(models[i].activations, kPageSize) + largest_streamed, split.arena);
    used += resident;
  }
  EXPECT_LE(used, memory);
}

TEST(MemorySplitTest, StreamsWhatIsOverTheMostThatMayStay) {
  const Chain a(4, 1_MiB, 2_MiB, std::chrono::milliseconds(1));
  for (const Bytes most : {Bytes(), 1_MiB, 3_MiB}) {
    ModelDemand demand = a.demand();
    demand.most_resident = most;
    const std::optional<MemorySplit> split = SplitMemory(std::vector{demand}, kDisk, 90_MiB);
    ASSERT_TRUE(split.has_value());
    Check({demand}, *split, 90_MiB);
    EXPECT_EQ(split->plans[0].resident_bytes, most);
  }
}

TEST(MemorySplitTest, KeepsEverythingWhenItFits) {
  const Chain a(4, 1_MiB, 2_MiB, std::chrono::milliseconds(1));
  const Chain b(2, 1_MiB, 3_MiB, std::chrono::milliseconds(1));
  const std::vector<ModelDemand> models = {a.demand(), b.demand()};
  const std::optional<MemorySplit> split = SplitMemory(models, kDisk, 9_MiB);
  ASSERT_TRUE(split.has_value());
  EXPECT_EQ(split->arena, 3_MiB);
  EXPECT_EQ(split->plans[0].resident_bytes, 4_MiB);
  EXPECT_EQ(split->plans[1].resident_bytes, 2_MiB);
  Check(models, *split, 9_MiB);
}

TEST(MemorySplitTest, RunsInTheLeastMemoryAndNotBelow) {
  const Chain a(8, 2_MiB, 5_MiB, std::chrono::milliseconds(1));
  const Chain pinned(3, 1_MiB, 1_MiB, std::chrono::milliseconds(1));
  const std::vector<ModelDemand> models = {a.demand(), pinned.demand(1, true)};
  EXPECT_EQ(LeastMemory(models), 10_MiB);  // 5 + 2 for the arena, 3 pinned.
  EXPECT_FALSE(SplitMemory(models, kDisk, 10_MiB - kPageSize).has_value());
  const std::optional<MemorySplit> split = SplitMemory(models, kDisk, 10_MiB);
  ASSERT_TRUE(split.has_value());
  EXPECT_EQ(split->plans[0].resident_bytes, Bytes());
  EXPECT_EQ(split->plans[1].resident_bytes, 3_MiB);
  Check(models, *split, 10_MiB);
}

TEST(MemorySplitTest, StaysWithinAnyMemory) {
  const Chain a(20, 1_MiB + kPageSize, 3_MiB + Bytes::Of(100), std::chrono::microseconds(900));
  const Chain b(5, 3_MiB, 1_MiB, std::chrono::milliseconds(2));
  const Chain none(0, Bytes(), 2_MiB, std::chrono::milliseconds(1));
  const std::vector<ModelDemand> models = {a.demand(2), b.demand(), none.demand()};
  for (Bytes memory = LeastMemory(models); memory < 48_MiB; memory += 1_MiB + 12_KiB) {
    const std::optional<MemorySplit> split = SplitMemory(models, kDisk, memory);
    ASSERT_TRUE(split.has_value()) << FormatBytes(memory);
    Check(models, *split, memory);
  }
}

TEST(MemorySplitTest, DoesNotLeaveMemoryUnusedThatWouldSaveReading) {
  const Chain a(32, 1_MiB, 2_MiB, std::chrono::microseconds(200));
  const std::vector<ModelDemand> models = {a.demand()};
  const std::optional<MemorySplit> split = SplitMemory(models, kDisk, 20_MiB);
  ASSERT_TRUE(split.has_value());
  EXPECT_GT(split->arena + split->plans[0].resident_bytes, 18_MiB);
}

}  // namespace
}  // namespace sluice
