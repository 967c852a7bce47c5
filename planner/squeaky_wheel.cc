#include "planner/squeaky_wheel.h"

#include <algorithm>
#include <cstddef>
#include <optional>
#include <utility>
#include <vector>

#include "planner/offset_order.h"
#include "planner/section_map.h"

namespace sluice {
namespace {

// An order that is further from the bound than this part of it gets few rounds.
constexpr std::uint64_t kNear = 16;
constexpr std::size_t kRoundsFarAway = 3;

// Where all strategies end so far from the bound, turns that take long are not worth it.
constexpr std::size_t kFew = 3000;

bool IsFar(Bytes height, Bytes bound) { return (height - bound).count() > bound.count() / kNear; }

// One greedy order on its way.
class Wheel {
 public:
  Wheel(std::span<const UsageRecord> records, const SectionMap& map, OffsetStrategy strategy,
        Occupancy::Fit fit)
      : records_(records), map_(map), order_(PlacementOrder(records, map, strategy)), fit_(fit) {}

  // Places all in the present order, and notes what goes first the next time. Nothing when the
  // limits are used up; adds to `work`.
  std::optional<OffsetPlan> Turn(Bytes bound, const PlanLimits& limits, std::uint64_t& work) {
    std::optional<OffsetPlan> plan = PlaceInOrder(records_, map_, order_, fit_, limits, work);
    if (!plan) return plan;
    std::stable_partition(order_.begin(), order_.end(), [&](std::size_t i) {
      return plan->offsets[i] + records_[i].size > bound;
    });
    near_ = near_ || !IsFar(plan->height, bound);
    ++turns_;
    return plan;
  }

  bool promising() const { return near_ || turns_ < kRoundsFarAway; }

 private:
  std::span<const UsageRecord> records_;
  const SectionMap& map_;
  std::vector<std::size_t> order_;
  const Occupancy::Fit fit_;
  bool near_ = false;
  std::size_t turns_ = 0;
};

}  // namespace

OffsetPlan LowerBySqueakyWheel(std::span<const UsageRecord> records, OffsetPlan start, Bytes bound,
                               std::size_t rounds, const PlanLimits& limits, std::uint64_t& work) {
  if (records.size() > kFew && IsFar(start.height, bound)) return start;
  const SectionMap map = MapSections(records);
  std::vector<Wheel> wheels;
  OffsetPlan best = std::move(start);
  const auto going = [&] {
    return best.height > bound && work < limits.work && !(limits.stop && limits.stop());
  };
  const auto turn = [&](Wheel& wheel) {
    std::optional<OffsetPlan> plan = wheel.Turn(bound, limits, work);
    if (plan && plan->height < best.height) best = *std::move(plan);
  };
  for (const OffsetStrategy strategy : kOffsetStrategies) {
    if (strategy == OffsetStrategy::kStripPacking) continue;
    for (const Occupancy::Fit fit : {Occupancy::Fit::kBest, Occupancy::Fit::kFirst}) {
      if (!going()) return best;
      wheels.emplace_back(records, map, strategy, fit);
      turn(wheels.back());
    }
  }
  for (std::size_t round = 1; round < rounds; ++round) {
    for (Wheel& wheel : wheels) {
      if (!going()) return best;
      if (wheel.promising()) turn(wheel);
    }
  }
  return best;
}

}  // namespace sluice
