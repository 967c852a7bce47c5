// planner/squeaky_wheel.h
//
// Lowers a plan by placing all records greedily again and again: those that stuck out above the
// bound go first the next time. What is left of a gap when only few records are in the wrong order,
// as in graphs of tens of thousands of tensors, goes within some rounds; where the whole plan is
// wrong, search does better (planner/offset_search.h).
//
// Source: D. Joslin, D. Clements, "Squeaky wheel optimization", 1999.
//
// Threads: pure functions, callable from anywhere. Same input and limits in work, same answer.

#ifndef SLUICE_PLANNER_SQUEAKY_WHEEL_H_
#define SLUICE_PLANNER_SQUEAKY_WHEEL_H_

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/bytes.h"
#include "planner/offset_plan.h"
#include "planner/usage_record.h"

namespace sluice {

// The lowest plan among `start` and those made from every greedy order, with the smallest and with
// the lowest gap, each placed up to `rounds` times. Stops when it meets the bound or the limits are
// used up; adds to `work`.
// Requires: as ImproveOffsets.
OffsetPlan LowerBySqueakyWheel(std::span<const UsageRecord> records, OffsetPlan start, Bytes bound,
                               std::size_t rounds, const PlanLimits& limits, std::uint64_t& work);

}  // namespace sluice

#endif  // SLUICE_PLANNER_SQUEAKY_WHEEL_H_
