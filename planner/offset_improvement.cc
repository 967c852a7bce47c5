#include "planner/offset_improvement.h"

#include <algorithm>
#include <memory>
#include <numeric>
#include <utility>
#include <vector>

#include "planner/draw.h"
#include "planner/offset_search.h"
#include "planner/search_team.h"
#include "planner/section_map.h"
#include "planner/squeaky_wheel.h"
#include "planner/strip_climb.h"

namespace sluice {
namespace {

using Outcome = OffsetSearch::Outcome;

// Steps of the first runs, at least; each round doubles them.
constexpr std::uint64_t kLeastFirstSteps = 1000;
// In each round the search aims at these parts of the way from the bound up to the best plan, in
// eighths; at the same part again as long as it succeeds.
constexpr std::uint64_t kEighths[] = {0, 4, 2, 1};
// What a search takes in memory is some 8 bytes for each, and in work at least one for each.
constexpr std::size_t kMostIncidences = 4'000'000;
constexpr std::uint64_t kLeastWorkOfIncidence = 8;
// Before that, reordering may take one part of so many of the work.
constexpr std::uint64_t kShareOfWheels = 4;
// After each round of the search, or in it where it takes longer than so much work, a climb gets a
// turn: these parts of the search's work, more when it lowers the plan, less when it does not.
constexpr std::uint64_t kMostBetweenClimbs = 50'000'000;
// What is far from the bound is packed before it is searched, or instead, where it has more
// records.
constexpr std::size_t kClimbedFirst = 600, kMostFarFromBound = 1200;
constexpr std::uint64_t kFirstClimb = 30'000'000;
constexpr std::uint64_t kFirstSixteenths = 8, kMostSixteenths = 64;
// What is too large to be searched is packed anew where its plan is higher than the bound by more
// than this part of it; where it is near, reordering goes on.
constexpr std::uint64_t kNear = 16;
constexpr std::size_t kRounds = 8, kRoundsWithoutSearch = 1000;
constexpr std::size_t kRunsAtTheBound = 10, kRunsAbove = 24;

// The order of records of one run; those that place long lived records first do best.
RecordRule DrawRecordRule(Draw& draw) {
  const auto exponent = [&draw](double from, double to) {
    return from + (to - from) * static_cast<double>(draw.Below(1000)) / 1000;
  };
  return {.lifetime = exponent(0.3, 2),
          .size = exponent(0, 1.6),
          .urgency = draw.Below(3) == 0 ? exponent(0, 2) : 0,
          .noise = 0.3};
}

// At the bound nothing may be lost: the rules that learn where it is lost come in every round, the
// plain ones once.
SearchRules RulesAtTheBound(std::uint64_t seed) {
  constexpr ValleyRule kPlain[] = {ValleyRule::kFewestChoicesLeastSlack,
                                   ValleyRule::kLeastSlack,
                                   ValleyRule::kChoicesTimesSlackPerFailure,
                                   ValleyRule::kFewestChoicesLowest,
                                   ValleyRule::kChoicesPerFailure,
                                   ValleyRule::kChoicesTimesSlack,
                                   ValleyRule::kLowest,
                                   ValleyRule::kFewestChoicesNarrowest};
  if (seed < std::size(kPlain)) {
    return {.valley = kPlain[seed], .record = {.lifetime = 1, .size = 0.001}, .seed = seed};
  }
  Draw draw(seed);
  return {.valley = seed % 2 == 0 ? ValleyRule::kChoicesTimesSlackPerFailure
                                  : ValleyRule::kChoicesPerFailure,
          .record = DrawRecordRule(draw),
          .seed = seed};
}

// Above it there is room for gaps, and going up evenly does best.
SearchRules RulesAbove(std::uint64_t seed) {
  constexpr ValleyRule kRules[] = {
      ValleyRule::kFewestChoicesLowest,         ValleyRule::kChoicesTimesSlack,
      ValleyRule::kFewestChoicesLowest,         ValleyRule::kFewestChoicesLeastSlack,
      ValleyRule::kChoicesTimesSlackPerFailure, ValleyRule::kFewestChoicesLowest};
  Draw draw(seed);
  return {.valley = kRules[seed % std::size(kRules)], .record = DrawRecordRule(draw), .seed = seed};
}

// Records of one component, with the plan of lowest height so far.
class Component {
 public:
  Component(std::span<const UsageRecord> records, const OffsetPlan& plan,
            std::vector<std::size_t> places)
      : places_(std::move(places)) {
    for (const std::size_t i : places_) {
      records_.push_back(records[i]);
      offsets_.push_back(plan.offsets[i]);
    }
    map_ = MapSections(records_);
    std::uint64_t unit = 0;
    for (const UsageRecord& record : records_) {
      unit = std::gcd(unit, record.size.count());
      unit = std::gcd(unit, record.alignment.count());
      if (record.fixed) unit = std::gcd(unit, record.fixed->count());
      any_fixed_ = any_fixed_ || record.fixed.has_value();
    }
    for (const UsageRecord& record : records_) {
      // Offsets that are sums of sizes must come out aligned, or the unit is a byte.
      if (unit % record.alignment.count() != 0) unit = 1;
    }
    unit_ = Bytes::Of(std::max<std::uint64_t>(unit, 1));
    height_ = Height(offsets_);
  }

