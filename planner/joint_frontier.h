// planner/joint_frontier.h
//
// What memory buys: plans of one network from the least memory that runs it to everything resident.
//
//   latency | x
//           |  x            each plan is sooner than all with less memory, or as soon as they are
//           |     x         and reads less
//           |          x      x      x
//           +--------------------------- memory
//
// Threads: as the planner it is given.

#ifndef SLUICE_PLANNER_JOINT_FRONTIER_H_
#define SLUICE_PLANNER_JOINT_FRONTIER_H_

#include <cstddef>
#include <optional>
#include <vector>

#include "planner/joint_arena.h"

namespace sluice {

struct FrontierOptions {
  std::size_t points = 16;  // As many where the network has so many; above 1.
};

// Rising memory, falling latency, falling bytes to read where the latency is the same. Points lie
// where memory or latency change most. Cost: about 1.5 plans for each point.
std::vector<JointPlan> JointFrontier(JointPlanner& planner, const FrontierOptions& options = {});

// The plan of least memory that takes at most `latency`, within 0.5 % of the memory. Everything
// resident where nothing less does. Cost: about ten plans.
JointPlan SmallestWithin(JointPlanner& planner, Duration latency);

// What the split of activations and a ring takes for the same: both and the residents. Nullopt:
// everything is resident. Requires: `height` is that of a plan of the buffers.
std::optional<Bytes> SmallestSplitWithin(const JointProblem& problem, Bytes height,
                                         Duration latency);

}  // namespace sluice

#endif  // SLUICE_PLANNER_JOINT_FRONTIER_H_
