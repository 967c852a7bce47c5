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
#include "base/mutex.h"
#include "engine/backend.h"
#include "engine/compute_team.h"
#include "server/config.h"
#include "server/dispatcher.h"
#include "server/memory_ledger.h"
#include "server/model_loader.h"
#include "server/model_memory.h"
#include "server/model_registry.h"

namespace sluice {

// Threads: callable from several at once; nothing here waits but Stop.
class ModelLifecycle {
 public:
  // Borrowed: all must outlive the lifecycle.
  struct Parts {
    ComputeTeam& team;
    Backend& backend;
    MemoryLedger& ledger;
    Reservation& base;
    ModelRegistry& registry;
    ModelMemory& memory;
    Dispatcher& dispatcher;
  };
  // Makes the models known that configuration and repository name, and begins to load them.
  ModelLifecycle(const Parts& parts, Config config);
  ~ModelLifecycle();  // Stops.

  bool ready() const { return ready_.load(std::memory_order_acquire); }

  void Reload(Config config);

  // The model's package is damaged: takes it out and builds the package again from its source.
  // `model` is not READY any more when this returns.
  void Repair(const std::shared_ptr<ServedModel>& model, const absl::Status& damage);

  // Ends the load that runs at its next extent; waits for the thread.
  void Stop();

  // Grows with every extent packed and every task done, for the watchdog.
  std::uint64_t progress() const { return progress_.load(std::memory_order_relaxed); }
  bool idle() const;  // Nothing is loading.

 private:
  using Task = std::function<void()>;
  void Post(Task task);
  void Work();
  absl::Status KeepGoing();

  void LoadAtStart();
  void ApplyReload(const Config& config);
  void UnloadVanished(const std::vector<ModelConfig>& described, bool complete);
  void LoadChanged(const ModelConfig& next);
  std::vector<ModelConfig> Describe(const Config& config, bool& complete);
  void LoadOrFail(const std::shared_ptr<ServedModel>& model, const ModelConfig& config);
  absl::Status Load(const std::shared_ptr<ServedModel>& model, const ModelConfig& config);
  absl::Status Install(const std::shared_ptr<ServedModel>& model, const ModelConfig& config,
                       std::unique_ptr<LoadedModel> loaded);
  absl::Status BringToSpeed(const std::shared_ptr<ServedModel>& model);
  void Unload(const std::shared_ptr<ServedModel>& model, const absl::Status& reason);
  void RepairNow(const std::shared_ptr<ServedModel>& model);
  bool CorrectBase();  // True when the base was raised.
  void Redivide();

  const Parts parts_;
  Config config_;  // The loader's thread only, once it runs.
  ServedModels at_start_;
  bool warned_ = false;  // That the process outgrows the ledger.
  std::atomic<bool> ready_{false};
  std::atomic<bool> stopping_{false};
  // The model that is being brought in: its damage is the load's own affair.
  std::atomic<const ServedModel*> installing_{nullptr};
  std::atomic<std::uint64_t> progress_{0};

  mutable Mutex mutex_;
  CondVar wake_;
  std::deque<Task> tasks_ ABSL_GUARDED_BY(mutex_);
  bool working_ ABSL_GUARDED_BY(mutex_) = true;
  std::thread thread_;
};

}  // namespace sluice

#endif  // SLUICE_SERVER_MODEL_LIFECYCLE_H_
