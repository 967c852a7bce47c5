// planner/joint_check.h
//
// What a joint plan promises, restated by brute force: shares no code with the planner, so that a
// mistake there cannot hide here.
//
// Threads: pure functions, callable from anywhere.

#ifndef SLUICE_PLANNER_JOINT_CHECK_H_
#define SLUICE_PLANNER_JOINT_CHECK_H_

#include "absl/status/status.h"
#include "planner/joint_plan.h"

namespace sluice {

// OK when every buffer and streamed extent has an aligned place within the arena, each gate lies
// before the first step that needs the extent, no byte is in use twice at any step (an extent's are
// from the step after its gate, a read in flight included, until its last step has finished), and
// the sums of bytes are right.
// Fails: INTERNAL, naming the first thing or pair that breaks it, with its numbers.
// Cost:  O(n^2) time.
absl::Status CheckJointPlan(const JointProblem& problem, const JointPlan& plan);

}  // namespace sluice

#endif  // SLUICE_PLANNER_JOINT_CHECK_H_
