// planner/joint_relaxation.h
//
// The joint arena as if memory were not in one piece: what counts at each step is the sum of bytes.
// Given residents and an arena, the earliest gates are found at once, and no plan with them is
// sooner: a bound for every plan, and cheap enough to choose residents by.
//
// Threads: one thread owns a relaxation.

#ifndef SLUICE_PLANNER_JOINT_RELAXATION_H_
#define SLUICE_PLANNER_JOINT_RELAXATION_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "planner/joint_plan.h"

namespace sluice {

class JointRelaxation {
 public:
  struct Outcome {
    Duration predicted{};
    Duration stall{};
  };

  // Owns: borrows both, which outlive it.
  JointRelaxation(const JointProblem& problem, const JointTimeline& timeline);

  // The latency that no plan with these residents and this arena is below. Nullopt: at some step
  // the buffers and the extent do not fit together.
  // Requires: the arena is whole pages. Cost: O(steps).
  std::optional<Outcome> Run(const std::vector<bool>& resident, Bytes arena);

  // By extent, the first step during which its bytes are taken, as late as that can be without a
  // later end of any step of the last Run, which had these residents.
  std::vector<StepIndex> LatestBegins(const std::vector<bool>& resident) const;

  // Largest sum of buffers and extent at one step: no arena without residents is smaller.
  Bytes LeastArena() const;

 private:
  void Take(std::size_t step, std::uint64_t room);

  const JointProblem& problem_;
  const JointTimeline& timeline_;
  std::vector<std::uint64_t> breadth_;  // By step: bytes of buffers.
  std::uint64_t largest_breadth_ = 0;
  // Steps that may still hold back a gate, with the bytes of extents, counted from the first one,
  // that fit them; both rise, and what is before front_ no longer counts.
  struct Step {
    std::size_t step;
    std::uint64_t room;
  };
  std::vector<Step> steps_;
  std::size_t front_ = 0;
  std::vector<Duration> ends_;  // By step, of the last Run.
};

}  // namespace sluice

#endif  // SLUICE_PLANNER_JOINT_RELAXATION_H_
