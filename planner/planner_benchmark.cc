// Planning runs when a model is loaded and when the budget is divided anew, so both must be quick.

#include <cstddef>
#include <vector>

#include "benchmark/benchmark.h"
#include "planner/any_problem.h"
#include "planner/draw.h"
#include "planner/joint_check.h"
#include "planner/joint_frontier.h"
#include "planner/offset_check.h"
#include "planner/offset_plan.h"
#include "planner/residency.h"

namespace sluice {
namespace {

void BM_PlanOffsets(benchmark::State& state) {
  Draw draw(1);
  const auto records = AnyNetwork(draw, static_cast<std::size_t>(state.range(0)));
  const OffsetPlan plan = PlanOffsets(records);
  if (!CheckOffsets(records, plan).ok() || plan.height < OffsetLowerBound(records)) {
    state.SkipWithError("bad plan");
    return;
  }
  while (state.KeepRunning()) benchmark::DoNotOptimize(PlanOffsets(records));
  state.SetItemsProcessed(state.iterations() * state.range(0));
}
BENCHMARK(BM_PlanOffsets)->Arg(64)->Arg(1024)->Unit(benchmark::kMillisecond);

// Lifetimes anywhere: no greedy order meets the bound, so the whole search runs.
void BM_PlanOffsetsHard(benchmark::State& state) {
  Draw draw(1);
  std::vector<UsageRecord> records;
  while (records.size() < static_cast<std::size_t>(state.range(0))) {
    const std::vector<UsageRecord> more = AnyRecords(draw, {.records_below = 200, .steps = 100});
    records.insert(records.end(), more.begin(), more.end());
  }
  records.resize(static_cast<std::size_t>(state.range(0)));
  if (!CheckOffsets(records, PlanOffsets(records)).ok()) {
    state.SkipWithError("bad plan");
    return;
  }
  while (state.KeepRunning()) benchmark::DoNotOptimize(PlanOffsets(records));
  state.SetItemsProcessed(state.iterations() * state.range(0));
}
BENCHMARK(BM_PlanOffsetsHard)->Arg(64)->Arg(1024)->Unit(benchmark::kMillisecond);

void BM_ChooseResidents(benchmark::State& state) {
  Draw draw(1);
  const StreamProblem problem = AnyStream(draw, static_cast<std::size_t>(state.range(0)));
  const Bytes memory =
      Bytes::Of(problem.Total().count() * static_cast<std::uint64_t>(state.range(1)) / 100);
  const auto plan = ChooseResidents(problem.steps, problem.extents, problem.read, memory);
  if (!plan || plan->resident_bytes + plan->ring > memory) {
    state.SkipWithError("bad plan");
    return;
  }
  while (state.KeepRunning()) {
    benchmark::DoNotOptimize(ChooseResidents(problem.steps, problem.extents, problem.read, memory));
  }
  state.SetItemsProcessed(state.iterations() * state.range(0));
}
BENCHMARK(BM_ChooseResidents)
    ->ArgsProduct({{64, 400}, {25, 50, 75}})
    ->Unit(benchmark::kMillisecond);

// A planner, its least memory, and one plan at a share of what everything takes.
void BM_PlanJointArena(benchmark::State& state) {
  Draw draw(1);
  const AnyJoint joint = AnyJointNetwork(draw, static_cast<std::size_t>(state.range(0)));
  const JointProblem problem = joint.Problem();
  JointPlanner planner(problem);
  const std::uint64_t least = planner.least_memory().count(), most = planner.most_memory().count();
  const Bytes memory =
      Bytes::Of(least + (most - least) * static_cast<std::uint64_t>(state.range(1)) / 100);
  const auto plan = planner.PlanWithin(memory);
  if (!plan || plan->memory() > memory || !CheckJointPlan(problem, *plan).ok()) {
    state.SkipWithError("bad plan");
    return;
  }
  while (state.KeepRunning()) benchmark::DoNotOptimize(planner.PlanWithin(memory));
  state.SetItemsProcessed(state.iterations() * state.range(0));
}
BENCHMARK(BM_PlanJointArena)->ArgsProduct({{64, 300}, {5, 25, 50}})->Unit(benchmark::kMillisecond);

void BM_JointFrontier(benchmark::State& state) {
  Draw draw(1);
  const AnyJoint joint = AnyJointNetwork(draw, static_cast<std::size_t>(state.range(0)));
  while (state.KeepRunning()) {
    JointPlanner planner(joint.Problem());
    benchmark::DoNotOptimize(JointFrontier(planner));
  }
}
BENCHMARK(BM_JointFrontier)->Arg(64)->Arg(300)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace sluice
