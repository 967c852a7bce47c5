// planner/strip_climb.h
//
// Lowers a plan by packing a strip (planner/strip_packing.h) thousands of times: first by rules for
// the preference that are drawn at random, then by small changes of the best preference, kept when
// the strip does not become higher, or when nothing has lowered it for long. For problems that are
// too large, or too full, for a complete search to get far.
//
// Threads: one thread owns a climb. Same input and work, same plan.

#ifndef SLUICE_PLANNER_STRIP_CLIMB_H_
#define SLUICE_PLANNER_STRIP_CLIMB_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "base/bytes.h"
#include "planner/draw.h"
#include "planner/offset_plan.h"
#include "planner/section_map.h"
#include "planner/strip_packing.h"
#include "planner/usage_record.h"

namespace sluice {

class StripClimb {
 public:
  // Owns: borrows both; they outlive this. Requires: as StripPacking.
  StripClimb(std::span<const UsageRecord> records, const SectionMap& map);

  // Goes on from where it stands, until its work passes `until`, the plan is not above `target`, or
  // `stop`, which may be empty, says so. At least one packing.
  void Run(Bytes target, std::uint64_t until, const std::function<bool()>& stop);

  const OffsetPlan& best() const { return best_; }  // Requires: a run.
  // As StripPacking has it; in all runs.
  std::uint64_t work() const { return packing_.work() + sorted_; }

 private:
  void DrawKeys();
  void ChangeKeys();
  OffsetPlan Pack();
  double Uniform() { return static_cast<double>(draw_.Below(1 << 20)) / (1 << 20); }

  std::span<const UsageRecord> records_;
  StripPacking packing_;
  Draw draw_;
  std::vector<std::size_t> sized_;                 // Records that take a place.
  std::vector<double> lifetime_, size_, urgency_;  // By place in sized_: logarithms.
  std::vector<double> keys_, kept_keys_;           // The largest is preferred.
  std::vector<std::size_t> order_, preference_;    // Of one packing.
  OffsetPlan kept_, best_;
  std::size_t packings_ = 0, in_vain_ = 0;  // In all; changes since the kept one was last lowered.
  std::uint64_t sorted_ = 0;
};

}  // namespace sluice

#endif  // SLUICE_PLANNER_STRIP_CLIMB_H_
