// planner/joint_plan.h
//
// One arena for activations and streamed weights together. A streamed extent is a tensor like any
// other, but for one thing: its lifetime begins where the plan says, at its gate. The earlier the
// gate, the less the step that needs it waits, and the longer the bytes are taken.
//
//   step      0    1    2    3    4
//           |   a0    |   a2    | a4 |
//           | e0 |    e1   |    e2   |
//
// e1's gate is step 0: its read may be issued when that has finished, since e0 is dead then. e2's
// gate is step 2.
//
// Reads go out in order of need, on one device. At run time nothing but the gates is enforced, and
// whatever a gate's bytes held is dead by then, however late a read or a step is: times that differ
// from the prediction can stall, and never corrupt.
//
// Threads: pure functions, callable from anywhere. Same input, same answer.

#ifndef SLUICE_PLANNER_JOINT_PLAN_H_
#define SLUICE_PLANNER_JOINT_PLAN_H_

#include <optional>
#include <span>
#include <vector>

#include "base/bytes.h"
#include "base/clock.h"
#include "base/ids.h"
#include "planner/residency.h"
#include "planner/usage_record.h"

namespace sluice {

// Borrowed by all that take one.
// Requires: steps and extents as residency.h says, each extent used by a step; buffers as
//           offset_plan.h says, none fixed, alive in these steps only; sums below 2^62 bytes.
struct JointProblem {
  std::span<const UsageRecord> buffers;  // Activations and scratch.
  std::span<const Bytes> extents;        // Packed weights, whole pages.
  std::span<const StepCost> steps;
  ReadCost read;
};

struct PlannedExtent {
  bool resident = false;
  // Of a streamed extent:
  Bytes offset;                   // In the arena; whole pages.
  std::optional<StepIndex> gate;  // Its read may be issued when this has finished. Empty: at once.
};

struct JointPlan {
  std::vector<Bytes> buffer_offsets;  // In the arena.
  std::vector<PlannedExtent> extents;
  Bytes arena;           // Whole pages.
  Bytes resident_bytes;  // Beside the arena.
  Bytes read_bytes;      // By one inference.
  Duration predicted{};  // Latency of one inference.
  Duration stall{};      // Part of it that steps wait for weights.

  Bytes memory() const { return arena + resident_bytes; }
  std::vector<bool> Residents() const;  // By extent.
};

// What of a problem does not depend on the plan.
struct JointTimeline {
  explicit JointTimeline(const JointProblem& problem);

  std::vector<StepRange> used;     // By extent: from its first step to its last, which hold it.
  std::vector<Duration> transfer;  // By extent: reading it, without the latency.
  Duration latency{};              // Of one read.
  Duration compute{};              // All steps, without a stall.
};

struct JointOutcome {
  struct Read {
    Duration begin{}, end{};  // Of the transfer; both zero for a resident extent.
  };
  Duration predicted{}, stall{};
  std::vector<Duration> step_ends;
  std::vector<Read> reads;  // By extent.
};

// One inference of the plan in simulated time: reads as SimulateStream has them, gates instead of a
// ring. Requires: gates lie before the first step that needs the extent.
JointOutcome SimulateJointPlan(const JointProblem& problem, const JointPlan& plan);

// The split that the joint arena replaces, as a joint plan: activations at the front, the ring of
// `stream` behind them. SimulateJointPlan predicts for it what SimulateStream does.
// Requires: `buffer_offsets` with `height` is a plan of the buffers, `stream` one of the extents.
JointPlan JointPlanOfRing(const JointProblem& problem, std::span<const Bytes> buffer_offsets,
                          Bytes height, const StreamPlan& stream);

// Simulates and sets what follows from offsets, gates and residents: everything but those.
void CompleteJointPlan(const JointProblem& problem, JointPlan& plan);

}  // namespace sluice

#endif  // SLUICE_PLANNER_JOINT_PLAN_H_
