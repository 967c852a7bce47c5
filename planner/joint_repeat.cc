#include "planner/joint_repeat.h"

#include <algorithm>

#include "base/check.h"

namespace sluice {
namespace {

bool Overlap(Bytes a, Bytes a_size, Bytes b, Bytes b_size) {
  return a < b + b_size && b < a + a_size;
}

// The end of what holds any byte of [offset, offset + size) last.
std::size_t LastUse(const JointProblem& problem, const JointTimeline& timeline,
                    const JointPlan& plan, Bytes offset, Bytes size) {
  std::size_t end = 0;
  for (std::size_t i = 0; i < problem.buffers.size(); ++i) {
    const UsageRecord& buffer = problem.buffers[i];
    if (Overlap(offset, size, plan.buffer_offsets[i], buffer.size)) {
      end = std::max(end, Index(buffer.live.end));
    }
  }
  for (std::size_t k = 0; k < problem.extents.size(); ++k) {
    const PlannedExtent& extent = plan.extents[k];
    if (!extent.resident && Overlap(offset, size, extent.offset, problem.extents[k])) {
      end = std::max(end, Index(timeline.used[k].end));
    }
  }
  return end;
}

StepRange Shifted(const StepRange& range, std::size_t steps) {
  return {.begin = At<StepIndex>(Index(range.begin) + steps),
          .end = At<StepIndex>(Index(range.end) + steps)};
}

}  // namespace

std::vector<std::optional<StepIndex>> EarlyGates(const JointProblem& problem,
                                                 const JointPlan& plan) {
  const JointTimeline timeline(problem);
  std::vector<std::optional<StepIndex>> gates(problem.extents.size());
  for (std::size_t k = 0; k < gates.size(); ++k) {
    const PlannedExtent& extent = plan.extents[k];
    if (extent.resident) continue;
    if (extent.gate) break;
    const std::size_t end = LastUse(problem, timeline, plan, extent.offset, problem.extents[k]);
    if (end == problem.steps.size()) break;
    gates[k] = At<StepIndex>(std::max<std::size_t>(end, 1) - 1);
  }
  return gates;
}

RepeatedInferences RepeatInference(const JointProblem& problem, const JointPlan& plan,
                                   std::size_t times) {
  SLUICE_CHECK(times >= 1);
  const std::vector<std::optional<StepIndex>> early = EarlyGates(problem, plan);
  RepeatedInferences repeated{
      .buffers = {}, .extents = {}, .steps = {}, .read = problem.read, .plan = {}};
  for (std::size_t time = 0; time < times; ++time) {
    const std::size_t before = repeated.steps.size(), extents = repeated.extents.size();
    for (UsageRecord buffer : problem.buffers) {
      buffer.live = Shifted(buffer.live, before);
      repeated.buffers.push_back(buffer);
    }
    for (StepCost step : problem.steps) {
      if (step.extent) step.extent = At<ExtentIndex>(Index(*step.extent) + extents);
      repeated.steps.push_back(step);
    }
    for (std::size_t k = 0; k < problem.extents.size(); ++k) {
      PlannedExtent extent = plan.extents[k];
      if (extent.gate) {
        extent.gate = At<StepIndex>(Index(*extent.gate) + before);
      } else if (!extent.resident && time > 0) {
        extent.gate =
            At<StepIndex>(early[k] ? Index(*early[k]) + before - problem.steps.size() : before - 1);
      }
      repeated.extents.push_back(problem.extents[k]);
      repeated.plan.extents.push_back(extent);
    }
    repeated.plan.buffer_offsets.insert(repeated.plan.buffer_offsets.end(),
                                        plan.buffer_offsets.begin(), plan.buffer_offsets.end());
  }
  CompleteJointPlan(repeated.problem(), repeated.plan);
  return repeated;
}

Duration BackToBack(const JointProblem& problem, const JointPlan& plan) {
  // What is read early reaches back into one inference only, so a few settle.
  constexpr std::size_t kWarm = 3;
  return RepeatInference(problem, plan, kWarm + 1).plan.predicted -
         RepeatInference(problem, plan, kWarm).plan.predicted;
}

}  // namespace sluice
