// Any records, some of them fixed, give a plan that the checker accepts, no lower than the bound
// and the same with any number of threads.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/check.h"
#include "planner/any_problem.h"
#include "planner/draw.h"
#include "planner/offset_check.h"
#include "planner/offset_plan.h"

namespace {

// Fixes some records, each where it leaves those before it alone.
void FixSome(sluice::FuzzerBytes& draw, std::vector<sluice::UsageRecord>& records) {
  const std::uint64_t one_in = 1 + draw.Below(8);
  std::vector<sluice::UsageRecord> fixed;
  sluice::OffsetPlan plan;
  for (sluice::UsageRecord& record : records) {
    if (record.size == sluice::Bytes() || draw.Below(one_in) != 0) continue;
    record.fixed = record.alignment * draw.Below(40);
    fixed.push_back(record);
    plan.offsets.push_back(*record.fixed);
    const sluice::Bytes before = plan.height;
    plan.height = std::max(plan.height, *record.fixed + record.size);
    if (sluice::CheckOffsets(fixed, plan).ok()) continue;
    record.fixed.reset();
    fixed.pop_back();
    plan.offsets.pop_back();
    plan.height = before;
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  sluice::FuzzerBytes draw(data, size);
  const std::size_t threads = draw.Below(16) == 1 ? 3 : 1;
  const bool some_fixed = draw.Below(2) == 1;
  std::vector<sluice::UsageRecord> records = sluice::AnyRecords(draw, {});
  if (some_fixed) FixSome(draw, records);
  const sluice::CertifiedPlan plan = sluice::PlanOffsets(records, {.work = 100'000});
  SLUICE_CHECK(sluice::CheckOffsets(records, plan.plan).ok());
  SLUICE_CHECK(plan.bound >= sluice::OffsetLowerBound(records));
  SLUICE_CHECK(plan.plan.height >= plan.bound);
  for (const sluice::OffsetStrategy strategy : sluice::kOffsetStrategies) {
    const sluice::OffsetPlan simple = sluice::PlanOffsets(records, strategy);
    SLUICE_CHECK(sluice::CheckOffsets(records, simple).ok());
    SLUICE_CHECK(simple.height >= plan.plan.height);
  }
  if (threads == 1) return 0;
  const sluice::CertifiedPlan team =
      sluice::PlanOffsets(records, {.work = 100'000, .threads = threads});
  SLUICE_CHECK(team.plan.offsets == plan.plan.offsets);
  return 0;
}
