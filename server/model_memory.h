// server/model_memory.h
//
// Keeps the models' memory within the budget: the arena that they share and the weights that stay.
// Whatever changes, memory is given back first and taken afterwards, so that the sum never exceeds
// the budget in between.
//
// Threads: the loader's thread only. Memory itself changes on the compute team, between inferences;
// a model that is not concerned goes on answering.

#ifndef SLUICE_SERVER_MODEL_MEMORY_H_
#define SLUICE_SERVER_MODEL_MEMORY_H_

#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "base/bytes.h"
#include "engine/compute_team.h"
#include "planner/residency.h"
#include "server/memory_ledger.h"
#include "server/memory_split.h"
#include "server/served_model.h"
#include "streamer/executor.h"

namespace sluice {

using ServedModels = std::vector<std::shared_ptr<ServedModel>>;

class ModelMemory {
 public:
  // `on_damage` is called, on the compute team, for a model whose weights cannot be brought into
  // memory intact; `damage` of its LoadedModel says why.
  // Owns: all must outlive this.
  ModelMemory(
      ComputeTeam& team, Executor& executor, MemoryLedger& ledger,
      std::function<void(const std::shared_ptr<ServedModel>&, const absl::Status&)> on_damage);

  // Whether `candidate`, in place of the model of that name, runs beside the others at all.
  // Fails: FAILED_PRECONDITION, with the bytes that it takes, line by line.
  absl::Status CheckFits(const ServedModels& models, const ServedModel& name,
                         const ModelConfig& config, const LoadedModel& candidate) const;

  // Divides the budget among the loaded models and applies it; leaves `keep_free` unreserved.
  // Fails: RESOURCE_EXHAUSTED, they do not fit; nothing has changed then.
  absl::Status Divide(const ServedModels& models, Bytes keep_free);

  // Step times of one model and the answer of its self-test, and, once, the disk's speed; better
  // plans follow. Fails: as Executor::Profile and MeasureReads.
  absl::Status Measure(ServedModel& model);

  // Takes the model out of memory.
  void Unload(ServedModel& model);

 private:
  std::vector<ModelDemand> Demands(std::span<const LoadedModel* const> loaded,
                                   std::span<const ModelConfig* const> configs) const;
  Bytes LargestRequest(std::span<const LoadedModel* const> loaded) const;
  Bytes FixedLines(const LoadedModel* without) const;
  absl::Status Apply(const ServedModels& loaded, const MemorySplit& split);
  absl::Status ApplyArena(Bytes arena);
  void GiveBack(const ServedModels& loaded, const MemorySplit& split);
  void TakeUp(const std::shared_ptr<ServedModel>& model, const StreamPlan& plan);
  void Damaged(const std::shared_ptr<ServedModel>& model, const absl::Status& damage);

  ComputeTeam& team_;
  Executor& executor_;
  MemoryLedger& ledger_;
  const std::function<void(const std::shared_ptr<ServedModel>&, const absl::Status&)> on_damage_;
  Reservation arena_;
  ReadCost read_;
  bool read_measured_ = false;
};

}  // namespace sluice

#endif  // SLUICE_SERVER_MODEL_MEMORY_H_
