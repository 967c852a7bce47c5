// planner/offset_check.h
//
// What a plan of offsets promises, restated: shares no code with the planner, so
// that a mistake there cannot hide here.
//
// Threads: pure functions, callable from anywhere.

#ifndef SLUICE_PLANNER_OFFSET_CHECK_H_
#define SLUICE_PLANNER_OFFSET_CHECK_H_

#include <span>

#include "absl/status/status.h"
#include "planner/offset_plan.h"

namespace sluice {

// OK when every record has an offset that is a multiple of its alignment and the fixed one if there
// is one, no two records alive at one step share a byte, and the height is the highest end.
// Fails: INTERNAL, naming a record or pair that breaks it, with its numbers.
// Cost:  O(n log n) time.
absl::Status CheckOffsets(std::span<const UsageRecord> records, const OffsetPlan& plan);

}  // namespace sluice

#endif  // SLUICE_PLANNER_OFFSET_CHECK_H_
