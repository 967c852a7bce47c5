// planner/plan_picture.h
//
// A plan for eyes: steps go right, addresses go up, one rectangle a record, the peak marked. A
// pointer over a rectangle shows what it is.
//
// Threads: pure functions, callable from anywhere.

#ifndef SLUICE_PLANNER_PLAN_PICTURE_H_
#define SLUICE_PLANNER_PLAN_PICTURE_H_

#include <span>
#include <string>

#include "planner/joint_plan.h"
#include "planner/offset_plan.h"
#include "planner/usage_csv.h"

namespace sluice {

// An SVG document. Requires: `plan` is a plan of the problem's records.
// Cost: some hundred bytes a record.
std::string DrawPlan(const NamedRecords& problem, const CertifiedPlan& plan);

// What buffers and extents are called.
struct JointNames {
  std::span<const std::string> buffers, extents;
};

// The same for a joint plan: activations in cool colours, streamed weights in warm ones, pale from
// the gate to the first step that needs them. What is resident is not in the arena, and said below.
// Requires: `plan` is a plan of the problem.
std::string DrawJointPlan(const JointProblem& problem, const JointNames& names,
                          const JointPlan& plan);

}  // namespace sluice

#endif  // SLUICE_PLANNER_PLAN_PICTURE_H_
