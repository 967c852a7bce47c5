#include "planner/joint_arena.h"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "gtest/gtest.h"
#include "planner/any_problem.h"
#include "planner/draw.h"
#include "planner/joint_check.h"
#include "planner/joint_repeat.h"

namespace sluice {
namespace {

using std::chrono::milliseconds;

// One millisecond for each page read, so that sizes in pages are times.
constexpr ReadCost kPagePerMillisecond{.latency = Duration::zero(), .bytes_per_second = 4096.0e3};

// Generated buffers have plans above the bound, so the whole of a search is always used.
const JointLimits kQuick{.least = {.work = 200'000}};

// What the joint arena replaces, at equal memory.
std::optional<StreamPlan> Split(const JointProblem& problem, Bytes height, Bytes memory) {
  const Bytes activations = AlignUp(height, kPageSize);
  if (memory < activations) return std::nullopt;
  return ChooseResidents(problem.steps, problem.extents, problem.read, memory - activations);
}

// Sizes in pages.
class Net {
 public:
  Net& Step(int compute_ms, std::uint64_t extent_pages = 0) {
    StepCost step{.compute = milliseconds(compute_ms), .extent = std::nullopt};
    if (extent_pages > 0) {
      step.extent = At<ExtentIndex>(joint_.stream.extents.size());
      joint_.stream.extents.push_back(kPageSize * extent_pages);
    }
    joint_.stream.steps.push_back(step);
    return *this;
  }
  Net& Buffer(std::uint64_t pages, std::size_t begin, std::size_t end) {
    joint_.buffers.push_back(
        {.size = kPageSize * pages, .live = {At<StepIndex>(begin), At<StepIndex>(end)}});
    return *this;
  }
  JointProblem Problem() {
    joint_.stream.read = kPagePerMillisecond;
    return joint_.Problem();
  }

 private:
  AnyJoint joint_;
};

TEST(JointPlannerTest, AnExtentIsReadIntoWhatADeadBufferHeld) {
  // Beside 11 pages of buffers at step 0 there is no room for e1; at step 1 there is. e0 stays, so
  // that nothing waits for it.
  Net net;
  net.Step(4, 1).Step(4).Step(4, 6).Buffer(8, 0, 1).Buffer(3, 0, 3);
  const JointProblem problem = net.Problem();
  JointPlanner planner(problem);
  EXPECT_EQ(planner.least_memory(), kPageSize * 12);
  const auto plan = planner.PlanWithin(kPageSize * 12);
  ASSERT_TRUE(plan.has_value());
  EXPECT_EQ(CheckJointPlan(problem, *plan), absl::OkStatus());
  EXPECT_EQ(plan->extents[1].gate, StepIndex{0});
  EXPECT_TRUE(plan->extents[0].resident);
  EXPECT_EQ(plan->predicted, milliseconds(4 + 6 + 4));
  EXPECT_EQ(plan->stall, milliseconds(2));
}

TEST(JointPlannerTest, DeclinesLessThanTheLeastMemory) {
  Net net;
  net.Step(1, 2).Step(1, 3).Buffer(4, 0, 1).Buffer(2, 1, 2);
  JointPlanner planner(net.Problem());
  EXPECT_EQ(planner.least_memory(), kPageSize * 6);
  EXPECT_EQ(planner.least_bound(), kPageSize * 6);
  EXPECT_FALSE(planner.PlanWithin(kPageSize * 6 - Bytes::Of(1)).has_value());
  EXPECT_TRUE(planner.PlanWithin(kPageSize * 6).has_value());
}

TEST(JointPlannerTest, EverythingIsResidentWhenItFits) {
  Net net;
  net.Step(1, 2).Step(1, 3).Buffer(4, 0, 1).Buffer(2, 1, 2);
  JointPlanner planner(net.Problem());
  EXPECT_EQ(planner.most_memory(), kPageSize * 9);
  const auto plan = planner.PlanWithin(kPageSize * 20);
  ASSERT_TRUE(plan.has_value());
  EXPECT_EQ(plan->memory(), kPageSize * 9);
  EXPECT_EQ(plan->read_bytes, Bytes());
  EXPECT_EQ(plan->predicted, milliseconds(2));
}

TEST(JointPlannerTest, ANetworkWithoutStepsOrWeightsNeedsNothing) {
  JointPlanner planner(JointProblem{});
  const auto plan = planner.PlanWithin(Bytes());
  ASSERT_TRUE(plan.has_value());
  EXPECT_EQ(plan->memory(), Bytes());
  EXPECT_EQ(plan->predicted, Duration::zero());
}

TEST(BackToBackTest, TheFirstReadHidesBehindTheLastSteps) {
  // Nothing holds e0's bytes when step 0 has finished, so the next e0 is read during step 1.
  Net net;
  net.Step(4, 3).Step(4).Step(4).Buffer(1, 0, 3);
  const JointProblem problem = net.Problem();
  JointPlanner planner(problem);
  const auto plan = planner.PlanWithin(kPageSize * 4);
  ASSERT_TRUE(plan.has_value());
  JointPlan streamed = *plan;
  streamed.extents[0] = {.resident = false, .offset = kPageSize, .gate = {}};
  streamed.buffer_offsets[0] = Bytes();
  CompleteJointPlan(problem, streamed);
  EXPECT_EQ(streamed.predicted, milliseconds(3 + 12));
  EXPECT_EQ(EarlyGates(problem, streamed)[0], StepIndex{0});
  EXPECT_EQ(BackToBack(problem, streamed), milliseconds(12));
}

// What networks for pictures look like: activations shrink and weights grow along the way.
Net Pyramid() {
  Net net;
  constexpr std::size_t kSteps = 40;
  for (std::size_t i = 0; i < kSteps; ++i) net.Step(12, 1 + i / 4);
  for (std::size_t i = 0; i + 1 < kSteps; ++i) net.Buffer(60 / (i + 1) + 2, i, i + 2);
  return net;
}

TEST(JointPlannerTest, TakesLessThanTheSplitWherePeaksInterleave) {
  Net net = Pyramid();
  const JointProblem problem = net.Problem();
  const Bytes height = PlanOffsets(problem.buffers).height;
  JointPlanner planner(problem);
  // The least memory in which the split does not stall after its first read.
  Bytes memory = height;
  std::optional<StreamPlan> split;
  do {
    memory += kPageSize;
    split = Split(problem, height, memory);
  } while (!split || split->stall > milliseconds(5));
  const Bytes less = Bytes::Of(memory.count() / 100 * 85);
  const auto plan = planner.PlanWithin(less);
  ASSERT_TRUE(plan.has_value());
  EXPECT_EQ(CheckJointPlan(problem, *plan), absl::OkStatus());
  EXPECT_LE(plan->predicted, split->predicted);
  // Activations and weights are never large together: they take what the activations do.
  EXPECT_LE(planner.least_memory(), AlignUp(height, kPageSize) + kPageSize);
}

TEST(JointPlannerTest, ReadsLessWhereThatCostsAlmostNothing) {
  Net net = Pyramid();
  const JointProblem problem = net.Problem();
  JointPlanner planner(problem);
  const Bytes most = planner.most_memory();
  const auto plan = planner.PlanWithin(Bytes::Of(most.count() / 2));
  ASSERT_TRUE(plan.has_value());
  EXPECT_LE(Seconds(plan->stall), 0.01 * Seconds(plan->predicted));
  // All but what the buffers leave no room for, and a few extents in flight.
  EXPECT_GE(plan->resident_bytes + kPageSize * 100, Bytes::Of(most.count() / 2));
}

// What the arena's bytes hold while an inference runs with times of its own, steps and reads, many
// in flight and ending in any order. Nothing of the plan's own arithmetic: bytes carry the name of
// what was written last, and who reads must find its own.
class Machine {
 public:
  Machine(const JointProblem& problem, const JointPlan& plan, Draw& draw)
      : problem_(problem), plan_(plan), draw_(draw), lines_(plan.arena.count() / kLine + 1) {}

  // False when a step found other bytes than its own.
  bool Run() {
    std::vector<std::size_t> flying;
    std::size_t next_read = 0, step = 0;
    bool running = false;
    std::vector<bool> there(problem_.extents.size());
    for (std::size_t k = 0; k < there.size(); ++k) there[k] = plan_.extents[k].resident;
    while (step < problem_.steps.size()) {
      while (next_read < there.size() && MayIssue(next_read, step)) {
        if (!there[next_read]) {
          Write(ExtentName(next_read), plan_.extents[next_read].offset,
                problem_.extents[next_read]);
          flying.push_back(next_read);
        }
        ++next_read;
      }
      const std::optional<ExtentIndex> extent = problem_.steps[step].extent;
      const bool ready = !extent || there[Index(*extent)];
      // Either a read ends or the step goes on, whichever the dice say.
      if (!flying.empty() && (!ready || draw_.Below(2) == 0)) {
        const std::size_t at = draw_.Below(flying.size());
        const std::size_t k = flying[at];
        flying.erase(flying.begin() + static_cast<std::ptrdiff_t>(at));
        Write(ExtentName(k), plan_.extents[k].offset, problem_.extents[k]);
        there[k] = true;
        continue;
      }
      if (!ready) return false;  // Nothing in flight: it would wait for ever.
      if (!Use(step, running)) return false;
      step += running ? 1 : 0;
      running = !running;
    }
    return true;
  }

 private:
  static constexpr std::uint64_t kLine = 64;

  std::uint32_t ExtentName(std::size_t k) const { return static_cast<std::uint32_t>(k + 1); }
  std::uint32_t BufferName(std::size_t i) const {
    return static_cast<std::uint32_t>(problem_.extents.size() + i + 1);
  }

  // Steps before `step` have finished.
  bool MayIssue(std::size_t k, std::size_t step) const {
    const PlannedExtent& extent = plan_.extents[k];
    return extent.resident || !extent.gate || Index(*extent.gate) < step;
  }

  // The step begins, or ends: both ends read what it needs and write what it makes.
  bool Use(std::size_t step, bool ends) {
    const std::optional<ExtentIndex> extent = problem_.steps[step].extent;
    if (extent && !plan_.extents[Index(*extent)].resident) {
      const std::size_t k = Index(*extent);
      if (!Holds(ExtentName(k), plan_.extents[k].offset, problem_.extents[k])) return false;
    }
    for (std::size_t i = 0; i < problem_.buffers.size(); ++i) {
      const UsageRecord& buffer = problem_.buffers[i];
      if (Index(buffer.live.begin) > step || Index(buffer.live.end) <= step) continue;
      if (Index(buffer.live.begin) == step && !ends) {
        Write(BufferName(i), plan_.buffer_offsets[i], buffer.size);
      } else if (!Holds(BufferName(i), plan_.buffer_offsets[i], buffer.size)) {
        return false;
      }
    }
    return true;
  }

  std::span<std::uint32_t> Lines(Bytes offset, Bytes size) {
    return std::span(lines_).subspan(offset.count() / kLine, (size.count() + kLine - 1) / kLine);
  }
  void Write(std::uint32_t name, Bytes offset, Bytes size) {
    std::ranges::fill(Lines(offset, size), name);
  }
  bool Holds(std::uint32_t name, Bytes offset, Bytes size) {
    const auto lines = Lines(offset, size);
    return std::ranges::all_of(lines, [name](std::uint32_t line) { return line == name; });
  }

  const JointProblem& problem_;
  const JointPlan& plan_;
  Draw& draw_;
  std::vector<std::uint32_t> lines_;
};

// Every gate is as early as its place allows, so one step earlier is refused; and the machine sees
// what that breaks, so it would have seen it in the plan.
void ExpectMutantsAreCaught(const JointProblem& problem, const JointPlan& plan, Draw& draw,
                            int& corrupted) {
  for (std::size_t k = 0; k < plan.extents.size(); ++k) {
    if (plan.extents[k].resident) continue;
    JointPlan moved = plan;
    moved.extents[k].offset += kBufferAlignment;
    EXPECT_FALSE(CheckJointPlan(problem, moved).ok());
    moved.extents[k].offset = plan.arena;
    EXPECT_FALSE(CheckJointPlan(problem, moved).ok());
    if (!plan.extents[k].gate) continue;
    JointPlan early = plan;
    const std::size_t gate = Index(*plan.extents[k].gate);
    early.extents[k].gate.reset();
    if (gate > 0) early.extents[k].gate = At<StepIndex>(gate - 1);
    EXPECT_FALSE(CheckJointPlan(problem, early).ok()) << "extent " << k;
    corrupted += Machine(problem, early, draw).Run() ? 0 : 1;
  }
}

class JointPlannerProperty : public testing::TestWithParam<std::uint64_t> {};

TEST_P(JointPlannerProperty, IsSoundAndNeverLaterThanTheSplit) {
  SCOPED_TRACE(testing::Message() << "replay with seed " << GetParam());
  Draw draw(GetParam());
  const AnyJoint joint = AnyJointNetwork(draw, 1 + draw.Below(40));
  const JointProblem problem = joint.Problem();
  JointPlanner planner(problem, kQuick);
  const Bytes height = PlanOffsets(problem.buffers, kQuick.least).plan.height;
  EXPECT_LE(planner.least_bound(), planner.least_memory());
  const std::uint64_t least = planner.least_memory().count() / kPageSize.count();
  const std::uint64_t most = planner.most_memory().count() / kPageSize.count();
  Duration before = Duration::max();
  for (std::uint64_t quarter = 0; quarter <= 4; ++quarter) {
    const Bytes memory = kPageSize * (least + (most - least) * quarter / 4);
    const auto plan = planner.PlanWithin(memory);
    ASSERT_TRUE(plan.has_value());
    EXPECT_EQ(CheckJointPlan(problem, *plan), absl::OkStatus());
    EXPECT_LE(plan->memory(), memory);
    // More memory costs no more than the tolerance and the greedy choice's own error.
    EXPECT_LE(Seconds(plan->predicted), 1.03 * Seconds(before)) << quarter << "/4";
    before = std::min(before, plan->predicted);
    EXPECT_EQ(plan->predicted, SimulateJointPlan(problem, *plan).predicted);
    const auto split = Split(problem, height, memory);
    if (split) {
      EXPECT_LE(plan->predicted, split->predicted);
    }
    for (int run = 0; run < 3; ++run) EXPECT_TRUE(Machine(problem, *plan, draw).Run());
    const auto again = planner.PlanWithin(memory);
    ASSERT_TRUE(again.has_value());
    EXPECT_EQ(again->buffer_offsets, plan->buffer_offsets);
    EXPECT_EQ(again->predicted, plan->predicted);
  }
}

TEST_P(JointPlannerProperty, TheRingAsAJointPlanTakesTheSameTime) {
  SCOPED_TRACE(testing::Message() << "replay with seed " << GetParam());
  Draw draw(GetParam());
  const AnyJoint joint = AnyJointNetwork(draw, 1 + draw.Below(30));
  const JointProblem problem = joint.Problem();
  const OffsetPlan buffers = PlanOffsets(problem.buffers, PlanLimits{.work = 1000}).plan;
  const Bytes memory =
      MinimumStreamMemory(problem.extents) + Bytes::Of(draw.Below(joint.stream.Total().count()));
  const auto stream = ChooseResidents(problem.steps, problem.extents, problem.read, memory);
  ASSERT_TRUE(stream.has_value());
  const JointPlan plan = JointPlanOfRing(problem, buffers.offsets, buffers.height, *stream);
  EXPECT_EQ(CheckJointPlan(problem, plan), absl::OkStatus());
  EXPECT_EQ(plan.predicted, stream->predicted);
  EXPECT_EQ(plan.stall, stream->stall);
  EXPECT_EQ(plan.resident_bytes, stream->resident_bytes);
  EXPECT_TRUE(Machine(problem, plan, draw).Run());
}

TEST_P(JointPlannerProperty, TheNextInferenceBeginsBeforeThisOneEnds) {
  SCOPED_TRACE(testing::Message() << "replay with seed " << GetParam());
  Draw draw(GetParam());
  const AnyJoint joint = AnyJointNetwork(draw, 1 + draw.Below(20));
  const JointProblem problem = joint.Problem();
  JointPlanner planner(problem, kQuick);
  const Bytes spare = planner.most_memory() - planner.least_memory();
  const auto plan =
      planner.PlanWithin(planner.least_memory() + Bytes::Of(draw.Below(spare.count() / 2 + 1)));
  ASSERT_TRUE(plan.has_value());
  const RepeatedInferences twice = RepeatInference(problem, *plan, 2);
  const JointProblem both = twice.problem();
  EXPECT_EQ(CheckJointPlan(both, twice.plan), absl::OkStatus());
  EXPECT_EQ(twice.plan.arena, plan->arena);
  EXPECT_TRUE(Machine(both, twice.plan, draw).Run());
  EXPECT_LE(twice.plan.predicted, plan->predicted * 2);
  const Duration next = BackToBack(problem, *plan);
  EXPECT_LE(next, plan->predicted);
  Duration reading{};
  const JointTimeline timeline(problem);
  for (std::size_t k = 0; k < plan->extents.size(); ++k) {
    if (!plan->extents[k].resident) reading += timeline.transfer[k];
  }
  EXPECT_GE(next, std::max(reading, timeline.compute));
}

INSTANTIATE_TEST_SUITE_P(Seeds, JointPlannerProperty, testing::Range<std::uint64_t>(0, 16));

TEST(CheckJointPlanTest, RefusesAGateOrAPlaceThatIsWrong) {
  int corrupted = 0;
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    SCOPED_TRACE(testing::Message() << "replay with seed " << seed);
    Draw draw(seed);
    const AnyJoint joint = AnyJointNetwork(draw, 5 + draw.Below(20));
    const JointProblem problem = joint.Problem();
    JointPlanner planner(problem, kQuick);
    const auto plan = planner.PlanWithin(planner.least_memory());
    ASSERT_TRUE(plan.has_value());
    ASSERT_EQ(CheckJointPlan(problem, *plan), absl::OkStatus());
    ExpectMutantsAreCaught(problem, *plan, draw, corrupted);
  }
  EXPECT_GT(corrupted, 50);
}

// A problem in pages, small enough to try all plans.
AnyJoint TinyNetwork(Draw& draw) {
  AnyJoint joint;
  const std::size_t steps = 3 + draw.Below(2);
  for (std::size_t t = 0; t < steps; ++t) {
    StepCost step{.compute = milliseconds(draw.Below(6)), .extent = std::nullopt};
    if (draw.Below(4) > 0) {
      step.extent = At<ExtentIndex>(joint.stream.extents.size());
      joint.stream.extents.push_back(kPageSize * (1 + draw.Below(3)));
    }
    joint.stream.steps.push_back(step);
    joint.buffers.push_back(
        {.size = kPageSize * draw.Below(4),
         .live = {At<StepIndex>(t), At<StepIndex>(std::min(t + 1 + draw.Below(2), steps))}});
  }
  joint.stream.read = kPagePerMillisecond;
  return joint;
}

// All plans of a tiny network, by brute force.
class AllPlans {
 public:
  AllPlans(const JointProblem& problem, Bytes memory)
      : problem_(problem), timeline_(problem), pages_(memory.count() / kPageSize.count()) {
    plan_.buffer_offsets.resize(problem.buffers.size());
    plan_.extents.resize(problem.extents.size());
  }
  std::optional<Duration> Best() {
    TryExtent(0, pages_);
    return best_;
  }

 private:
  void TryExtent(std::size_t k, std::uint64_t pages) {
    if (k == problem_.extents.size()) {
      const Duration predicted = SimulateJointPlan(problem_, plan_).predicted;
      if (best_ && *best_ <= predicted) return;
      if (Packs(Boxes(), pages, 0)) best_ = predicted;
      return;
    }
    const std::uint64_t size = problem_.extents[k].count() / kPageSize.count();
    PlannedExtent& extent = plan_.extents[k];
    extent = {.resident = true, .offset = {}, .gate = {}};
    if (size <= pages) TryExtent(k + 1, pages - size);
    for (std::size_t begin = 0; begin <= Index(timeline_.used[k].begin); ++begin) {
      extent = {.resident = false, .offset = {}, .gate = {}};
      if (begin > 0) extent.gate = At<StepIndex>(begin - 1);
      TryExtent(k + 1, pages);
    }
  }

  struct Box {
    std::uint64_t size;
    std::size_t begin, end;
    std::uint64_t offset = 0;
  };
  std::vector<Box> Boxes() const {
    std::vector<Box> boxes;
    for (const UsageRecord& buffer : problem_.buffers) {
      boxes.push_back({.size = buffer.size.count() / kPageSize.count(),
                       .begin = Index(buffer.live.begin),
                       .end = Index(buffer.live.end)});
    }
    for (std::size_t k = 0; k < problem_.extents.size(); ++k) {
      const PlannedExtent& extent = plan_.extents[k];
      if (extent.resident) continue;
      boxes.push_back({.size = problem_.extents[k].count() / kPageSize.count(),
                       .begin = extent.gate ? Index(*extent.gate) + 1 : 0,
                       .end = Index(timeline_.used[k].end)});
    }
    return boxes;
  }
  bool Packs(std::vector<Box> boxes, std::uint64_t pages, std::size_t next) const {
    if (next == boxes.size()) return true;
    Box& box = boxes[next];
    for (box.offset = 0; box.offset + box.size <= pages; ++box.offset) {
      bool free = true;
      for (std::size_t i = 0; i < next && free; ++i) {
        const Box& other = boxes[i];
        free = box.end <= other.begin || other.end <= box.begin ||
               box.offset + box.size <= other.offset || other.offset + other.size <= box.offset;
      }
      if (free && Packs(boxes, pages, next + 1)) return true;
    }
    return false;
  }

  const JointProblem& problem_;
  const JointTimeline timeline_;
  const std::uint64_t pages_;
  JointPlan plan_;
  std::optional<Duration> best_;
};

TEST(JointPlannerTest, IsCloseToTheBestOfAllPlans) {
  int optimal = 0, all = 0;
  for (std::uint64_t seed = 0; seed < 100; ++seed) {
    SCOPED_TRACE(testing::Message() << "replay with seed " << seed);
    Draw draw(seed);
    const AnyJoint joint = TinyNetwork(draw);
    const JointProblem problem = joint.Problem();
    JointPlanner planner(problem);
    const Bytes least = planner.least_memory();
    // No smaller arena runs.
    EXPECT_TRUE(AllPlans(problem, least).Best().has_value());
    if (least > Bytes()) {
      EXPECT_FALSE(AllPlans(problem, least - kPageSize).Best().has_value());
    }
    const Bytes memory = least + kPageSize * draw.Below(4);
    const auto plan = planner.PlanWithin(memory);
    ASSERT_TRUE(plan.has_value());
    const Duration best = *AllPlans(problem, memory).Best();
    EXPECT_LE(Seconds(plan->predicted), 1.35 * Seconds(best));
    optimal += Seconds(plan->predicted) <= 1.01 * Seconds(best) ? 1 : 0;
    ++all;
  }
  EXPECT_GE(optimal, all * 97 / 100);
}

}  // namespace
}  // namespace sluice
