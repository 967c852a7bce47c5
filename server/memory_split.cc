#include "server/memory_split.h"

#include <algorithm>
#include <array>
#include <utility>

#include "planner/budget_split.h"

namespace sluice {
namespace {

// How much more than the least a ring is ever given.
constexpr Bytes kLargestRing = 16_MiB;

Bytes Sum(std::span<const Bytes> extents) {
  Bytes sum;
  for (const Bytes extent : extents) sum += extent;
  return sum;
}

// What the model can use for residents.
Bytes Useful(const ModelDemand& model) {
  const Bytes weights = Sum(model.extents);
  return model.all_resident ? weights : std::min(weights, model.most_resident);
}

Bytes ActivationPages(const ModelDemand& model) { return AlignUp(model.activations, kPageSize); }

// The least arena that runs a model with none of its weights resident, or all of them.
Bytes LeastArena(const ModelDemand& model) {
  const Bytes pages = ActivationPages(model);
  return model.all_resident ? pages : pages + MinimumStreamMemory(model.extents);
}

Bytes LeastArena(std::span<const ModelDemand> models) {
  Bytes least;
  for (const ModelDemand& model : models) least = std::max(least, LeastArena(model));
  return least;
}

StreamPlan AllResident(const ModelDemand& model, const ReadCost& read) {
  return SimulateStream(model.steps, model.extents, read,
                        std::vector<bool>(model.extents.size(), true), Bytes(), model.reads);
}

// Makes further extents resident, the first ones that fit, with what is left of `share`.
void FillUp(const ModelDemand& model, Bytes share, StreamPlan& plan) {
  for (std::size_t i = 0; i < model.extents.size(); ++i) {
    if (plan.resident[i] || plan.resident_bytes + model.extents[i] > share) continue;
    plan.resident[i] = true;
    plan.resident_bytes += model.extents[i];
  }
}

// The planner spends one amount on residents and ring. Here the ring is given, so the amount is
// lowered until the residents alone fit the share.
StreamPlan ChooseWithin(const ModelDemand& model, const ReadCost& read, Bytes share, Bytes ring,
                        Bytes memory) {
  const Bytes least = MinimumStreamMemory(model.extents);
  std::vector<bool> resident(model.extents.size(), false);
  Bytes resident_bytes;
  constexpr int kTries = 4;
  for (int i = 0; i < kTries && memory >= least; ++i) {
    std::optional<StreamPlan> plan =
        ChooseResidents(model.steps, model.extents, read, memory, model.reads);
    if (!plan) break;
    if (plan->resident_bytes <= share) {
      resident_bytes = plan->resident_bytes;
      resident = std::move(plan->resident);
      break;
    }
    memory -= plan->resident_bytes - share;
  }
  StreamPlan chosen;
  chosen.resident = std::move(resident);
  chosen.resident_bytes = resident_bytes;
  FillUp(model, share, chosen);
  if (chosen.resident_bytes == Sum(model.extents)) return AllResident(model, read);
  return SimulateStream(model.steps, model.extents, read, std::move(chosen.resident), ring,
                        model.reads);
}

StreamPlan PlanModel(const ModelDemand& model, const ReadCost& read, Bytes share, Bytes ring) {
  if (share >= Sum(model.extents)) return AllResident(model, read);
  StreamPlan few =
      ChooseWithin(model, read, share, ring, share + MinimumStreamMemory(model.extents));
  StreamPlan many = ChooseWithin(model, read, share, ring, share + ring);
  return many.predicted < few.predicted ? std::move(many) : std::move(few);
}

// Everybody's plans for one size of the arena; nullopt when pinned weights do not fit beside it.
std::optional<MemorySplit> SplitAround(std::span<const ModelDemand> models, const ReadCost& read,
                                       Bytes memory, Bytes arena) {
  std::vector<SplitRequest> requests;
  for (const ModelDemand& model : models) {
    requests.push_back({.minimum = model.all_resident ? Sum(model.extents) : Bytes(),
                        .useful = Useful(model),
                        .weight = model.weight});
  }
  const std::optional<std::vector<Bytes>> shares = SplitBudget(requests, memory - arena);
  if (!shares) return std::nullopt;
  MemorySplit split{.arena = arena, .plans = {}};
  for (std::size_t i = 0; i < models.size(); ++i) {
    split.plans.push_back(
        PlanModel(models[i], read, (*shares)[i], arena - ActivationPages(models[i])));
  }
  return split;
}

double WeightedLatency(std::span<const ModelDemand> models, const MemorySplit& split) {
  double sum = 0;
  for (std::size_t i = 0; i < models.size(); ++i) {
    sum += models[i].weight * Seconds(split.plans[i].predicted);
  }
  return sum;
}

// An arena may be larger than anybody needs once plans are made: the rest goes back.
void TrimArena(std::span<const ModelDemand> models, MemorySplit& split) {
  Bytes used;
  for (std::size_t i = 0; i < models.size(); ++i) {
    used = std::max(used, ActivationPages(models[i]) + split.plans[i].ring);
  }
  split.arena = std::min(split.arena, used);
}

}  // namespace

Bytes LeastMemory(std::span<const ModelDemand> models) {
  Bytes least = LeastArena(models);
  for (const ModelDemand& model : models) {
    if (model.all_resident) least += Sum(model.extents);
  }
  return least;
}

Bytes UsefulMemory(std::span<const ModelDemand> models) {
  Bytes activations, resident, ring;
  for (const ModelDemand& model : models) {
    activations = std::max(activations, ActivationPages(model));
    resident += Useful(model);
    if (Useful(model) < Sum(model.extents)) ring = std::max(ring, LeastArena(model) + kLargestRing);
  }
  return resident + std::max(activations, ring);
}

std::optional<MemorySplit> SplitMemory(std::span<const ModelDemand> models, const ReadCost& read,
                                       Bytes memory) {
  const Bytes least = LeastArena(models);
  if (memory < LeastMemory(models)) return std::nullopt;
  Bytes activations, weights;
  bool all_may_stay = true;
  for (const ModelDemand& model : models) {
    activations = std::max(activations, ActivationPages(model));
    weights += Sum(model.extents);
    all_may_stay = all_may_stay && Useful(model) == Sum(model.extents);
  }
  if (all_may_stay && activations + weights <= memory) {
    MemorySplit split{.arena = activations, .plans = {}};
    for (const ModelDemand& model : models) split.plans.push_back(AllResident(model, read));
    return split;
  }
  // A larger ring lets reads run further ahead; the memory for it comes from everybody's
  // residents. The prediction says which size is worth it.
  constexpr std::array<Bytes, 6> kLargerRings = {Bytes(), 1_MiB, 2_MiB, 4_MiB, 8_MiB, kLargestRing};
  std::optional<MemorySplit> best;
  for (const Bytes more : kLargerRings) {
    if (least + more > memory) break;
    std::optional<MemorySplit> split = SplitAround(models, read, memory, least + more);
    if (split && (!best || WeightedLatency(models, *split) < WeightedLatency(models, *best))) {
      best = std::move(split);
    }
  }
  if (best) TrimArena(models, *best);
  return best;
}

}  // namespace sluice
