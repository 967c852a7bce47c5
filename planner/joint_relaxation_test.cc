#include "planner/joint_relaxation.h"

#include <algorithm>
#include <cstdint>
#include <vector>

#include "gtest/gtest.h"
#include "planner/any_problem.h"
#include "planner/draw.h"

namespace sluice {
namespace {

// Bytes of buffers and streamed extents at each step, at most, places aside.
std::uint64_t LargestSum(const JointProblem& problem, const std::vector<bool>& resident,
                         const std::vector<StepIndex>& begins) {
  const JointTimeline timeline(problem);
  std::uint64_t largest = 0;
  for (std::size_t t = 0; t < problem.steps.size(); ++t) {
    std::uint64_t sum = 0;
    for (const UsageRecord& buffer : problem.buffers) {
      const bool live = Index(buffer.live.begin) <= t && t < Index(buffer.live.end);
      if (live) sum += AlignUp(buffer.size, buffer.alignment).count();
    }
    for (std::size_t k = 0; k < problem.extents.size(); ++k) {
      const bool live = Index(begins[k]) <= t && t < Index(timeline.used[k].end);
      if (live && !resident[k]) sum += problem.extents[k].count();
    }
    largest = std::max(largest, sum);
  }
  return largest;
}

Duration Simulated(const JointProblem& problem, const std::vector<bool>& resident,
                   const std::vector<StepIndex>& begins) {
  JointPlan plan;
  plan.buffer_offsets.resize(problem.buffers.size());
  for (std::size_t k = 0; k < resident.size(); ++k) {
    PlannedExtent extent{.resident = resident[k], .offset = {}, .gate = {}};
    if (Index(begins[k]) > 0) extent.gate = At<StepIndex>(Index(begins[k]) - 1);
    plan.extents.push_back(extent);
  }
  return SimulateJointPlan(problem, plan).predicted;
}

class JointRelaxationProperty : public testing::TestWithParam<std::uint64_t> {};

TEST_P(JointRelaxationProperty, TheLatestBeginsKeepTheScheduleAndTheArena) {
  SCOPED_TRACE(testing::Message() << "replay with seed " << GetParam());
  Draw draw(GetParam());
  const AnyJoint joint = AnyJointNetwork(draw, 1 + draw.Below(40));
  const JointProblem problem = joint.Problem();
  const JointTimeline timeline(problem);
  JointRelaxation relaxation(problem, timeline);
  std::vector<bool> resident(problem.extents.size());
  for (std::size_t k = 0; k < resident.size(); ++k) resident[k] = draw.Below(4) == 0;
  const Bytes least = AlignUp(relaxation.LeastArena(), kPageSize);
  const Bytes arena = least + kPageSize * draw.Below(joint.stream.Total().count() / 4096 + 1);
  const auto relaxed = relaxation.Run(resident, arena);
  ASSERT_TRUE(relaxed.has_value());
  const std::vector<StepIndex> begins = relaxation.LatestBegins(resident);
  EXPECT_LE(LargestSum(problem, resident, begins), arena.count());
  EXPECT_EQ(Simulated(problem, resident, begins), relaxed->predicted);
  // One step later, some read is late, unless the step took no time at all.
  std::vector<StepIndex> later = begins;
  bool moved = false;
  for (std::size_t k = 0; k < later.size() && !moved; ++k) {
    const std::size_t begin = Index(begins[k]);
    if (resident[k] || begin >= Index(timeline.used[k].begin)) continue;
    if (problem.steps[begin].compute == Duration::zero()) continue;
    later[k] = At<StepIndex>(begin + 1);
    moved = true;
  }
  if (moved) {
    EXPECT_GT(Simulated(problem, resident, later), relaxed->predicted);
  }
}

TEST_P(JointRelaxationProperty, NoGatesAreSooner) {
  SCOPED_TRACE(testing::Message() << "replay with seed " << GetParam());
  Draw draw(GetParam());
  const AnyJoint joint = AnyJointNetwork(draw, 1 + draw.Below(8));
  const JointProblem problem = joint.Problem();
  const JointTimeline timeline(problem);
  JointRelaxation relaxation(problem, timeline);
  const std::vector<bool> none(problem.extents.size());
  const Bytes arena = AlignUp(relaxation.LeastArena(), kPageSize) + kPageSize * draw.Below(200);
  const auto relaxed = relaxation.Run(none, arena);
  ASSERT_TRUE(relaxed.has_value());
  int fitting = 0;
  for (int round = 0; round < 300; ++round) {
    std::vector<StepIndex> begins;
    for (const StepRange& used : timeline.used) {
      const std::size_t ahead = draw.Below(1 + draw.Below(6));
      begins.push_back(At<StepIndex>(Index(used.begin) - std::min(Index(used.begin), ahead)));
    }
    if (LargestSum(problem, none, begins) > arena.count()) continue;
    ++fitting;
    EXPECT_GE(Simulated(problem, none, begins), relaxed->predicted);
  }
  EXPECT_GT(fitting, 0);
  const auto more = relaxation.Run(none, arena + kPageSize * 50);
  ASSERT_TRUE(more.has_value());
  EXPECT_LE(more->predicted, relaxed->predicted);
}

INSTANTIATE_TEST_SUITE_P(Seeds, JointRelaxationProperty, testing::Range<std::uint64_t>(0, 20));

}  // namespace
}  // namespace sluice