  Bytes height() const { return height_; }
  Bytes bound() const { return bound_; }
  void CopyTo(std::vector<Bytes>& offsets) const {
    for (std::size_t k = 0; k < places_.size(); ++k) offsets[places_[k]] = offsets_[k];
  }

  // No plan of it is lower, as far as `bound` or what has been refuted say.
  bool done(Bytes bound) const { return height_ <= std::max(bound, bound_); }

  // Searches for a plan between the bound and what there is, one goal; each call the next one.
  // False when that is more than can be searched; adds to `work`.
  bool Improve(Bytes bound, const PlanLimits& limits, std::uint64_t& work) {
    const Bytes target = std::max(bound, bound_);
    const bool far = (height_ - target).count() > target.count() / kNear;
    if (!team_ && !climb_ && !Begin(far, limits, work)) return false;
    if (!team_) {
      Climb(target, kFirstClimb, limits, work);
      return true;
    }
    if (climb_ && climb_->work() == 0 && far && records_.size() > kClimbedFirst) {
      Climb(target, kFirstClimb, limits, work);
      if (height_ <= target) return true;
    }
    SearchOneGoal(target, limits, work);
    if (climb_ && height_ > target && Left(limits, work) > 0) TakeTurn(target, limits, work);
    return true;
  }

 private:
  static std::uint64_t Left(const PlanLimits& limits, std::uint64_t work) {
    return limits.work - std::min(limits.work, work);
  }

  // False when there is nothing that suits it.
  bool Begin(bool far, const PlanLimits& limits, std::uint64_t work) {
    const std::size_t incidences = map_.Incidences();
    const bool small = incidences <= kMostIncidences &&
                       incidences <= Left(limits, work) / kLeastWorkOfIncidence &&
                       (!far || records_.size() <= kMostFarFromBound);
    if (!small && (!far || any_fixed_)) return false;
    if (!any_fixed_) climb_ = std::make_unique<StripClimb>(records_, map_);
    if (!small) return true;
    team_ = std::make_unique<SearchTeam>(records_, map_, limits.threads);
    steps_ = std::max<std::uint64_t>(kLeastFirstSteps, records_.size() * 5 / 4);
    return true;
  }

  void SearchOneGoal(Bytes target, const PlanLimits& limits, std::uint64_t& work) {
    const std::uint64_t eighths = kEighths[goal_];
    for (bool again = true; again && height_ > std::max(target, bound_);) {
      const std::uint64_t before = team_->work();
      const Bytes goal = Goal(std::max(target, bound_), eighths);
      const Outcome outcome =
          Attempt(goal, eighths == 0,
                  {.steps = steps_, .work = before + Left(limits, work), .stop = limits.stop});
      if (outcome == Outcome::kRefuted) bound_ = std::max(bound_, goal + unit_);
      work += team_->work() - before;
      again = outcome == Outcome::kFound && eighths != 0;
      again = again && Left(limits, work) > 0 && !(limits.stop && limits.stop());
    }
    if (++goal_ < std::size(kEighths)) return;
    goal_ = 0;
    // A plan that a climb has lowered is worth another round with as many.
    if (!std::exchange(climbed_, false)) steps_ *= 2;
  }

  // The climb's, when it is due.
  void TakeTurn(Bytes target, const PlanLimits& limits, std::uint64_t& work) {
    if (goal_ != 0 && team_->work() - searched_ <= kMostBetweenClimbs) return;
    const std::uint64_t share = (team_->work() - std::exchange(searched_, team_->work())) / 16;
    const bool lower = Climb(target, share * sixteenths_, limits, work);
    sixteenths_ = lower ? std::min(sixteenths_ * 4, kMostSixteenths)
                        : std::max<std::uint64_t>(sixteenths_ / 4, 1);
    climbed_ = climbed_ || lower;
  }

