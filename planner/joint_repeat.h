// planner/joint_repeat.h
//
// Inferences one after the other in one joint arena, when a request waits: the first extents of the
// next one are read while the last steps of this one compute, into bytes that nothing needs then.
//
//   reader    |e0|e1|e2|  e3  |e0|e1|e2|  e3  |e0|e1
//   computer      |s0|s1|s2|  |s3|s0|s1|s2|   |s3|s0     e0 and e1 do not wait for the end of s3
//
// Threads: pure functions, callable from anywhere. Same input, same answer.

#ifndef SLUICE_PLANNER_JOINT_REPEAT_H_
#define SLUICE_PLANNER_JOINT_REPEAT_H_

#include <cstddef>
#include <optional>
#include <vector>

#include "planner/joint_plan.h"

namespace sluice {

// By extent: the step of the inference before after which its read may be issued. Empty for
// residents, for extents that wait for a gate of their own inference or for one that does, and
// where the bytes are in use until the end. Requires: `plan` is a plan of the problem.
std::vector<std::optional<StepIndex>> EarlyGates(const JointProblem& problem,
                                                 const JointPlan& plan);

// So many inferences of one plan as one long inference: what holds for a plan holds for it.
struct RepeatedInferences {
  std::vector<UsageRecord> buffers;
  std::vector<Bytes> extents;
  std::vector<StepCost> steps;
  ReadCost read;
  JointPlan plan;

  // Borrows from this.
  JointProblem problem() const {
    return {.buffers = buffers, .extents = extents, .steps = steps, .read = read};
  }
};

// Requires: as above; times >= 1, and times * steps below 2^32.
RepeatedInferences RepeatInference(const JointProblem& problem, const JointPlan& plan,
                                   std::size_t times);

// From one answer to the next while requests wait.
Duration BackToBack(const JointProblem& problem, const JointPlan& plan);

}  // namespace sluice

#endif  // SLUICE_PLANNER_JOINT_REPEAT_H_
