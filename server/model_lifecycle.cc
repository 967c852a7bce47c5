#include "server/model_lifecycle.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <filesystem>
#include <utility>

#include "absl/strings/str_format.h"
#include "base/status_macros.h"
#include "base/thread_name.h"
#include "server/self_test_record.h"
#include "server/warm_up.h"

namespace sluice {
namespace {

// How often the process is compared with the ledger.
constexpr Duration kCorrectionInterval = std::chrono::seconds(1);

constexpr const char* kExplicit = "not loaded: its description says `load: explicit`";

absl::Status ShuttingDown() { return absl::UnavailableError("the server is shutting down"); }

std::string Text(const absl::Status& status) {
  return absl::StrFormat("%s: %s", absl::StatusCodeToString(status.code()), status.message());
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
}

void ModelLifecycle::Begin() {
  Post({.run = [this] { LoadAtStart(); }});
  thread_ = std::thread([this] { Work(); });
}

ModelLifecycle::~ModelLifecycle() { Stop(); }

void ModelLifecycle::Stop() {
  std::deque<Task> left;
  {
    MutexLock lock(mutex_);
    stopping_ = true;
    left.swap(tasks_);
  }
  wake_.NotifyAll();
  for (const Task& task : left) {
    if (task.refuse) task.refuse(ShuttingDown());
  }
  if (thread_.joinable()) thread_.join();
}

bool ModelLifecycle::idle() const {
  MutexLock lock(mutex_);
  return !working_ && tasks_.empty();
}

void ModelLifecycle::Post(Task task) {
  {
    MutexLock lock(mutex_);
    if (!stopping_) {
      tasks_.push_back(std::move(task));
      task.run = nullptr;
    }
  }
  if (task.run != nullptr && task.refuse) task.refuse(ShuttingDown());
  wake_.NotifyOne();
}

void ModelLifecycle::Work() {
  NameThread("loader");
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
    if (task.run == nullptr) {
      if (CorrectHeadroom()) Redivide();
      continue;
    }
    task.run();
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
  return stopping_ ? ShuttingDown() : absl::OkStatus();
}

void ModelLifecycle::LoadAtStart() {
  for (const std::shared_ptr<ServedModel>& model : std::exchange(at_start_, {})) {
    if (stopping_) return;
    (void)LoadOrFail(model, model->config);
  }
  CleanCache();
  ready_.store(true, std::memory_order_release);
  spdlog::info("ready: {} reserved of {}", FormatBytes(parts_.ledger.reserved()),
               FormatBytes(parts_.ledger.budget()));
}

absl::Status ModelLifecycle::LoadOrFail(const std::shared_ptr<ServedModel>& model,
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
    if (status.stored < status.weights) {
      spdlog::info("model '{}': weights take {} on the disk (weights: {}); {}", config.name,
                   FormatBytes(status.stored), Name(config.weights),
                   ErrorText(status.weight_error));
    }
    return loaded;
  }
  ++model->statistics->loads_failed;
  ReturnFreedMemory();
  if (model->loaded != nullptr) {
    spdlog::error("model '{}': not loaded anew, the old one stays: {}", config.name, Text(loaded));
    parts_.registry.SetState(*model, ModelState::kReady, "");
    return loaded;
  }
  spdlog::error("model '{}': not loaded: {} ({})", config.name, Text(loaded), config.where);
  parts_.registry.SetState(*model, ModelState::kUnavailable, Text(loaded));
  Redivide();
  return loaded;
}

absl::Status ModelLifecycle::Load(const std::shared_ptr<ServedModel>& model,
                                  const ModelConfig& config) {
  const LoadContext context{
      .team = parts_.team,
      .backend = parts_.backend,
      .ledger = parts_.ledger,
      .cache = parts_.cache,
      .make_room =
          [this](Bytes bytes) { return parts_.memory.Divide(parts_.registry.all(), bytes); },
      .keep_going = [this] { return KeepGoing(); },
  };
  unaccounted_ = parts_.base.MeasureUnaccounted();
  SLUICE_ASSIGN_OR_RETURN(std::unique_ptr<LoadedModel> loaded, LoadModel(config, context));
  SLUICE_RETURN_IF_ERROR(KeepGoing());
  return Install(model, config, std::move(loaded));
}

absl::Status ModelLifecycle::Install(const std::shared_ptr<ServedModel>& model,
                                     const ModelConfig& config,
                                     std::unique_ptr<LoadedModel> loaded) {
  CorrectHeadroom();
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
    if (absl::IsDataLoss(installed)) parts_.cache.Condemn(package);
    return installed;
  }
  if (!old_package.empty() && old_package != model->loaded->streamed->package().path()) {
    parts_.cache.Discard(old_package);
  }
  parts_.registry.SetReady(*model);
  for (const std::shared_ptr<ServedModel>& other : parts_.registry.all()) {
    parts_.registry.UpdateNumbers(*other);
  }
  return absl::OkStatus();
}

