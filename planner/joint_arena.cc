#include "planner/joint_arena.h"

#include <algorithm>
#include <cstddef>
#include <span>
#include <utility>

#include "base/check.h"
#include "planner/joint_placement.h"
#include "planner/joint_residents.h"
#include "planner/residency.h"

namespace sluice {
namespace {

Bytes Pages(Bytes memory) {
  return Bytes::Of(memory.count() / kPageSize.count() * kPageSize.count());
}

Bytes Total(std::span<const Bytes> sizes) {
  Bytes total;
  for (const Bytes size : sizes) total += size;
  return total;
}

// Latencies that differ by less are as good as equal: no prediction is as exact.
Duration Tolerated(Duration least) { return least + least / 100; }

// Fewer bytes to read where both are soon enough, else sooner; then less memory.
bool Better(const JointPlan& a, const JointPlan& b, Duration soon) {
  const bool a_soon = a.predicted <= soon, b_soon = b.predicted <= soon;
  if (a_soon != b_soon) return a_soon;
  if (a_soon && a.read_bytes != b.read_bytes) return a.read_bytes < b.read_bytes;
  if (a.predicted != b.predicted) return a.predicted < b.predicted;
  return a.memory() < b.memory();
}

// The buffers, and the streamed extents with the lifetimes that begin at `begins`.
std::vector<UsageRecord> RecordsOf(const JointProblem& problem, const JointTimeline& timeline,
                                   const std::vector<bool>& resident,
                                   std::span<const StepIndex> begins) {
  std::vector<UsageRecord> records(problem.buffers.begin(), problem.buffers.end());
  for (std::size_t k = 0; k < problem.extents.size(); ++k) {
    if (resident[k]) continue;
    records.push_back({.size = problem.extents[k],
                       .live = {.begin = begins[k], .end = timeline.used[k].end},
                       .alignment = kPageSize});
  }
  return records;
}

// By the few strategies that suit lifetimes of extents, until one fits the arena: the others, and a
// search, take most of the time and help least.
OffsetPlan Pack(std::span<const UsageRecord> records, Bytes arena) {
  std::optional<OffsetPlan> best;
  for (const OffsetStrategy strategy :
       {OffsetStrategy::kGreedyByArea, OffsetStrategy::kGreedyBySize,
        OffsetStrategy::kStripPacking}) {
    OffsetPlan plan = PlanOffsets(records, strategy);
    if (!best || plan.height < best->height) best = std::move(plan);
    if (best->height <= arena) break;
  }
  return *std::move(best);
}

}  // namespace

// The best plan so far for given residents and arena.
struct JointPlanner::Search {
  const std::vector<bool>& resident;
  Bytes arena;
  Duration target{};  // Good enough.
  std::optional<JointPlan> best = {};

