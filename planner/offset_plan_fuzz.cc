// Any records give a plan that the checker accepts, no lower than the bound.

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/check.h"
#include "planner/any_problem.h"
#include "planner/draw.h"
#include "planner/offset_check.h"
#include "planner/offset_plan.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  sluice::FuzzerBytes draw(data, size);
  const std::vector<sluice::UsageRecord> records = sluice::AnyRecords(draw, {});
  const sluice::OffsetPlan plan = sluice::PlanOffsets(records);
  SLUICE_CHECK(sluice::CheckOffsets(records, plan).ok());
  SLUICE_CHECK(plan.height >= sluice::OffsetLowerBound(records));
  return 0;
}
