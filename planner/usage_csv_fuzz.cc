// Any text is a problem with a plan, or refused with one line of error.

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/check.h"
#include "planner/offset_check.h"
#include "planner/offset_plan.h"
#include "planner/usage_csv.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  absl::StatusOr<sluice::NamedRecords> problem = sluice::ParseUsageCsv(text);
  if (!problem.ok()) return 0;
  // Fixed records may overlap, which only a check of the plan would tell.
  for (sluice::UsageRecord& record : problem->records) record.fixed.reset();
  const sluice::OffsetPlan plan = PlanOffsets(problem->records, {.work = 100'000}).plan;
  if (plan.height == sluice::Bytes::Max()) return 0;
  SLUICE_CHECK(sluice::CheckOffsets(problem->records, plan).ok());
  const std::string written = sluice::FormatUsageCsv(*problem, plan.offsets);
  SLUICE_CHECK(written.find('\n') == written.npos || sluice::ParseUsageCsv(written).ok());
  return 0;
}
