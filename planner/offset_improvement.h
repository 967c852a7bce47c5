// planner/offset_improvement.h
//
// Lowers a plan by complete search: first towards the lower bound, then bisecting between it and
// the best plan so far, with many short runs of different rules and ever more steps for each.
//
// Threads: pure functions, callable from anywhere. Same input and limits in work, same answer.

#ifndef SLUICE_PLANNER_OFFSET_IMPROVEMENT_H_
#define SLUICE_PLANNER_OFFSET_IMPROVEMENT_H_

#include <cstdint>
#include <functional>
#include <span>

#include "base/bytes.h"
#include "planner/offset_plan.h"
#include "planner/usage_record.h"

namespace sluice {

// Never worse than `start`; the certificate is left open. Stops when the plan meets the bound.
// Records that meet in too many sections to be searched keep their places.
// Requires: `start` is a plan of the records, no plan is lower than `bound`, and sizes and
//           alignments sum up to less than 2^62.
CertifiedPlan ImproveOffsets(std::span<const UsageRecord> records, const OffsetPlan& start,
                             Bytes bound, const PlanLimits& limits);

}  // namespace sluice

#endif  // SLUICE_PLANNER_OFFSET_IMPROVEMENT_H_
