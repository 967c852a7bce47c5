// server/memory_split.h
//
// Divides the memory that models share: one arena for all, since one inference runs at a time, and
// resident weights for each.
//
//   arena        | activations of the model that runs |  ring: what the arena leaves beside them  |
//   residents    | of model a |    of model b    | of c |
//
// Threads: pure functions, callable from anywhere. Same input, same answer.

#ifndef SLUICE_SERVER_MEMORY_SPLIT_H_
#define SLUICE_SERVER_MEMORY_SPLIT_H_

#include <optional>
#include <span>
#include <vector>

#include "base/bytes.h"
#include "planner/residency.h"

namespace sluice {

// One model; borrowed for the call.
struct ModelDemand {
  std::span<const StepCost> steps;
  std::span<const Bytes> extents;      // Whole pages.
  std::span<const Bytes> reads = {};   // What reading each takes from the disk: residency.h.
  Bytes activations;                   // Height of their plan.
  double weight = 1;                   // How much its latency counts. Above zero.
  bool all_resident = false;           // Nothing of it may stream.
  Bytes most_resident = Bytes::Max();  // Its weights take no more; ignored with all_resident.
};

struct MemorySplit {
  Bytes arena;
  std::vector<StreamPlan> plans;  // By model; `ring` is what the arena leaves it.
};

// The least that runs all of them: the arena, and the weights of those that may not stream.
Bytes LeastMemory(std::span<const ModelDemand> models);

// The least that lets all weights stay that may: more makes nothing faster.
Bytes UsefulMemory(std::span<const ModelDemand> models);

// Fails: nullopt when `memory` is below LeastMemory(models).
std::optional<MemorySplit> SplitMemory(std::span<const ModelDemand> models, const ReadCost& read,
                                       Bytes memory);

}  // namespace sluice

#endif  // SLUICE_SERVER_MEMORY_SPLIT_H_
