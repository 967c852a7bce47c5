#include "server/model_lifecycle.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <filesystem>
#include <system_error>
#include <utility>

#include "absl/strings/str_format.h"
#include "base/status_macros.h"
#include "server/process_memory.h"
#include "server/warm_up.h"

namespace sluice {
namespace {

// How often the process is compared with the ledger, and the least by which the base is raised.
constexpr Duration kCorrectionInterval = std::chrono::seconds(1);
constexpr Bytes kCorrectionStep = 256_KiB;

constexpr const char* kExplicit = "not loaded: its description says `load: explicit`";

bool SameDescription(const ModelConfig& a, const ModelConfig& b) {
  return a.version == b.version && a.path == b.path && a.root == b.root && a.dims == b.dims &&
         a.pipeline == b.pipeline && a.max_resident == b.max_resident && a.priority == b.priority &&
         a.deadline == b.deadline && a.load == b.load;
}

std::string Text(const absl::Status& status) {
  return absl::StrFormat("%s: %s", absl::StatusCodeToString(status.code()), status.message());
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
  note(a.metrics_listen == b.metrics_listen, "metrics.listen");
  note(a.budget == b.budget && a.budget_percent == b.budget_percent, "memory.budget");
  note(a.cache_dir == b.cache_dir, "cache_dir");
  note(a.threads == b.threads, "compute.threads");
  note(a.io_uring == b.io_uring, "storage.io_uring");
  note(a.max_request == b.max_request, "limits.max_request");
  note(a.max_queue == b.max_queue, "limits.max_queue");
  note(a.max_in_flight == b.max_in_flight, "limits.max_in_flight");
  note(a.drain_timeout == b.drain_timeout, "drain_timeout");
  note(a.log_level == b.log_level, "log.level");
  return keys;
}

}  // namespace

ModelLifecycle::ModelLifecycle(const Parts& parts, Config config)
    : parts_(parts), config_(std::move(config)) {
  bool complete = false;
  for (ModelConfig& model : Describe(config_, complete)) {
    const bool load = model.load == ModelConfig::Load::kStart;
    std::shared_ptr<ServedModel> known = parts_.registry.Describe(
        std::move(model), load ? ModelState::kLoading : ModelState::kUnavailable,
        load ? "loading" : kExplicit);
    if (load) at_start_.push_back(std::move(known));
  }
  tasks_.push_back([this] { LoadAtStart(); });
  thread_ = std::thread([this] { Work(); });
}

ModelLifecycle::~ModelLifecycle() { Stop(); }

void ModelLifecycle::Stop() {
  stopping_ = true;
  {
    MutexLock lock(mutex_);
    tasks_.clear();
  }
  wake_.NotifyAll();
  if (thread_.joinable()) thread_.join();
}

bool ModelLifecycle::idle() const {
  MutexLock lock(mutex_);
  return !working_ && tasks_.empty();
}

void ModelLifecycle::Post(Task task) {
  {
    MutexLock lock(mutex_);
    if (stopping_) return;
    tasks_.push_back(std::move(task));
  }
  wake_.NotifyOne();
}

void ModelLifecycle::Work() {
  for (;;) {
    Task task;
    {
      MutexLock lock(mutex_);
      if (tasks_.empty() && !stopping_) {
        wake_.WaitUntil(mutex_, SteadyClock().Now() + kCorrectionInterval);
      }
      if (stopping_) return;
      if (!tasks_.empty()) {
        task = std::move(tasks_.front());
        tasks_.pop_front();
        working_ = true;
      }
    }
    if (task == nullptr) {
      if (CorrectBase()) Redivide();
      continue;
    }
    task();
    ++progress_;
    {
      MutexLock lock(mutex_);
      working_ = false;
    }
    parts_.registry.Announce();
  }
}

absl::Status ModelLifecycle::KeepGoing() {
  ++progress_;
  return stopping_ ? absl::UnavailableError("the server is shutting down") : absl::OkStatus();
}

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

void ModelLifecycle::LoadAtStart() {
  for (const std::shared_ptr<ServedModel>& model : std::exchange(at_start_, {})) {
    if (stopping_) return;
    LoadOrFail(model, model->config);
  }
  ready_.store(true, std::memory_order_release);
  spdlog::info("ready: {} reserved of {}", FormatBytes(parts_.ledger.reserved()),
               FormatBytes(parts_.ledger.budget()));
}

void ModelLifecycle::Reload(Config config) {
  Post([this, config = std::move(config)] { ApplyReload(config); });
}

void ModelLifecycle::ApplyReload(const Config& config) {
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
  spdlog::info("reloaded: {} models described", described.size());
}

void ModelLifecycle::UnloadVanished(const std::vector<ModelConfig>& described, bool complete) {
  for (const std::shared_ptr<ServedModel>& model : parts_.registry.all()) {
    if (std::ranges::find(described, model->name, &ModelConfig::name) != described.end()) continue;
    // What could not be scanned has not vanished.
    std::error_code ignored;
    if (!complete && std::filesystem::exists(model->config.path, ignored)) continue;
    spdlog::info("model '{}': no longer described, unloading", model->name);
    Unload(model, absl::UnavailableError(absl::StrFormat("model '%s' was unloaded", model->name)));
    parts_.registry.Remove(*model);
  }
  Redivide();
}

void ModelLifecycle::LoadChanged(const ModelConfig& next) {
  std::shared_ptr<ServedModel> model;
  for (const std::shared_ptr<ServedModel>& known : parts_.registry.all()) {
    if (known->name == next.name) model = known;
  }
  const bool loaded = model != nullptr && model->loaded != nullptr;
  if (loaded && SameDescription(model->config, next) &&
      model->loaded->stamp == FileStamp(next.path)) {
    return;
  }
  if (next.load == ModelConfig::Load::kExplicit) {
    if (loaded) Unload(model, absl::UnavailableError(kExplicit));
    parts_.registry.Describe(next, ModelState::kUnavailable, kExplicit);
    return;
  }
  // The old one answers until the new one is ready.
  if (!loaded) model = parts_.registry.Describe(next, ModelState::kLoading, "loading");
  LoadOrFail(model, next);
}

void ModelLifecycle::LoadOrFail(const std::shared_ptr<ServedModel>& model,
                                const ModelConfig& config) {
  const Instant begin = SteadyClock().Now();
  spdlog::info("model '{}': loading {}", config.name, config.path.string());
  absl::Status loaded = Load(model, config);
  if (absl::IsDataLoss(loaded) && !stopping_) {
    spdlog::warn("model '{}': {}; trying once more", config.name, std::string(loaded.message()));
    loaded = Load(model, config);
  }
  const Duration took = SteadyClock().Now() - begin;
  model->statistics->load_duration.Observe(took);
  if (loaded.ok()) {
    ++model->statistics->loads_ok;
    const ModelStatus& status = model->status;
    spdlog::info("model '{}': ready after {:.2f} s; weights {}, in memory {}, activations {}",
                 config.name, Seconds(took), FormatBytes(status.weights),
                 FormatBytes(status.resident), FormatBytes(status.activations));
    return;
  }
  ++model->statistics->loads_failed;
  ReturnFreedMemory();
  if (model->loaded != nullptr) {
    spdlog::error("model '{}': not loaded anew, the old one stays: {}", config.name, Text(loaded));
    parts_.registry.SetState(*model, ModelState::kReady, "");
    return;
  }
  spdlog::error("model '{}': not loaded: {} ({})", config.name, Text(loaded), config.where);
  parts_.registry.SetState(*model, ModelState::kUnavailable, Text(loaded));
  Redivide();
}

absl::Status ModelLifecycle::Load(const std::shared_ptr<ServedModel>& model,
                                  const ModelConfig& config) {
  const LoadContext context{
      .team = parts_.team,
      .backend = parts_.backend,
      .ledger = parts_.ledger,
      .cache_dir = config_.cache_dir,
      .make_room =
          [this](Bytes bytes) { return parts_.memory.Divide(parts_.registry.all(), bytes); },
      .keep_going = [this] { return KeepGoing(); },
  };
  SLUICE_ASSIGN_OR_RETURN(std::unique_ptr<LoadedModel> loaded, LoadModel(config, context));
  SLUICE_RETURN_IF_ERROR(KeepGoing());
  return Install(model, config, std::move(loaded));
}

absl::Status ModelLifecycle::Install(const std::shared_ptr<ServedModel>& model,
                                     const ModelConfig& config,
                                     std::unique_ptr<LoadedModel> loaded) {
  ReturnFreedMemory();
  CorrectBase();
  SLUICE_RETURN_IF_ERROR(parts_.memory.CheckFits(parts_.registry.all(), *model, config, *loaded));
  // From here on the old one is gone: never two copies of the weights.
  std::filesystem::path old_package;
  if (model->loaded != nullptr) old_package = model->loaded->streamed->package().path();
  parts_.registry.Describe(config, ModelState::kLoading, "loading");
  parts_.team.Run([&] { model->loaded = std::move(loaded); });
  installing_ = model.get();
  absl::Status installed = BringToSpeed(model);
  installing_ = nullptr;
  if (!installed.ok()) {
    const std::filesystem::path package = model->loaded->streamed->package().path();
    Unload(model, absl::UnavailableError(Text(installed)));
    std::error_code ignored;
    if (absl::IsDataLoss(installed)) std::filesystem::remove(package, ignored);
    return installed;
  }
  if (!old_package.empty() && old_package != model->loaded->streamed->package().path()) {
    std::error_code ignored;
    std::filesystem::remove(old_package, ignored);
  }
  parts_.registry.SetReady(*model);
  for (const std::shared_ptr<ServedModel>& other : parts_.registry.all()) {
    parts_.registry.UpdateNumbers(*other);
  }
  return absl::OkStatus();
}

// A first share of memory, then measured times, then the share that follows from them.
absl::Status ModelLifecycle::BringToSpeed(const std::shared_ptr<ServedModel>& model) {
  SLUICE_RETURN_IF_ERROR(parts_.memory.Divide(parts_.registry.all(), Bytes()));
  SLUICE_RETURN_IF_ERROR(model->loaded->damage);
  SLUICE_RETURN_IF_ERROR(parts_.memory.Measure(*model));
  CorrectBase();
  SLUICE_RETURN_IF_ERROR(parts_.memory.Divide(parts_.registry.all(), Bytes()));
  return model->loaded->damage;
}

// What the process grew by and no line explains (library pages that were touched, the allocator's
// own) belongs to the base, so that weights give way to it.
bool ModelLifecycle::CorrectBase() {
  ProcessMemory process = ReadProcessMemory();
  const Bytes reserved = parts_.ledger.reserved();
  if (process.resident + process.swapped <= reserved) return false;
  // What a burst of requests left in the allocator is not needed: a raised base never falls.
  ReturnFreedMemory();
  process = ReadProcessMemory();
  const Bytes actual = process.resident + process.swapped;
  if (actual <= reserved) return false;
  const Bytes more = AlignUp(actual - reserved, kCorrectionStep);
  absl::Status raised = parts_.base.Resize(parts_.base.bytes() + more);
  if (!raised.ok() && parts_.memory.Divide(parts_.registry.all(), more).ok()) {
    raised = parts_.base.Resize(parts_.base.bytes() + more);
  }
  if (!raised.ok()) {
    if (!std::exchange(warned_, true)) {
      spdlog::warn(
          "the process holds {}, more than the {} that are reserved, and models cannot "
          "give way: raise memory.budget ({})",
          FormatBytes(actual), FormatBytes(reserved), FormatBytes(parts_.ledger.budget()));
    }
    return false;
  }
  spdlog::debug("base raised by {} to {}", FormatBytes(more), FormatBytes(parts_.base.bytes()));
  return true;
}

void ModelLifecycle::Unload(const std::shared_ptr<ServedModel>& model, const absl::Status& reason) {
  parts_.registry.SetState(*model, ModelState::kUnavailable, std::string(reason.message()));
  parts_.dispatcher.Clear(*model, reason);
  parts_.memory.Unload(*model);
  ReturnFreedMemory();
}

void ModelLifecycle::Redivide() {
  const absl::Status divided = parts_.memory.Divide(parts_.registry.all(), Bytes());
  if (!divided.ok()) spdlog::error("{}", std::string(divided.message()));
  for (const std::shared_ptr<ServedModel>& model : parts_.registry.all()) {
    parts_.registry.UpdateNumbers(*model);
  }
}

void ModelLifecycle::Repair(const std::shared_ptr<ServedModel>& model, const absl::Status& damage) {
  if (installing_ == model.get()) return;
  const std::string reason = absl::StrFormat(
      "its weights cannot be read and are being packed again (%s)", damage.message());
  parts_.registry.SetState(*model, ModelState::kUnavailable, reason);
  parts_.dispatcher.Clear(*model, absl::UnavailableError(absl::StrFormat(
                                      "model '%s' is not ready: %s", model->name, reason)));
  Post([this, model] { RepairNow(model); });
}

void ModelLifecycle::RepairNow(const std::shared_ptr<ServedModel>& model) {
  if (model->loaded == nullptr) return;  // Two calls met the same damage.
  spdlog::error("model '{}': {}", model->name, "package damaged, building it again");
  const std::filesystem::path package = model->loaded->streamed->package().path();
  parts_.memory.Unload(*model);
  std::error_code ignored;
  std::filesystem::remove(package, ignored);
  LoadOrFail(model, model->config);
}

}  // namespace sluice
