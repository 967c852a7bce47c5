#include "server/model_registry.h"

#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_format.h"
#include "base/status_macros.h"
#include "server/setting.h"

namespace sluice {
namespace {

void CopyNumbers(const LoadedModel& loaded, Bytes arena_ring, ModelStatus& status) {
  status.weights = loaded.streamed->weight_bytes();
  status.stored = Bytes();
  for (const Bytes bytes : loaded.read_bytes) status.stored += bytes;
  status.weight_error = loaded.streamed->package().weight_error();
  status.resident = loaded.streamed->resident_bytes();
  status.activations = loaded.streamed->activations().height;
  status.ring = arena_ring;
  status.kernels = loaded.kernels.bytes();
  status.predicted = loaded.plan.predicted;
}

}  // namespace

std::shared_ptr<ServedModel> ModelRegistry::Describe(ModelConfig config, ModelState state,
                                                     std::string reason) {
  std::shared_ptr<ServedModel> model;
  {
    MutexLock lock(mutex_);
    std::shared_ptr<ServedModel>& entry = models_[config.name];
    if (entry == nullptr) entry = std::make_shared<ServedModel>(config.name);
    model = entry;
    model->status.name = config.name;
    model->status.version = config.version;
    model->status.state = state;
    model->status.reason = std::move(reason);
    model->status.statistics = model->statistics;
    model->config = std::move(config);
  }
  Announce();
  return model;
}

void ModelRegistry::Remove(const ServedModel& model) {
  {
    MutexLock lock(mutex_);
    models_.erase(model.name);
  }
  Announce();
}

void ModelRegistry::SetState(ServedModel& model, ModelState state, std::string reason) {
  {
    MutexLock lock(mutex_);
    model.status.state = state;
    model.status.reason = std::move(reason);
    if (state == ModelState::kUnavailable) {
      model.status.resident = model.status.ring = model.status.kernels = Bytes();
    }
  }
  Announce();
}

void ModelRegistry::SetReady(ServedModel& model) {
  const Program& program = model.loaded->streamed->program();
  {
    MutexLock lock(mutex_);
    model.status.inputs.assign(program.inputs().begin(), program.inputs().end());
    model.status.outputs.assign(program.outputs().begin(), program.outputs().end());
    for (PortInfo& input : model.status.inputs) {
      const auto required = model.loaded->required.find(input.name);
      if (required != model.loaded->required.end()) input.required = required->second;
    }
    model.status.state = ModelState::kReady;
    model.status.reason.clear();
    CopyNumbers(*model.loaded, model.loaded->plan.ring, model.status);
  }
  Announce();
}

void ModelRegistry::UpdateNumbers(ServedModel& model) {
  if (model.loaded == nullptr) return;
  MutexLock lock(mutex_);
  CopyNumbers(*model.loaded, model.loaded->plan.ring, model.status);
}

std::vector<std::shared_ptr<ServedModel>> ModelRegistry::all() const {
  MutexLock lock(mutex_);
  std::vector<std::shared_ptr<ServedModel>> models;
  for (const auto& [name, model] : models_) models.push_back(model);
  return models;
}

std::vector<ModelStatus> ModelRegistry::statuses() const {
  MutexLock lock(mutex_);
  std::vector<ModelStatus> statuses;
  for (const auto& [name, model] : models_) statuses.push_back(model->status);
  return statuses;
}

absl::StatusOr<std::shared_ptr<ServedModel>> ModelRegistry::Locate(std::string_view name,
                                                                   std::string_view version) const {
  const auto found = models_.find(name);
  if (found == models_.end()) {
    return absl::NotFoundError(
        absl::StrFormat("Request for unknown model: '%s' is not found", name.substr(0, 200)));
  }
  if (version.empty()) return found->second;
  const std::optional<std::int64_t> number = ParseInteger(version);
  if (!number) {
    return absl::InvalidArgumentError(
        absl::StrFormat("failed to get model version from specified version string '%s' (details: "
                        "got text, want a number), model '%s'",
                        version.substr(0, 80), name));
  }
  if (version != found->second->status.version) {
    return absl::NotFoundError(absl::StrFormat(
        "Request for unknown model: '%s' version %d is not found, it is version %s that is served",
        name, *number, found->second->status.version));
  }
  return found->second;
}

absl::StatusOr<ModelRegistry::Found> ModelRegistry::Find(std::string_view name,
                                                         std::string_view version) const {
  MutexLock lock(mutex_);
  SLUICE_ASSIGN_OR_RETURN(std::shared_ptr<ServedModel> model, Locate(name, version));
  Found found;
  found.state = model->status.state;
  if (found.state != ModelState::kReady) found.reason = model->status.reason;
  found.priority = model->config.priority;
  found.deadline = model->config.deadline;
  found.model = std::move(model);
  return found;
}

absl::StatusOr<ModelStatus> ModelRegistry::Status(std::string_view name,
                                                  std::string_view version) const {
  MutexLock lock(mutex_);
  SLUICE_ASSIGN_OR_RETURN(const std::shared_ptr<ServedModel> model, Locate(name, version));
  return model->status;
}

void ModelRegistry::OnChange(std::function<void()> listener) {
  MutexLock lock(mutex_);
  listeners_.push_back(std::move(listener));
}

void ModelRegistry::Announce() {
  std::vector<std::function<void()>> listeners;
  {
    MutexLock lock(mutex_);
    listeners = listeners_;
  }
  for (const std::function<void()>& listener : listeners) listener();
}

}  // namespace sluice