  // True when it is good enough.
  bool Offer(JointPlan plan) {
    SLUICE_CHECK(plan.arena <= arena);
    if (!best || Better(plan, *best, Duration::min())) best = std::move(plan);
    return best->predicted <= target;
  }
};

JointPlanner::JointPlanner(const JointProblem& problem, const JointLimits& limits)
    : problem_(problem),
      residents_work_(limits.residents),
      timeline_(problem),
      relaxation_(problem_, timeline_),
      buffers_(PlanOffsets(problem.buffers, limits.least).plan) {
  std::vector<StepIndex> begins;
  for (const StepRange& used : timeline_.used) begins.push_back(used.begin);
  const std::vector<bool> none(problem.extents.size());
  OffsetPlan least = PlanOffsets(RecordsOf(problem, timeline_, none, begins), limits.least).plan;
  least_bound_ = AlignUp(relaxation_.LeastArena(), kPageSize);
  least_memory_ = AlignUp(least.height, kPageSize);
  const Bytes alone = AlignUp(buffers_.height, kPageSize);
  const Bytes split = alone + MinimumStreamMemory(problem.extents);
  least.offsets.resize(problem.buffers.size());
  least_ = std::move(least.offsets);
  if (split < least_memory_) {
    least_memory_ = split;
    least_ = buffers_.offsets;
  }
  most_memory_ = alone + Total(problem.extents);
}

Bytes JointPlanner::ResidentBytes(const std::vector<bool>& resident) const {
  Bytes bytes;
  for (std::size_t k = 0; k < resident.size(); ++k) {
    if (resident[k]) bytes += problem_.extents[k];
  }
  return bytes;
}

JointPlan JointPlanner::AllResident() const {
  JointPlan plan;
  plan.buffer_offsets = buffers_.offsets;
  plan.extents.assign(problem_.extents.size(), {.resident = true, .offset = {}, .gate = {}});
  CompleteJointPlan(problem_, plan);
  return plan;
}

JointPlan JointPlanner::Ring(Bytes memory) const {
  const auto stream = ChooseResidents(problem_.steps, problem_.extents, problem_.read,
                                      memory - AlignUp(buffers_.height, kPageSize));
  return JointPlanOfRing(problem_, buffers_.offsets, buffers_.height, *stream);
}

// Extents around buffers that have their places. True when the plan is good enough.
bool JointPlanner::PlaceAround(std::span<const Bytes> buffer_offsets, Search& search) const {
  for (std::size_t i = 0; i < buffer_offsets.size(); ++i) {
    if (buffer_offsets[i] + problem_.buffers[i].size > search.arena) return false;
  }
  for (const PlaceRule rule : kPlaceRules) {
    auto extents =
        PlaceExtents(problem_, timeline_, search.resident, buffer_offsets, search.arena, rule);
    if (!extents) return false;
    JointPlan plan;
    plan.buffer_offsets.assign(buffer_offsets.begin(), buffer_offsets.end());
    plan.extents = *std::move(extents);
    CompleteJointPlan(problem_, plan);
    if (search.Offer(std::move(plan))) return true;
  }
  return false;
}

// Lifetimes as short as the relaxed schedule within `capacity` allows, packed with the buffers.
// True when there is no use in a smaller capacity.
bool JointPlanner::PackLifetimes(Bytes capacity, Search& search) {
  const auto relaxed = relaxation_.Run(search.resident, capacity);
  if (!relaxed || (search.best && search.best->predicted <= relaxed->predicted)) return true;
  const std::vector<UsageRecord> records =
      RecordsOf(problem_, timeline_, search.resident, relaxation_.LatestBegins(search.resident));
  const OffsetPlan packed = Pack(records, search.arena);
  const std::span<const Bytes> offsets(packed.offsets);
  const std::span<const Bytes> buffer_offsets = offsets.first(problem_.buffers.size());
  if (packed.height > search.arena) return PlaceAround(buffer_offsets, search);
  JointPlan plan;
  plan.buffer_offsets.assign(buffer_offsets.begin(), buffer_offsets.end());
  std::size_t next = problem_.buffers.size();
  for (std::size_t k = 0; k < problem_.extents.size(); ++k) {
    PlannedExtent extent{.resident = search.resident[k], .offset = {}, .gate = {}};
    if (!extent.resident) extent.offset = offsets[next++];
    plan.extents.push_back(extent);
  }
  plan.arena = AlignUp(packed.height, kPageSize);
  OpenGates(problem_, timeline_, plan);
  CompleteJointPlan(problem_, plan);
  return search.Offer(std::move(plan)) || PlaceAround(buffer_offsets, search);
}

std::optional<JointPlan> JointPlanner::Realise(const std::vector<bool>& resident, Bytes arena) {
  const auto relaxed = relaxation_.Run(resident, arena);
  if (!relaxed) return std::nullopt;
  Search search{.resident = resident,
                .arena = arena,
                .target = relaxed->predicted + relaxed->predicted / 500};
  if (PlaceAround(buffers_.offsets, search) || PlaceAround(least_, search)) return search.best;
  for (const std::uint64_t percent : {100u, 95u, 88u}) {
    if (PackLifetimes(Pages(Bytes::Of(arena.count() / 100 * percent)), search)) break;
  }
  return search.best;
}

// Beginnings of the trails that the relaxation says are soon enough, those with most residents
// first, until one is. The soonest of all, or none at all, where that gives nothing.
void JointPlanner::FollowTrails(std::span<const ResidentTrail> trails, Bytes memory, Duration soon,
                                std::vector<JointPlan>& plans) {
  struct Choice {
    const ResidentTrail* trail;
    std::size_t count;
    Bytes bytes() const { return trail->bytes[count]; }
    Duration predicted() const { return trail->predicted[count]; }
  };
  std::vector<Choice> choices;
  for (const ResidentTrail& trail : trails) {
    for (std::size_t count = 0; count < trail.bytes.size(); ++count) {
      choices.push_back({.trail = &trail, .count = count});
    }
  }
  const Choice none = choices.front();
  const Choice soonest = *std::ranges::min_element(choices, {}, &Choice::predicted);
  std::erase_if(choices, [soon](const Choice& choice) { return choice.predicted() > soon; });
  std::ranges::stable_sort(choices, std::ranges::greater(), &Choice::bytes);
  constexpr std::size_t kTries = 5;
  std::vector<Choice> tries;
  // Next to one that failed the same would hardly do better.
  for (std::size_t i = 0; i < choices.size() && tries.size() < kTries; i += 1 + i / 2) {
    tries.push_back(choices[i]);
  }
  tries.push_back(soonest);
  tries.push_back(none);
  for (const Choice& choice : tries) {
    const std::vector<bool> resident =
        choice.trail->Residents(problem_.extents.size(), choice.count);
    std::optional<JointPlan> plan = Realise(resident, memory - choice.bytes());
    if (!plan) continue;
    plans.push_back(*std::move(plan));
    if (plans.back().predicted <= soon) return;
  }
}

std::optional<JointPlan> JointPlanner::PlanWithin(Bytes memory, Duration at_most) {
  memory = Pages(memory);
  if (memory < least_memory_) return std::nullopt;
  if (memory >= most_memory_) return AllResident();
  std::vector<JointPlan> plans;
  if (memory >= AlignUp(buffers_.height, kPageSize) + MinimumStreamMemory(problem_.extents)) {
    plans.push_back(Ring(memory));
    at_most = std::min(at_most, plans.front().predicted);
    const std::vector<bool> resident = plans.front().Residents();
    std::optional<JointPlan> plan = Realise(resident, memory - ResidentBytes(resident));
    if (plan) plans.push_back(*std::move(plan));
  }
  std::vector<ResidentTrail> trails;
  Duration least = at_most;
  for (const Benefit benefit : {Benefit::kPerByte, Benefit::kWhole}) {
    trails.push_back(
        ChooseJointResidents(problem_, timeline_, relaxation_, memory, benefit, residents_work_));
    least = std::min(least, *std::ranges::min_element(trails.back().predicted));
  }
  for (const JointPlan& plan : plans) least = std::min(least, plan.predicted);
  FollowTrails(trails, memory, std::min(at_most, Tolerated(least)), plans);
  least = plans.front().predicted;
  for (const JointPlan& plan : plans) least = std::min(least, plan.predicted);
  const Duration soon = std::max(least, std::min(at_most, Tolerated(least)));
  return *std::ranges::min_element(
      plans, [soon](const JointPlan& a, const JointPlan& b) { return Better(a, b, soon); });
}

}  // namespace sluice
