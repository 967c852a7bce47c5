// server/zero_run.h
//
// Running a program without its weights: zeros for them and for the inputs. What kernels allocate
// when they first run, and how long they take, depends on shapes and not on values.

#ifndef SLUICE_SERVER_ZERO_RUN_H_
#define SLUICE_SERVER_ZERO_RUN_H_

#include <vector>

#include "absl/status/statusor.h"
#include "base/clock.h"
#include "engine/program.h"
#include "planner/offset_plan.h"

namespace sluice {

// Runs all steps `rounds` times; the median time of each. Takes the plan's arena and the largest
// extent for the while. On the compute team. Requires: `plan` is of the program's buffers;
// rounds >= 1.
// Fails: as Program::Run; RESOURCE_EXHAUSTED.
absl::StatusOr<std::vector<Duration>> RunOnZeros(Program& program, const OffsetPlan& plan,
                                                 int rounds);

}  // namespace sluice

#endif  // SLUICE_SERVER_ZERO_RUN_H_