// After everything that is wanted has been opened, and so is in use.
void ModelLifecycle::CleanCache() {
  const Bytes freed = parts_.cache.RemoveStale(SourcesAreUnchanged, {});
  if (freed > Bytes()) {
    spdlog::info("cache_dir: {} freed: packages whose model is gone or has changed",
                 FormatBytes(freed));
  }
}

// A first share of memory, then measured times, then the share that follows from them.
absl::Status ModelLifecycle::BringToSpeed(const std::shared_ptr<ServedModel>& model) {
  SLUICE_RETURN_IF_ERROR(parts_.memory.Divide(parts_.registry.all(), Bytes()));
  SLUICE_RETURN_IF_ERROR(model->loaded->damage);
  SLUICE_RETURN_IF_ERROR(parts_.memory.Measure(*model));
  SLUICE_RETURN_IF_ERROR(CheckSelfTest(model->loaded->streamed->package().path(),
                                       model->loaded->answer, ThisComputingCode()));
  BookMetadata(*model->loaded);
  CorrectHeadroom();
  SLUICE_RETURN_IF_ERROR(parts_.memory.Divide(parts_.registry.all(), Bytes()));
  return model->loaded->damage;
}

bool ModelLifecycle::CorrectHeadroom() {
  const absl::StatusOr<bool> changed = parts_.base.Correct(
      [this](Bytes bytes) { return parts_.memory.Divide(parts_.registry.all(), bytes); });
  if (!changed.ok() && !std::exchange(warned_, true)) {
    spdlog::warn("{}", std::string(changed.status().message()));
  }
  return changed.ok() && *changed;
}

// What the load left in memory beside kernels, weights and arena: records, names, what the kernels
// took when they ran for the first time. Kept as estimated where it cannot be told apart.
void ModelLifecycle::BookMetadata(LoadedModel& loaded) {
  if (!unaccounted_) return;
  const std::optional<std::int64_t> after = parts_.base.MeasureUnaccounted();
  if (!after) return;
  const std::int64_t grown =
      static_cast<std::int64_t>(loaded.metadata.bytes().count()) + *after - *unaccounted_;
  const Bytes bytes = Bytes::Of(static_cast<std::uint64_t>(std::max<std::int64_t>(grown, 0)));
  if (loaded.metadata.Resize(bytes).ok()) return;
  const Bytes more = bytes - loaded.metadata.bytes();
  if (parts_.memory.Divide(parts_.registry.all(), more).ok()) (void)loaded.metadata.Resize(bytes);
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
  Post({.run = [this, model] { RepairNow(model); }});
}

void ModelLifecycle::RepairNow(const std::shared_ptr<ServedModel>& model) {
  if (model->loaded == nullptr) return;  // Two calls met the same damage.
  spdlog::error("model '{}': {}", model->name, "package damaged, building it again");
  const std::filesystem::path package = model->loaded->streamed->package().path();
  parts_.memory.Unload(*model);
  parts_.cache.Condemn(package);
  (void)LoadOrFail(model, model->config);
}

}  // namespace sluice
