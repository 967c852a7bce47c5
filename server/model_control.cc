// What is loaded and unloaded at run time: reloads of the configuration, and what clients ask for.

#include <spdlog/spdlog.h>

#include <algorithm>
#include <filesystem>
#include <system_error>
#include <utility>

#include "absl/strings/str_format.h"
#include "base/status_macros.h"
#include "server/model_lifecycle.h"

namespace sluice {
namespace {

// Calls of clients that may wait for the loader.
constexpr std::size_t kMaxControls = 64;

constexpr const char* kExplicit = "not loaded: its description says `load: explicit`";
constexpr const char* kUnloaded = "not loaded: a client unloaded it";

bool SameDescription(const ModelConfig& a, const ModelConfig& b) {
  return a.version == b.version && a.path == b.path && a.root == b.root && a.dims == b.dims &&
         a.values == b.values && a.pipeline == b.pipeline && a.weights == b.weights &&
         a.max_resident == b.max_resident && a.priority == b.priority && a.deadline == b.deadline &&
         a.load == b.load;
}

// Loaded, and neither its description nor its file has changed since.
bool IsAsDescribed(const ServedModel& model, const ModelConfig& next) {
  return model.loaded != nullptr && SameDescription(model.config, next) &&
         model.loaded->stamp == FileStamp(next.path);
}

// Names of the keys that differ and cannot change while the daemon runs.
std::string FixedKeysThatDiffer(const Config& a, const Config& b) {
  std::string keys;
  const auto note = [&](bool same, std::string_view key) {
    if (!same) keys += absl::StrFormat("%s%s", keys.empty() ? "" : ", ", key);
  };
  note(a.server_name == b.server_name, "server_name");
  note(a.listen == b.listen, "listen");
  note(a.insecure == b.insecure, "insecure");
  note(a.tls.has_value() == b.tls.has_value() && (!a.tls || a.tls->loopback == b.tls->loopback),
       "tls");
  note(a.socket == b.socket, "socket");
  note(a.metrics_insecure == b.metrics_insecure, "metrics.insecure");
  note(a.metrics_listen == b.metrics_listen, "metrics.listen");
  note(a.budget == b.budget && a.budget_percent == b.budget_percent, "memory.budget");
  note(a.cache_dir == b.cache_dir, "cache_dir");
  note(a.cache_quota == b.cache_quota && a.cache_quota_percent == b.cache_quota_percent,
       "cache_quota");
  note(a.threads == b.threads, "compute.threads");
  note(a.io_uring == b.io_uring, "storage.io_uring");
  note(a.max_request == b.max_request, "limits.max_request");
  note(a.max_queue == b.max_queue, "limits.max_queue");
  note(a.max_in_flight == b.max_in_flight, "limits.max_in_flight");
  note(a.drain_timeout == b.drain_timeout, "drain_timeout");
  note(a.control_tcp == b.control_tcp, "control.tcp");
  note(a.log_level == b.log_level, "log.level");
  return keys;
}

}  // namespace

// Those of the file, then those of the repository. A name that comes twice is the file's.
std::vector<ModelConfig> ModelLifecycle::Describe(const Config& config, bool& complete) {
  std::vector<ModelConfig> models = config.models;
  complete = true;
  if (!config.model_repository) return models;
  RepositoryScan scan = ScanRepository(*config.model_repository);
  for (const absl::Status& error : scan.errors) {
    spdlog::error("{}", std::string(error.message()));
    complete = false;
  }
  for (ModelConfig& model : scan.models) {
    if (std::ranges::find(models, model.name, &ModelConfig::name) != models.end()) {
      spdlog::error("{}: name: got \"{}\", want one that `models` does not have", model.where,
                    model.name);
      continue;
    }
    models.push_back(std::move(model));
  }
  return models;
}

void ModelLifecycle::Reload(Config config) {
  {
    MutexLock lock(mutex_);
    if (std::exchange(next_config_, std::move(config))) return;
  }
  Post({.run = [this] { ApplyReload(); }});
}

void ModelLifecycle::ApplyReload() {
  Config config;
  {
    MutexLock lock(mutex_);
    config = *std::exchange(next_config_, std::nullopt);
  }
  const std::string fixed = FixedKeysThatDiffer(config_, config);
  if (!fixed.empty()) spdlog::warn("reload: these keys need a restart to change: {}", fixed);
  config_.models = config.models;
  config_.model_repository = config.model_repository;
  bool complete = false;
  const std::vector<ModelConfig> described = Describe(config_, complete);
  UnloadVanished(described, complete);
  for (const ModelConfig& next : described) {
    if (stopping_) return;
    LoadChanged(next);
  }
  CleanCache();
  spdlog::info("reloaded: {} models described", described.size());
}

void ModelLifecycle::UnloadVanished(const std::vector<ModelConfig>& described, bool complete) {
  for (const std::shared_ptr<ServedModel>& model : parts_.registry.all()) {
    if (std::ranges::find(described, model->name, &ModelConfig::name) != described.end()) continue;
    // What could not be scanned has not vanished.
    std::error_code ignored;
    if (!complete && std::filesystem::exists(model->config.path, ignored)) continue;
    spdlog::info("model '{}': no longer described, unloading", model->name);
    Retire(model, "it is no longer described");
    parts_.registry.Remove(*model);
  }
  Redivide();
}

void ModelLifecycle::LoadChanged(const ModelConfig& next) {
  std::shared_ptr<ServedModel> model = Known(next.name);
  if (model != nullptr && IsAsDescribed(*model, next)) return;
  using Wish = ServedModel::Wish;
  if (model != nullptr && model->config.load != next.load) model->wish = Wish::kAsDescribed;
  const Wish wish = model == nullptr ? Wish::kAsDescribed : model->wish;
  const bool explicitly = next.load == ModelConfig::Load::kExplicit;
  if (wish == Wish::kUnloaded || (explicitly && wish == Wish::kAsDescribed)) {
    const char* const reason = explicitly ? kExplicit : kUnloaded;
    if (model != nullptr && model->loaded != nullptr) Retire(model, reason);
    parts_.registry.Describe(next, ModelState::kUnavailable, reason);
    return;
  }
  // The old one answers until the new one is ready.
  if (model == nullptr || model->loaded == nullptr) {
    model = parts_.registry.Describe(next, ModelState::kLoading, "loading");
  }
  (void)LoadOrFail(model, next);
}

std::shared_ptr<ServedModel> ModelLifecycle::Known(std::string_view name) {
  for (const std::shared_ptr<ServedModel>& known : parts_.registry.all()) {
    if (known->name == name) return known;
  }
  return nullptr;
}

void ModelLifecycle::LoadByName(std::string name, Answered answered) {
  PostControl([this, name = std::move(name)] { return LoadNow(name); }, std::move(answered));
}

void ModelLifecycle::UnloadByName(std::string name, Answered answered) {
  PostControl([this, name = std::move(name)] { return UnloadNow(name); }, std::move(answered));
}

void ModelLifecycle::PostControl(std::function<absl::Status()> work, Answered answered) {
  std::size_t waiting = 0;
  {
    MutexLock lock(mutex_);
    waiting = tasks_.size();
  }
  if (waiting >= kMaxControls) {
    return answered(absl::UnavailableError(absl::StrFormat(
        "got %d loads and unloads that wait, want at most %d", waiting, kMaxControls)));
  }
  Task task;
  task.refuse = answered;
  task.run = [work = std::move(work), answered = std::move(answered)] { answered(work()); };
  Post(std::move(task));
}

// The file's models as they were last read; the repository's as they are now.
absl::StatusOr<ModelConfig> ModelLifecycle::DescribeOne(const std::string& name) {
  const auto found = std::ranges::find(config_.models, name, &ModelConfig::name);
  if (found != config_.models.end()) return *found;
  if (!config_.model_repository) {
    return absl::NotFoundError("the configuration has no model of that name");
  }
  return ScanRepositoryModel(*config_.model_repository, name);
}

absl::Status ModelLifecycle::LoadNow(const std::string& name) {
  const auto failed = [&](const absl::Status& why) {
    return absl::Status(why.code(), absl::StrFormat("failed to load '%s': %s", name.substr(0, 200),
                                                    std::string(why.message())));
  };
  const absl::StatusOr<ModelConfig> next = DescribeOne(name);
  if (!next.ok()) return failed(next.status());
  std::shared_ptr<ServedModel> model = Known(name);
  if (model != nullptr && IsAsDescribed(*model, *next)) {
    model->wish = ServedModel::Wish::kLoaded;
    return absl::OkStatus();
  }
  if (model == nullptr || model->loaded == nullptr) {
    model = parts_.registry.Describe(*next, ModelState::kLoading, "loading");
  }
  model->wish = ServedModel::Wish::kLoaded;
  const absl::Status loaded = LoadOrFail(model, *next);
  return loaded.ok() ? loaded : failed(loaded);
}

absl::Status ModelLifecycle::UnloadNow(const std::string& name) {
  const std::shared_ptr<ServedModel> model = Known(name);
  if (model == nullptr) {
    return absl::NotFoundError(absl::StrFormat(
        "failed to unload '%s': the daemon knows no model of that name", name.substr(0, 200)));
  }
  model->wish = ServedModel::Wish::kUnloaded;
  if (model->loaded == nullptr) {
    parts_.registry.SetState(*model, ModelState::kUnavailable, kUnloaded);
    return absl::OkStatus();
  }
  Retire(model, kUnloaded);
  Redivide();
  spdlog::info("model '{}': unloaded", model->name);
  return absl::OkStatus();
}

void ModelLifecycle::Retire(const std::shared_ptr<ServedModel>& model, const std::string& reason) {
  parts_.registry.SetState(*model, ModelState::kUnavailable, reason);
  parts_.dispatcher.Finish(*model, SteadyClock().Now() + config_.drain_timeout,
                           [this] { return KeepGoing().ok(); });
  Unload(model, absl::UnavailableError(
                    absl::StrFormat("model '%s' was unloaded: %s", model->name, reason)));
}

}  // namespace sluice
