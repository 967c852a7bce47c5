// planner/joint_arena.h
//
// Chooses residents, gates and offsets of the joint arena (planner/joint_plan.h) together, so that
// one inference within a given memory ends as soon as it can.
//
//   memory | arena: activations, and extents between their gates and their last steps | residents |
//
// Residents are chosen by the relaxation, which also says how soon a plan can be at best; gates and
// offsets then by two ways: lifetimes as short as that schedule allows, packed with the buffers,
// and places one after the other among the buffers, each where its read can end first. Gates are
// opened as early as the places allow in the end. The ring (planner/residency.h) is a candidate, so
// a plan is never later than the split of the same whole pages.
//
// Threads: one thread owns a planner. Same input, same plans.

#ifndef SLUICE_PLANNER_JOINT_ARENA_H_
#define SLUICE_PLANNER_JOINT_ARENA_H_

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "planner/joint_plan.h"
#include "planner/joint_relaxation.h"
#include "planner/joint_residents.h"
#include "planner/offset_plan.h"

namespace sluice {

// How long planning may take. Work is counted in records and steps looked at, so that the same
// limits give the same plans on every machine.
struct JointLimits {
  std::uint64_t residents = 10'000'000;    // Choosing them, for one plan.
  PlanLimits least = {.work = 1'000'000};  // The buffers alone, and the least memory; once each.
};

class JointPlanner {
 public:
  // Finds the least memory. Owns: what the problem borrows outlives this.
  explicit JointPlanner(const JointProblem& problem, const JointLimits& limits = {});

  // The smallest arena that runs, nothing resident; whole pages.
  Bytes least_memory() const { return least_memory_; }

  // No arena is smaller: buffers and the extent in use at one step, over all steps. Whole pages.
  Bytes least_bound() const { return least_bound_; }

  // With so much everything is resident.
  Bytes most_memory() const { return most_memory_; }

  // The plan of least latency; among those within 1 % of it (and no later than the ring and
  // `at_most`), the one that reads least.
  // Fails: nullopt when memory < least_memory(). `at_most` may be missed where nothing keeps it.
  std::optional<JointPlan> PlanWithin(Bytes memory, Duration at_most = Duration::max());

 private:
  struct Search;

  Bytes ResidentBytes(const std::vector<bool>& resident) const;
  JointPlan AllResident() const;
  JointPlan Ring(Bytes memory) const;
  std::optional<JointPlan> Realise(const std::vector<bool>& resident, Bytes arena);
  bool PlaceAround(std::span<const Bytes> buffer_offsets, Search& search) const;
  bool PackLifetimes(Bytes capacity, Search& search);
  void FollowTrails(std::span<const ResidentTrail> trails, Bytes memory, Duration soon,
                    std::vector<JointPlan>& plans);

  const JointProblem problem_;
  const std::uint64_t residents_work_;
  const JointTimeline timeline_;
  JointRelaxation relaxation_;
  OffsetPlan buffers_;        // Of the buffers alone.
  std::vector<Bytes> least_;  // Offsets of the buffers in the smallest arena.
  Bytes least_memory_, least_bound_, most_memory_;
};

}  // namespace sluice

#endif  // SLUICE_PLANNER_JOINT_ARENA_H_
