// planner/joint_placement.h
//
// Places of streamed extents, and the gates that follow from them, where the places of the buffers
// are given. In order of need, each extent goes where its read can end first; since the reader is
// busy with the extents before, many places are equally good, and a rule chooses among them.
//
//   address |          | a2 |
//           |  a0  |........|   e2   |
//           |   e0    |..e1......|
//                                       steps
//
// At an address, what is taken last before the extent is needed decides how early its read may be
// issued.
//
// Threads: pure functions, callable from anywhere. Same input, same places.

#ifndef SLUICE_PLANNER_JOINT_PLACEMENT_H_
#define SLUICE_PLANNER_JOINT_PLACEMENT_H_

#include <optional>
#include <span>
#include <vector>

#include "planner/joint_plan.h"

namespace sluice {

// Where an extent goes among places at which its read ends equally soon.
enum class PlaceRule {
  kLowest,    // The lowest address.
  kHighest,   // The highest.
  kTightest,  // The smallest free run of bytes that holds it.
  kNext,      // After the extent before, as in a ring.
};

inline constexpr PlaceRule kPlaceRules[] = {PlaceRule::kNext, PlaceRule::kLowest,
                                            PlaceRule::kTightest, PlaceRule::kHighest};

// By extent; gates as early as the places allow. Nullopt when an extent has no place beside the
// buffers that are alive with it.
// Requires: `buffer_offsets` is a plan of the buffers within the arena, which is whole pages.
// Cost:     O(extents * places); each about as much as a simulation of the plan.
std::optional<std::vector<PlannedExtent>> PlaceExtents(const JointProblem& problem,
                                                       const JointTimeline& timeline,
                                                       const std::vector<bool>& resident,
                                                       std::span<const Bytes> buffer_offsets,
                                                       Bytes arena, PlaceRule rule);

// Sets the gates of `plan` as early as its places allow; nothing else.
// Requires: the places are right with some gates.
void OpenGates(const JointProblem& problem, const JointTimeline& timeline, JointPlan& plan);

}  // namespace sluice

#endif  // SLUICE_PLANNER_JOINT_PLACEMENT_H_
