// planner/offset_order.h
//
// What the greedy strategies are made of: an order of the records, and a place for one after the
// other.
//
// Threads: pure functions, callable from anywhere.

#ifndef SLUICE_PLANNER_OFFSET_ORDER_H_
#define SLUICE_PLANNER_OFFSET_ORDER_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "planner/occupancy.h"
#include "planner/offset_plan.h"
#include "planner/section_map.h"
#include "planner/usage_record.h"

namespace sluice {

// By record: the section with the largest breadth of its lifetime, the first of equals.
// Cost: O(n log n).
std::vector<std::uint32_t> WidestSections(std::span<const Bytes> breadths,
                                          std::span<const SectionRange> spans);

// A permutation of the records' positions; equals go by size, the largest first, and then keep the
// order in which they came. `map` is of these records.
std::vector<std::size_t> PlacementOrder(std::span<const UsageRecord> records, const SectionMap& map,
                                        OffsetStrategy strategy);

// As PlaceInOrder of planner/offset_plan.h, with a choice of the gap. Nothing when the limits are
// used up before the end; adds to `work`.
// Requires: as there; `map` is of these records, and sizes and alignments sum up to less than 2^62.
std::optional<OffsetPlan> PlaceInOrder(std::span<const UsageRecord> records, const SectionMap& map,
                                       std::span<const std::size_t> order, Occupancy::Fit fit,
                                       const PlanLimits& limits, std::uint64_t& work);

}  // namespace sluice

#endif  // SLUICE_PLANNER_OFFSET_ORDER_H_
