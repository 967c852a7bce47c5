#include "planner/joint_frontier.h"

#include <cstdint>

#include "gtest/gtest.h"
#include "planner/any_problem.h"
#include "planner/draw.h"
#include "planner/joint_check.h"

namespace sluice {
namespace {

class JointFrontierProperty : public testing::TestWithParam<std::uint64_t> {};

TEST_P(JointFrontierProperty, MoreMemoryIsSoonerOrReadsLess) {
  SCOPED_TRACE(testing::Message() << "replay with seed " << GetParam());
  Draw draw(GetParam());
  const AnyJoint joint = AnyJointNetwork(draw, 30 + draw.Below(20));
  const JointProblem problem = joint.Problem();
  JointPlanner planner(problem, {.least = {.work = 200'000}});
  const std::vector<JointPlan> frontier = JointFrontier(planner);
  EXPECT_GE(frontier.size(), 12u);
  EXPECT_LE(frontier.size(), 24u);
  EXPECT_EQ(frontier.front().memory(), planner.least_memory());
  EXPECT_EQ(frontier.back().read_bytes, Bytes());
  EXPECT_EQ(frontier.back().stall, Duration::zero());
  for (std::size_t i = 0; i < frontier.size(); ++i) {
    EXPECT_EQ(CheckJointPlan(problem, frontier[i]), absl::OkStatus());
    if (i == 0) continue;
    EXPECT_GT(frontier[i].memory(), frontier[i - 1].memory());
    EXPECT_LE(frontier[i].predicted, frontier[i - 1].predicted);
    if (frontier[i].predicted == frontier[i - 1].predicted) {
      EXPECT_LT(frontier[i].read_bytes, frontier[i - 1].read_bytes);
    }
  }
  const Duration latency = frontier.back().predicted * 105 / 100;
  const JointPlan soon = SmallestWithin(planner, latency);
  EXPECT_EQ(CheckJointPlan(problem, soon), absl::OkStatus());
  EXPECT_LE(soon.predicted, latency);
  for (const JointPlan& plan : frontier) {
    if (plan.predicted > latency) continue;
    EXPECT_LE(static_cast<double>(soon.memory().count()),
              1.01 * static_cast<double>(plan.memory().count()));
    break;
  }
  const Bytes height = PlanOffsets(problem.buffers, PlanLimits{.work = 200'000}).plan.height;
  const auto split = SmallestSplitWithin(problem, height, latency);
  if (split) {
    EXPECT_LE(static_cast<double>(soon.memory().count()),
              1.01 * static_cast<double>(split->count()));
  }
}

INSTANTIATE_TEST_SUITE_P(Seeds, JointFrontierProperty, testing::Range<std::uint64_t>(0, 3));

TEST(JointFrontierTest, ANetworkWithoutWeightsHasOnePoint) {
  const std::vector<StepCost> steps(
      3, StepCost{.compute = std::chrono::milliseconds(1), .extent = {}});
  const std::vector<UsageRecord> buffers = {{.size = 8_KiB, .live = {StepIndex{0}, StepIndex{2}}},
                                            {.size = 4_KiB, .live = {StepIndex{1}, StepIndex{3}}}};
  JointPlanner planner({.buffers = buffers, .extents = {}, .steps = steps, .read = {}});
  const std::vector<JointPlan> frontier = JointFrontier(planner);
  ASSERT_EQ(frontier.size(), 1u);
  EXPECT_EQ(frontier.front().memory(), 12_KiB);
  EXPECT_EQ(SmallestWithin(planner, Duration::zero()).memory(), 12_KiB);
}

}  // namespace
}  // namespace sluice
