// server/model_lifecycle.h
//
// Loads, reloads, repairs and unloads models, one after the other on a thread of its own, while
// the others answer.

#ifndef SLUICE_SERVER_MODEL_LIFECYCLE_H_
#define SLUICE_SERVER_MODEL_LIFECYCLE_H_

#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/mutex.h"
#include "engine/backend.h"
#include "engine/compute_team.h"
#include "server/base_memory.h"
#include "server/config.h"
#include "server/dispatcher.h"
#include "server/memory_ledger.h"
#include "server/model_loader.h"
#include "server/model_memory.h"
#include "server/model_registry.h"
#include "streamer/package_cache.h"

namespace sluice {

// Threads: callable from several at once; nothing here waits but Stop.
class ModelLifecycle {
 public:
  // Borrowed: all must outlive the lifecycle.
  struct Parts {
    ComputeTeam& team;
    Backend& backend;
    MemoryLedger& ledger;
    BaseMemory& base;
    ModelRegistry& registry;
    ModelMemory& memory;
    Dispatcher& dispatcher;
    PackageCache& cache;
  };
  // Makes the models known that configuration and repository name.
  ModelLifecycle(const Parts& parts, Config config);
  // Begins to load them. Called once.
  void Begin();
  ~ModelLifecycle();  // Stops.

  bool ready() const { return ready_.load(std::memory_order_acquire); }

  // Several that wait are one: the last.
  void Reload(Config config);

  // As Load and Unload of ModelService.
  using Answered = std::function<void(const absl::Status&)>;
  void LoadByName(std::string name, Answered answered);
  void UnloadByName(std::string name, Answered answered);

  // The model's package is damaged: takes it out and builds the package again from its source.
  // `model` is not READY any more when this returns.
  void Repair(const std::shared_ptr<ServedModel>& model, const absl::Status& damage);

  // Ends the load that runs at its next extent; waits for the thread.
  void Stop();

  // Grows with every extent packed and every task done, for the watchdog.
  std::uint64_t progress() const { return progress_.load(std::memory_order_relaxed); }
  bool idle() const;  // Nothing is loading.

 private:
  struct Task {
    std::function<void()> run;
    Answered refuse = nullptr;  // Called in place of `run` when there is no time for it any more.
  };
  void Post(Task task);
  void PostControl(std::function<absl::Status()> work, Answered answered);
  void Work();
  absl::Status KeepGoing();

  void LoadAtStart();
  void ApplyReload();
  absl::StatusOr<ModelConfig> DescribeOne(const std::string& name);
  std::shared_ptr<ServedModel> Known(std::string_view name);
  absl::Status LoadNow(const std::string& name);
  absl::Status UnloadNow(const std::string& name);
  // Answers what its queue holds, then unloads.
  void Retire(const std::shared_ptr<ServedModel>& model, const std::string& reason);
  void UnloadVanished(const std::vector<ModelConfig>& described, bool complete);
  void LoadChanged(const ModelConfig& next);
  std::vector<ModelConfig> Describe(const Config& config, bool& complete);
  absl::Status LoadOrFail(const std::shared_ptr<ServedModel>& model, const ModelConfig& config);
  absl::Status Load(const std::shared_ptr<ServedModel>& model, const ModelConfig& config);
  absl::Status Install(const std::shared_ptr<ServedModel>& model, const ModelConfig& config,
                       std::unique_ptr<LoadedModel> loaded);
  absl::Status BringToSpeed(const std::shared_ptr<ServedModel>& model);
  void Unload(const std::shared_ptr<ServedModel>& model, const absl::Status& reason);
  void RepairNow(const std::shared_ptr<ServedModel>& model);
  bool CorrectHeadroom();  // True when it has changed.
  void BookMetadata(LoadedModel& loaded);
  void CleanCache();
  void Redivide();

  const Parts parts_;
  Config config_;  // The loader's thread only, once it runs.
  ServedModels at_start_;
  bool warned_ = false;  // That the process outgrows the ledger.
  // What no line explained before the load that runs.
  std::optional<std::int64_t> unaccounted_;
  std::atomic<bool> ready_{false};
  std::atomic<bool> stopping_{false};
  // The model that is being brought in: its damage is the load's own affair.
  std::atomic<const ServedModel*> installing_{nullptr};
  std::atomic<std::uint64_t> progress_{0};

  mutable Mutex mutex_;
  CondVar wake_;
  std::deque<Task> tasks_ ABSL_GUARDED_BY(mutex_);
  std::optional<Config> next_config_ ABSL_GUARDED_BY(mutex_);  // Of a reload that waits.
  bool working_ ABSL_GUARDED_BY(mutex_) = true;
  std::thread thread_;
};

}  // namespace sluice

#endif  // SLUICE_SERVER_MODEL_LIFECYCLE_H_
