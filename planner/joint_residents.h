// planner/joint_residents.h
//
// Which extents stay in memory, beside an arena of what they leave: one after the other, the one
// with the largest benefit, which is what a simulation says of the smaller arena with the extent
// gone from the stream.
//
// Threads: pure functions, callable from anywhere. Same input, same answer.

#ifndef SLUICE_PLANNER_JOINT_RESIDENTS_H_
#define SLUICE_PLANNER_JOINT_RESIDENTS_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "planner/joint_plan.h"
#include "planner/joint_relaxation.h"

namespace sluice {

// Neither is always better: small extents fill memory well, and a large one in the stream needs a
// large arena, which many small residents leave no room to get rid of.
enum class Benefit { kPerByte, kWhole };

// Residents in the order in which they were chosen: every beginning of it is a choice too, with
// fewer residents and a larger arena.
struct ResidentTrail {
  std::vector<ExtentIndex> order;
  std::vector<Duration> predicted;  // [i]: relaxed, with the first i of them. Never empty.
  std::vector<Bytes> bytes;         // [i]: of the first i of them.

  // The first `count` of them, by extent.
  std::vector<bool> Residents(std::size_t extents, std::size_t count) const;
};

// Goes on while residents save time, and then while the latency stays within 1 % of the least on
// the way: every resident saves reading.
// `work` bounds the steps that simulations look at; four simulations for each extent always run.
// Requires: memory >= relaxation.LeastArena(), whole pages.
ResidentTrail ChooseJointResidents(const JointProblem& problem, const JointTimeline& timeline,
                                   JointRelaxation& relaxation, Bytes memory, Benefit benefit,
                                   std::uint64_t work);

}  // namespace sluice

#endif  // SLUICE_PLANNER_JOINT_RESIDENTS_H_
