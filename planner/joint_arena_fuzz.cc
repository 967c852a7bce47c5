// Any network and any memory give a joint plan that is right and keeps within it, or none when it
// is too small.

#include <cstddef>
#include <cstdint>

#include "base/check.h"
#include "planner/any_problem.h"
#include "planner/draw.h"
#include "planner/joint_arena.h"
#include "planner/joint_check.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace sluice;
  FuzzerBytes draw(data, size);
  const AnyJoint joint = AnyJointNetwork(draw, draw.Below(20));
  const JointProblem problem = joint.Problem();
  JointPlanner planner(problem, {.residents = 200'000, .least = PlanLimits{.work = 20'000}});
  SLUICE_CHECK(planner.least_bound() <= planner.least_memory());
  const Bytes memory = Bytes::Of(draw.Below(4096)) * 1024;
  const auto plan = planner.PlanWithin(memory);
  SLUICE_CHECK(plan.has_value() == (memory >= planner.least_memory()));
  if (!plan) return 0;
  SLUICE_CHECK(plan->memory() <= memory);
  const absl::Status right = CheckJointPlan(problem, *plan);
  SLUICE_CHECK(right.ok());
  SLUICE_CHECK(plan->predicted == SimulateJointPlan(problem, *plan).predicted);
  return 0;
}