  // True when it lowers the plan.
  bool Climb(Bytes target, std::uint64_t share, const PlanLimits& limits, std::uint64_t& work) {
    const std::uint64_t before = climb_->work();
    share = std::min(share, Left(limits, work));
    climb_->Run(target, before + std::min(share, ~before), limits.stop);
    work += climb_->work() - before;
    if (climb_->best().height >= height_) return false;
    offsets_ = climb_->best().offsets;
    height_ = climb_->best().height;
    return true;
  }

  // A height between target and what there is, below the latter.
  Bytes Goal(Bytes target, std::uint64_t eighths) const {
    const std::uint64_t gap = (height_ - target).count() * eighths / 8;
    const std::uint64_t unit = unit_.count();
    return std::min(target + Bytes::Of(gap / unit * unit), height_ - unit_);
  }

  Outcome Attempt(Bytes goal, bool at_the_bound, const OffsetSearch::Limits& limits) {
    std::vector<SearchRules> rules;
    for (std::size_t i = 0; i < (at_the_bound ? kRunsAtTheBound : kRunsAbove); ++i) {
      rules.push_back(at_the_bound ? RulesAtTheBound(runs_at_the_bound_ + i)
                                   : RulesAbove(runs_above_ + i));
    }
    const Outcome outcome = team_->Run(goal, rules, limits);
    (at_the_bound ? runs_at_the_bound_ : runs_above_) += team_->runs();
    if (outcome == Outcome::kFound) {
      offsets_ = team_->offsets();
      height_ = Height(offsets_);
    }
    return outcome;
  }

  Bytes Height(const std::vector<Bytes>& offsets) const {
    Bytes height;
    for (std::size_t i = 0; i < records_.size(); ++i) {
      height = std::max(height, offsets[i] + records_[i].size);
    }
    return height;
  }

  std::vector<std::size_t> places_;  // Where its records stand in the whole problem.
  std::vector<UsageRecord> records_;
  SectionMap map_;
  std::vector<Bytes> offsets_;
  Bytes height_, bound_, unit_;
  bool any_fixed_ = false;
  std::uint64_t runs_at_the_bound_ = 0, runs_above_ = 0;
  // From the first Improve on, where they suit; they borrow records and map.
  std::unique_ptr<SearchTeam> team_;
  std::unique_ptr<StripClimb> climb_;
  std::size_t goal_ = 0;        // The next one.
  std::uint64_t steps_ = 0;     // Of each run for it.
  std::uint64_t searched_ = 0;  // The team's work when the climb had its last turn.
  std::uint64_t sixteenths_ = kFirstSixteenths;
  bool climbed_ = false;  // The climb has lowered the plan in this round.
};

// The components of the records that take a place.
std::vector<Component> Split(std::span<const UsageRecord> records, const OffsetPlan& plan) {
  std::vector<std::size_t> sized;
  std::vector<UsageRecord> kept;
  for (std::size_t i = 0; i < records.size(); ++i) {
    if (records[i].size == Bytes()) continue;
    sized.push_back(i);
    kept.push_back(records[i]);
  }
  std::vector<Component> components;
  for (std::vector<std::size_t>& group : Components(MapSections(kept))) {
    for (std::size_t& i : group) i = sized[i];
    components.emplace_back(records, plan, std::move(group));
  }
  return components;
}

}  // namespace

CertifiedPlan ImproveOffsets(std::span<const UsageRecord> records, const OffsetPlan& start,
                             Bytes bound, const PlanLimits& limits) {
  std::uint64_t work = 0;
  PlanLimits share = limits;
  share.work /= kShareOfWheels;
  CertifiedPlan improved{.plan = LowerBySqueakyWheel(records, start, bound, kRounds, share, work),
                         .bound = bound};
  if (improved.plan.height <= bound) return improved;
  std::vector<Component> components = Split(records, improved.plan);
  bool searched = true;
  while (work < limits.work && !(limits.stop && limits.stop())) {
    const auto highest = std::ranges::max_element(components, {}, &Component::height);
    if (highest == components.end() || highest->done(bound)) break;  // The others do not matter.
    searched = highest->Improve(bound, limits, work);
    if (!searched) break;
  }
  improved.plan.height = Bytes();
  for (const Component& component : components) {
    component.CopyTo(improved.plan.offsets);
    improved.bound = std::max(improved.bound, component.bound());
    improved.plan.height = std::max(improved.plan.height, component.height());
  }
  if (!searched) {
    improved.plan = LowerBySqueakyWheel(records, std::move(improved.plan), bound,
                                        kRoundsWithoutSearch, limits, work);
  }
  return improved;
}

}  // namespace sluice
