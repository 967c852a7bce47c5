// planner/offset_plan.h
//
// Gives each buffer a fixed place in one arena, so that inference allocates nothing.
//
//   step     0   1   2   3
//   bytes  | a | a | c | c |    a and c share bytes: their live ranges do not meet.
//          |   | b | b | b |    b meets both, so it lies beside them.
//
// Sources: Y. Pisarchyk, J. Lee, "Efficient Memory Management for Deep Neural Net Inference",
// 2020, arXiv 2001.03288, section 5 (offset calculation).
//
// Threads: pure functions, callable from anywhere. Same input, same plan, byte for byte.

#ifndef SLUICE_PLANNER_OFFSET_PLAN_H_
#define SLUICE_PLANNER_OFFSET_PLAN_H_

#include <cstddef>
#include <span>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "base/bytes.h"
#include "base/ids.h"

namespace sluice {

// A tensor usage record: what a plan has to place.
struct UsageRecord {
  Bytes size;                          // Zero is allowed.
  StepRange live;                      // Steps during which the contents must survive.
  Bytes alignment = kBufferAlignment;  // Of the offset; a power of two.
};

struct OffsetPlan {
  std::vector<Bytes> offsets;  // offsets[i] places records[i], counted from the arena's start.
  Bytes height;                // Smallest arena that holds the plan.
};

enum class OffsetStrategy {
  kGreedyBySize,      // Largest record first, each into the smallest gap that fits.
  kGreedyByBreadth,   // Records of the step with the largest breadth first.
  kGreedyByArea,      // Largest product of size and lifetime first.
  kGreedyByLifetime,  // Longest lived first.
};

std::string_view Name(OffsetStrategy strategy);

// Requires: live.begin < live.end and a power-of-two alignment, in every record.
// Sizes whose sum nears 2^64 have no plan: its height is Bytes::Max(), which no memory holds.
// Cost:     O(n^2) time and O(n) memory for n records; runs at load time only.
OffsetPlan PlanOffsets(std::span<const UsageRecord> records, OffsetStrategy strategy);

// The plan of least height among all strategies; the first of equals. When none meets the lower
// bound, a search over placement orders goes on from the best; its length depends on n alone.
// Stops at the lower bound.
// Cost:     below 0.1 s for a few thousand records on one core of a small machine.
OffsetPlan PlanOffsets(std::span<const UsageRecord> records);

// The step that all strategies share: places records one after the other, each into the smallest
// gap that fits between those already placed and alive together with it, above them if none does.
// Requires: `order` is a permutation of the records' positions.
OffsetPlan PlaceInOrder(std::span<const UsageRecord> records, std::span<const std::size_t> order);

// The largest breadth: bytes live at one step, over all steps. No plan is lower.
Bytes OffsetLowerBound(std::span<const UsageRecord> records);

}  // namespace sluice

#endif  // SLUICE_PLANNER_OFFSET_PLAN_H_
