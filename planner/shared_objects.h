// planner/shared_objects.h
//
// Gives each buffer a whole object of its own size or more, which others use at other times: the
// form of planning for memory that has no offsets, as textures. It never needs less than a plan of
// offsets.
//
// Sources: Y. Pisarchyk, J. Lee, "Efficient Memory Management for Deep Neural Net Inference",
// 2020, arXiv 2001.03288, section 4; J. Lee et al., "On-Device Neural Net Inference with Mobile
// GPUs", 2019, arXiv 1907.01989, for the greedy in execution order and the min-cost flow.
//
// Threads: pure functions, callable from anywhere. Same input, same plan.

#ifndef SLUICE_PLANNER_SHARED_OBJECTS_H_
#define SLUICE_PLANNER_SHARED_OBJECTS_H_

#include <cstddef>
#include <span>
#include <string_view>
#include <vector>

#include "base/bytes.h"
#include "planner/usage_record.h"

namespace sluice {

struct SharedObjectsPlan {
  std::vector<std::size_t> object;  // By record: into sizes.
  std::vector<Bytes> sizes;         // By object.
  Bytes total;                      // Sum of the sizes.
};

enum class SharedObjectsStrategy {
  kGreedyBySize,          // Largest record first, into the smallest object that is free.
  kGreedyBySizeImproved,  // By positional maximum, then by the least time an object lies idle.
  kGreedyByBreadth,       // Records of the step with the largest breadth first; objects may grow.
  kGreedyInOrder,         // By first step, into the free object nearest in size; it may grow.
  kMinCostFlow,           // Which record follows which, so that the growth sums up to the least.
  kEquality,              // Only records of one size share an object.
};

inline constexpr SharedObjectsStrategy kSharedObjectsStrategies[] = {
    SharedObjectsStrategy::kGreedyBySize,    SharedObjectsStrategy::kGreedyBySizeImproved,
    SharedObjectsStrategy::kGreedyByBreadth, SharedObjectsStrategy::kGreedyInOrder,
    SharedObjectsStrategy::kMinCostFlow,     SharedObjectsStrategy::kEquality};

std::string_view Name(SharedObjectsStrategy strategy);

// Requires: live.begin < live.end in every record. Alignments and fixed offsets mean nothing here.
// Cost:     O(n^2) time; kMinCostFlow O(n^3).
SharedObjectsPlan PlanSharedObjects(std::span<const UsageRecord> records,
                                    SharedObjectsStrategy strategy);

// No plan takes less: the sum, over k, of the k-th largest size live at one step, over all steps.
Bytes SharedObjectsLowerBound(std::span<const UsageRecord> records);

}  // namespace sluice

#endif  // SLUICE_PLANNER_SHARED_OBJECTS_H_
