// server/model_registry.h
//
// The models that the daemon knows, and what the outside sees of them.

#ifndef SLUICE_SERVER_MODEL_REGISTRY_H_
#define SLUICE_SERVER_MODEL_REGISTRY_H_

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "base/mutex.h"
#include "server/served_model.h"

namespace sluice {

// Threads: callable from several at once. Listeners are called after a change, without a lock.
class ModelRegistry {
 public:
  // Adds the model, or gives the one of that name its description.
  std::shared_ptr<ServedModel> Describe(ModelConfig config, ModelState state, std::string reason);
  void Remove(const ServedModel& model);
  void SetState(ServedModel& model, ModelState state, std::string reason);
  // Ready, with what there is to know of `model.loaded`. On the loader's thread.
  void SetReady(ServedModel& model);
  // Only the numbers, after the budget was divided. On the loader's thread.
  void UpdateNumbers(ServedModel& model);

  // In order of name.
  std::vector<std::shared_ptr<ServedModel>> all() const;
  std::vector<ModelStatus> statuses() const;

  // A call finds its model here: who it is, and how it stands.
  struct Found {
    std::shared_ptr<ServedModel> model;
    ModelState state = ModelState::kUnavailable;
    std::string reason;  // Empty when ready.
    int priority = 0;
    std::optional<Duration> deadline;
  };
  // Fails: NOT_FOUND, INVALID_ARGUMENT, as ModelService::Find.
  absl::StatusOr<Found> Find(std::string_view name, std::string_view version) const;
  absl::StatusOr<ModelStatus> Status(std::string_view name, std::string_view version) const;

  void OnChange(std::function<void()> listener);
  void Announce();  // Calls the listeners.

 private:
  absl::StatusOr<std::shared_ptr<ServedModel>> Locate(std::string_view name,
                                                      std::string_view version) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  mutable Mutex mutex_;
  std::map<std::string, std::shared_ptr<ServedModel>, std::less<>> models_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::function<void()>> listeners_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace sluice

#endif  // SLUICE_SERVER_MODEL_REGISTRY_H_
