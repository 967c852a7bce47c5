// Any network and any memory give a plan that keeps within it, or none when it is too small.

#include <cstddef>
#include <cstdint>

#include "base/check.h"
#include "planner/any_problem.h"
#include "planner/draw.h"
#include "planner/residency.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace sluice;
  FuzzerBytes draw(data, size);
  const StreamProblem problem = AnyStream(draw, draw.Below(24));
  const Bytes memory = Bytes::Of(draw.Below(4096)) * 1024;
  const auto plan = ChooseResidents(problem.steps, problem.extents, problem.read, memory);
  SLUICE_CHECK(plan.has_value() == (memory >= MinimumStreamMemory(problem.extents)));
  if (!plan) return 0;
  SLUICE_CHECK(plan->resident_bytes + plan->ring <= memory);
  const StreamPlan again =
      SimulateStream(problem.steps, problem.extents, problem.read, plan->resident, plan->ring);
  SLUICE_CHECK(again.predicted == plan->predicted);
  return 0;
}
