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
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "base/bytes.h"
#include "planner/usage_record.h"

namespace sluice {

struct OffsetPlan {
  std::vector<Bytes> offsets;  // offsets[i] places records[i], counted from the arena's start.
  Bytes height;                // Smallest arena that holds the plan.
};

// How long planning may take. Work is counted in records looked at, so that the same limit gives
// the same plan on every machine; a small machine looks at some hundred million a second.
struct PlanLimits {
  std::uint64_t work = 5'000'000;
  // True: enough. Asked now and then, from all threads; plans then depend on time.
  std::function<bool()> stop = {};
  std::size_t threads = 1;  // Of a search, 4 at most; the plan does not depend on their number.
};

enum class OffsetStrategy {
  kGreedyBySize,      // Largest record first, each into the smallest gap that fits.
  kGreedyByBreadth,   // Records of the step with the largest breadth first.
  kGreedyByArea,      // Largest product of size and lifetime first.
  kGreedyByLifetime,  // Longest lived first.
  kGreedyByUrgency,   // Largest breadth within the lifetime first, the longest lived of equals.
  kGreedyInOrder,     // As execution would allocate them.
  kStripPacking,      // Along the lowest line of the skyline (planner/strip_packing.h).
};

// Those that a plan is chosen from, in the order in which they are tried.
inline constexpr OffsetStrategy kOffsetStrategies[] = {
    OffsetStrategy::kGreedyBySize,     OffsetStrategy::kStripPacking,
    OffsetStrategy::kGreedyByBreadth,  OffsetStrategy::kGreedyByArea,
    OffsetStrategy::kGreedyByLifetime, OffsetStrategy::kGreedyByUrgency,
    OffsetStrategy::kGreedyInOrder};

std::string_view Name(OffsetStrategy strategy);

// Sizes, alignments and fixed offsets sum up to more than 2^62 bytes, which no memory holds.
bool PassesAllMemory(std::span<const UsageRecord> records);

// Requires: live.begin < live.end, a power-of-two alignment, fixed offsets that are aligned and do
//           not overlap, in every record.
// Where PassesAllMemory, there is no plan: its height is Bytes::Max().
// Cost:     some seconds for a million records, far more where many of them are live together;
//           O(n log n) memory for n; runs at load time only.
OffsetPlan PlanOffsets(std::span<const UsageRecord> records, OffsetStrategy strategy);

// The same, or nothing where `limits.stop` comes before the end. Strip packing is not stopped.
std::optional<OffsetPlan> TryPlanOffsets(std::span<const UsageRecord> records,
                                         OffsetStrategy strategy, const PlanLimits& limits);

// What is known about a plan's height.
enum class Certificate {
  kMeetsBound,     // It is the lower bound, so no plan is lower.
  kProvenOptimal,  // It is above the lower bound, and a complete search found nothing lower.
  kBestFound,      // A lower one may exist.
};

struct CertifiedPlan {
  OffsetPlan plan;
  Bytes bound;  // No plan is lower: OffsetLowerBound, or more when the search has proven it.
  Certificate certificate = Certificate::kBestFound;
};

// Lowers a plan by search (planner/offset_improvement.h) until it meets the bound or the limits are
// used up, and says what is known about its height.
// Requires: as above; `start` is a plan of the records.
CertifiedPlan CertifyOffsets(std::span<const UsageRecord> records, OffsetPlan start,
                             const PlanLimits& limits);

// The same from the plan of least height among all strategies. Strategies that `stop` comes before
// are left out, but one.
CertifiedPlan PlanOffsets(std::span<const UsageRecord> records, const PlanLimits& limits);

// The same within limits that suit loading a model: below 0.1 s for a few thousand records on one
// core of a small machine.
OffsetPlan PlanOffsets(std::span<const UsageRecord> records);

// The step that all strategies share: places records one after the other, each into the smallest
// gap that fits between those already placed and alive together with it, above them if none does.
// Fixed records come first, whatever the order says.
// Requires: `order` is a permutation of the records' positions.
OffsetPlan PlaceInOrder(std::span<const UsageRecord> records, std::span<const std::size_t> order);

// No plan is lower: the bytes live at one step, over all steps, with what the least alignment adds
// to all but the topmost.
Bytes OffsetLowerBound(std::span<const UsageRecord> records);

}  // namespace sluice

#endif  // SLUICE_PLANNER_OFFSET_PLAN_H_
