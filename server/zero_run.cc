#include "server/zero_run.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "base/check.h"
#include "base/status_macros.h"
#include "streamer/page_memory.h"

namespace sluice {

absl::StatusOr<std::vector<Duration>> RunOnZeros(Program& program, const OffsetPlan& plan,
                                                 int rounds) {
  SLUICE_CHECK(rounds >= 1);
  Bytes largest;
  for (const ExtentInfo& extent : program.extents()) largest = std::max(largest, extent.size);
  SLUICE_ASSIGN_OR_RETURN(const PageMemory arena, PageMemory::Map(plan.height + kPageSize));
  SLUICE_ASSIGN_OR_RETURN(const PageMemory weights, PageMemory::Map(largest + kPageSize));
  std::vector<std::vector<Duration>> took(program.steps().size());
  for (int round = 0; round < rounds; ++round) {
    for (std::size_t i = 0; i < took.size(); ++i) {
      const bool has_weights = program.steps()[i].extent.has_value();
      const Instant begin = SteadyClock().Now();
      SLUICE_RETURN_IF_ERROR(
          program.Run(At<StepIndex>(i), {.arena = arena.span().data(),
                                         .offsets = plan.offsets,
                                         .extent = has_weights ? weights.span().data() : nullptr}));
      took[i].push_back(SteadyClock().Now() - begin);
    }
  }
  std::vector<Duration> medians;
  for (std::vector<Duration>& times : took) {
    const auto middle = times.begin() + std::ssize(times) / 2;
    std::ranges::nth_element(times, middle);
    medians.push_back(*middle);
  }
  return medians;
}

}  // namespace sluice
