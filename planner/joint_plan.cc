#include "planner/joint_plan.h"

#include <algorithm>
#include <cstddef>

#include "base/check.h"
#include "planner/ring_layout.h"
#include "planner/stream_simulation.h"

namespace sluice {

std::vector<bool> JointPlan::Residents() const {
  std::vector<bool> resident;
  for (const PlannedExtent& extent : extents) resident.push_back(extent.resident);
  return resident;
}

JointTimeline::JointTimeline(const JointProblem& problem)
    : used(problem.extents.size()), latency(ReadLatency(problem.read)) {
  for (const Bytes extent : problem.extents) transfer.push_back(TransferTime(extent, problem.read));
  for (std::size_t t = 0; t < problem.steps.size(); ++t) {
    compute += problem.steps[t].compute;
    if (!problem.steps[t].extent) continue;
    StepRange& range = used[Index(*problem.steps[t].extent)];
    if (range.end == StepIndex{}) range.begin = At<StepIndex>(t);
    range.end = At<StepIndex>(t + 1);
  }
  for (std::size_t k = 0; k < used.size(); ++k) {
    SLUICE_CHECK(used[k].end != StepIndex{});
    SLUICE_CHECK(k == 0 || used[k].begin >= used[k - 1].end);
  }
}

JointOutcome SimulateJointPlan(const JointProblem& problem, const JointPlan& plan) {
  const JointTimeline timeline(problem);
  JointOutcome outcome;
  outcome.reads.resize(problem.extents.size());
  Duration now{}, reader{}, issued{};
  std::size_t next = 0;  // The first extent that no step before needed.
  for (std::size_t t = 0; t < problem.steps.size(); ++t) {
    if (next < timeline.used.size() && Index(timeline.used[next].begin) == t) {
      const PlannedExtent& extent = plan.extents[next];
      if (!extent.resident) {
        if (extent.gate) {
          SLUICE_CHECK(Index(*extent.gate) < t);
          issued = std::max(issued, outcome.step_ends[Index(*extent.gate)]);
        }
        const Duration begin = std::max(reader, issued + timeline.latency);
        reader = begin + timeline.transfer[next];
        outcome.reads[next] = {.begin = begin, .end = reader};
        if (reader > now) {
          outcome.stall += reader - now;
          now = reader;
        }
      }
      ++next;
    }
    now += problem.steps[t].compute;
    outcome.step_ends.push_back(now);
  }
  outcome.predicted = now;
  return outcome;
}

void CompleteJointPlan(const JointProblem& problem, JointPlan& plan) {
  Bytes height;
  for (std::size_t i = 0; i < problem.buffers.size(); ++i) {
    if (problem.buffers[i].size == Bytes()) continue;
    height = std::max(height, plan.buffer_offsets[i] + problem.buffers[i].size);
  }
  plan.resident_bytes = plan.read_bytes = Bytes();
  for (std::size_t k = 0; k < problem.extents.size(); ++k) {
    const PlannedExtent& extent = plan.extents[k];
    (extent.resident ? plan.resident_bytes : plan.read_bytes) += problem.extents[k];
    if (!extent.resident) height = std::max(height, extent.offset + problem.extents[k]);
  }
  plan.arena = AlignUp(height, kPageSize);
  const JointOutcome outcome = SimulateJointPlan(problem, plan);
  plan.predicted = outcome.predicted;
  plan.stall = outcome.stall;
}

JointPlan JointPlanOfRing(const JointProblem& problem, std::span<const Bytes> buffer_offsets,
                          Bytes height, const StreamPlan& stream) {
  const JointTimeline timeline(problem);
  JointPlan plan;
  plan.buffer_offsets.assign(buffer_offsets.begin(), buffer_offsets.end());
  plan.extents.resize(problem.extents.size());
  const Bytes ring = AlignUp(height, kPageSize);
  const auto places = LayOutRing(problem.extents, stream.resident, stream.ring);
  for (std::size_t k = 0; k < places.size(); ++k) {
    PlannedExtent& extent = plan.extents[k];
    extent.resident = !places[k].has_value();
    if (!places[k]) continue;
    extent.offset = ring + places[k]->offset;
    if (places[k]->after) {
      extent.gate = At<StepIndex>(Index(timeline.used[Index(*places[k]->after)].end) - 1);
    }
  }
  CompleteJointPlan(problem, plan);
  return plan;
}

}  // namespace sluice
