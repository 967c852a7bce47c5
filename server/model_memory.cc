#include "server/model_memory.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_format.h"
#include "base/status_macros.h"
#include "server/budget_need.h"

namespace sluice {
namespace {

constexpr int kProfileRounds = 3;

bool IsElastic(const MemoryLedger::Line& line) {
  return line.line == "arena" || line.line == "weights" || line.line == "requests";
}

Bytes ResidentBytes(std::span<const Bytes> extents, const std::vector<bool>& resident) {
  Bytes sum;
  for (std::size_t i = 0; i < extents.size(); ++i) {
    if (resident[i]) sum += extents[i];
  }
  return sum;
}

}  // namespace

ModelMemory::ModelMemory(
    ComputeTeam& team, Executor& executor, MemoryLedger& ledger,
    std::function<void(const std::shared_ptr<ServedModel>&, const absl::Status&)> on_damage)
    : team_(team), executor_(executor), ledger_(ledger), on_damage_(std::move(on_damage)) {
  absl::StatusOr<Reservation> arena = ledger_.Reserve("arena", "", Bytes());
  if (arena.ok()) arena_ = *std::move(arena);
}

std::vector<ModelDemand> ModelMemory::Demands(std::span<const LoadedModel* const> loaded,
                                              std::span<const ModelConfig* const> configs) const {
  std::vector<ModelDemand> demands;
  for (std::size_t i = 0; i < loaded.size(); ++i) {
    const StreamedModel& streamed = *loaded[i]->streamed;
    demands.push_back(DemandOf(*configs[i], loaded[i]->costs, streamed.extent_bytes(),
                               streamed.activations().height, loaded[i]->read_bytes));
  }
  return demands;
}

Bytes ModelMemory::LargestRequest(std::span<const LoadedModel* const> loaded) const {
  Bytes largest;
  for (const LoadedModel* model : loaded) {
    largest = std::max(largest, RequestMemory(model->input_bytes, model->output_bytes));
  }
  return largest;
}

Bytes ModelMemory::FixedLines(const LoadedModel* without) const {
  Bytes fixed;
  for (const MemoryLedger::Line& line : ledger_.lines()) {
    if (!IsElastic(line)) fixed += line.reserved;
  }
  return without == nullptr ? fixed : fixed - without->kernels.bytes() - without->metadata.bytes();
}

absl::Status ModelMemory::CheckFits(const ServedModels& models, const ServedModel& name,
                                    const ModelConfig& config, const LoadedModel& candidate) const {
  std::vector<const LoadedModel*> loaded = {&candidate};
  std::vector<const ModelConfig*> configs = {&config};
  for (const std::shared_ptr<ServedModel>& model : models) {
    if (model.get() == &name || model->loaded == nullptr) continue;
    loaded.push_back(model->loaded.get());
    configs.push_back(&model->config);
  }
  const Bytes fixed = FixedLines(name.loaded.get());
  const Bytes requests = RequestsRoom(LargestRequest(loaded), ledger_.budget());
  const Bytes least = LeastMemory(Demands(loaded, configs));
  const Bytes needed = fixed + requests + least;
  if (needed <= ledger_.budget()) return absl::OkStatus();
  const StreamedModel& streamed = *candidate.streamed;
  return absl::FailedPreconditionError(absl::StrFormat(
      "model '%s' takes %s of memory (process, kernels and imports %s, requests %s, arena%s %s), "
      "want at most the budget of %s; its activations take %s and its weights %s",
      config.name, FormatBytes(needed), FormatBytes(fixed), FormatBytes(requests),
      least > MinimumArena(streamed) ? " and resident weights" : "", FormatBytes(least),
      FormatBytes(ledger_.budget()), FormatBytes(streamed.activations().height),
      FormatBytes(streamed.weight_bytes())));
}

absl::Status ModelMemory::Divide(const ServedModels& models, Bytes keep_free) {
  ServedModels served;
  std::vector<const LoadedModel*> loaded;
  std::vector<const ModelConfig*> configs;
  for (const std::shared_ptr<ServedModel>& model : models) {
    if (model->loaded == nullptr) continue;
    served.push_back(model);
    loaded.push_back(model->loaded.get());
    configs.push_back(&model->config);
  }
  const Bytes requests =
      ledger_.LimitLine("requests", RequestsRoom(LargestRequest(loaded), ledger_.budget()));
  const Bytes taken = FixedLines(nullptr) + requests + keep_free;
  const std::vector<ModelDemand> demands = Demands(loaded, configs);
  const std::optional<MemorySplit> split = SplitMemory(demands, read_, ledger_.budget() - taken);
  if (!split) {
    return absl::ResourceExhaustedError(absl::StrFormat(
        "the loaded models take %s beside %s for everything else, want at most the budget of %s",
        FormatBytes(LeastMemory(demands)), FormatBytes(taken), FormatBytes(ledger_.budget())));
  }
  return Apply(served, *split);
}

absl::Status ModelMemory::Apply(const ServedModels& loaded, const MemorySplit& split) {
  absl::Status resized;
  team_.Run([&] {
    GiveBack(loaded, split);
    resized = ApplyArena(split.arena);
  });
  SLUICE_RETURN_IF_ERROR(resized);
  // Model by model, so that inferences run between.
  for (std::size_t i = 0; i < loaded.size(); ++i) {
    team_.Run([&] { TakeUp(loaded[i], split.plans[i]); });
  }
  return absl::OkStatus();
}

// Only extents that were resident and stay so: nothing is read.
void ModelMemory::GiveBack(const ServedModels& loaded, const MemorySplit& split) {
  for (std::size_t i = 0; i < loaded.size(); ++i) {
    LoadedModel& model = *loaded[i]->loaded;
    std::vector<bool> kept = model.plan.resident;
    std::uint64_t evicted = 0;
    for (std::size_t e = 0; e < kept.size(); ++e) {
      if (kept[e] && !split.plans[i].resident[e]) ++evicted;
      kept[e] = kept[e] && split.plans[i].resident[e];
    }
    loaded[i]->statistics->evictions.fetch_add(evicted, std::memory_order_relaxed);
    const absl::Status shrunk = executor_.SetResidents(*model.streamed, kept);
    if (!shrunk.ok()) Damaged(loaded[i], shrunk);
    model.plan.resident = std::move(kept);
    // Shrinking a reservation cannot fail.
    (void)model.weights.Resize(model.streamed->resident_bytes());
  }
}

absl::Status ModelMemory::ApplyArena(Bytes arena) {
  if (arena == executor_.arena()) return absl::OkStatus();
  if (arena > arena_.bytes()) SLUICE_RETURN_IF_ERROR(arena_.Resize(arena));
  const absl::Status resized = executor_.Resize(arena);
  (void)arena_.Resize(resized.ok() ? arena : Bytes());
  return resized;
}

void ModelMemory::TakeUp(const std::shared_ptr<ServedModel>& model, const StreamPlan& plan) {
  LoadedModel& loaded = *model->loaded;
  const Bytes wanted = ResidentBytes(loaded.streamed->extent_bytes(), plan.resident);
  if (const absl::Status room = loaded.weights.Resize(wanted); !room.ok()) {
    return Damaged(model, room);  // The plan counts on nothing that others could have taken.
  }
  const absl::Status read = executor_.SetResidents(*loaded.streamed, plan.resident);
  if (read.ok()) {
    loaded.plan = plan;
    return;
  }
  (void)loaded.weights.Resize(loaded.streamed->resident_bytes());
  Damaged(model, read);
}

void ModelMemory::Damaged(const std::shared_ptr<ServedModel>& model, const absl::Status& damage) {
  model->loaded->damage = damage;
  on_damage_(model, damage);
}

absl::Status ModelMemory::Measure(ServedModel& model) {
  absl::Status measured;
  team_.Run([&] {
    LoadedModel& loaded = *model.loaded;
    absl::StatusOr<ModelProfile> profile = executor_.Profile(*loaded.streamed, kProfileRounds);
    if (!profile.ok()) {
      measured = std::move(profile).status();
      return;
    }
    loaded.costs = std::move(profile->costs);
    loaded.answer = profile->answer;
    if (read_measured_) return;
    absl::StatusOr<ReadCost> read = executor_.MeasureReads(*loaded.streamed);
    if (read.ok()) {
      read_ = *read;
      read_measured_ = true;
    } else if (!absl::IsFailedPrecondition(read.status())) {
      // Failed precondition: all of it is resident, and the arena holds no extent to try.
      measured = std::move(read).status();
    }
  });
  return measured;
}

void ModelMemory::Unload(ServedModel& model) {
  team_.Run([&] { model.loaded.reset(); });
}

}  // namespace sluice
