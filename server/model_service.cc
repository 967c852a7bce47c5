#include "server/model_service.h"

#include <spdlog/spdlog.h>

#include <atomic>
#include <chrono>
#include <utility>

#include "absl/strings/str_format.h"
#include "base/mutex.h"
#include "base/status_macros.h"
#include "engine/backend.h"
#include "engine/compute_team.h"
#include "server/base_memory.h"
#include "server/compute_parts.h"
#include "server/compute_threads.h"
#include "server/control_groups.h"
#include "server/dispatcher.h"
#include "server/model_lifecycle.h"
#include "server/model_memory.h"
#include "server/model_registry.h"
#include "server/open_cache.h"
#include "server/process_memory.h"
#include "streamer/package_cache.h"

namespace sluice {
namespace {

BudgetCeiling BudgetOf(const Config& config) {
  return ResolveBudget({.configured = config.budget,
                        .percent = config.budget_percent,
                        .cgroup_limit = MemoryLimit(OwnControlGroups("memory")),
                        .machine = ReadMachineMemory(),
                        .own = ReadProcessMemory().resident});
}

double WallSeconds() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

}  // namespace

std::string_view Name(ModelState state) {
  switch (state) {
    case ModelState::kLoading:
      return "LOADING";
    case ModelState::kReady:
      return "READY";
    case ModelState::kUnavailable:
      return "UNAVAILABLE";
  }
  return "UNAVAILABLE";
}

class ModelService::Impl {
 public:
  Impl(const Config& config, BudgetCeiling ceiling, ComputeParts parts,
       std::unique_ptr<PackageCache> cache)
      : ceiling_(std::move(ceiling)),
        max_in_flight_(config.max_in_flight),
        begin_(SteadyClock().Now()),
        ledger_(ceiling_.bytes),
        team_(std::move(parts.team)),
        backend_(std::move(parts.backend)),
        executor_(std::move(parts.executor)),
        cache_(std::move(cache)) {}

  ~Impl() {
    // Nothing new is loaded; what runs is cancelled; then memory goes.
    if (lifecycle_ != nullptr) lifecycle_->Stop();
    dispatcher_.reset();
    for (const std::shared_ptr<ServedModel>& model : registry_.all()) {
      team_->Run([&] { model->loaded.reset(); });
    }
  }

  // Fails: FAILED_PRECONDITION, the budget is below the base.
  absl::Status ReserveBase(const Config& config) {
    const Bytes messages = ReceiveLimitsOf(config, ledger_.budget()).memory();
    if (!base_.Reserve().ok()) return BelowBase(base_.least());
    // The wire may hold this much before requests are admitted (message_gate.h).
    absl::StatusOr<Reservation> receive = ledger_.Reserve("receive", "", messages);
    if (!receive.ok()) {
      return absl::FailedPreconditionError(absl::StrFormat(
          "memory.budget: got %s (%s), want at least %s: what an empty daemon takes, and %s for "
          "messages that are received (limits.max_request, limits.max_in_flight)",
          FormatBytes(ledger_.budget()), ceiling_.source, FormatBytes(base_.least() + messages),
          FormatBytes(messages)));
    }
    receive_ = *std::move(receive);
    spdlog::info("budget {}, set by {} ({}); reading through {}", FormatBytes(ledger_.budget()),
                 ceiling_.source, ceiling_.explanation, executor_->device_name());
    return absl::OkStatus();
  }

  // Fails: FAILED_PRECONDITION, the empty daemon is larger than was reserved for it.
  absl::Status LoadAtStart() {
    if (!base_.Measure().ok()) return BelowBase(base_.least());
    lifecycle_->Begin();
    return absl::OkStatus();
  }

  void MakeParts(const Config& config) {
    const auto on_damage = [this](const std::shared_ptr<ServedModel>& model,
                                  const absl::Status& damage) {
      if (lifecycle_ != nullptr) lifecycle_->Repair(model, damage);
    };
    memory_ = std::make_unique<ModelMemory>(*team_, *executor_, ledger_, on_damage);
    dispatcher_ =
        std::make_unique<Dispatcher>(*team_, *executor_,
                                     Dispatcher::Options{.max_queue = config.max_queue,
                                                         .max_in_flight = config.max_in_flight,
                                                         .on_damage = on_damage});
    lifecycle_ = std::make_unique<ModelLifecycle>(ModelLifecycle::Parts{.team = *team_,
                                                                        .backend = *backend_,
                                                                        .ledger = ledger_,
                                                                        .base = base_,
                                                                        .registry = registry_,
                                                                        .memory = *memory_,
                                                                        .dispatcher = *dispatcher_,
                                                                        .cache = *cache_},
                                                  config);
  }

  void Infer(InferenceCall call) {
    if (call.arrival == Instant()) call.arrival = SteadyClock().Now();
    absl::StatusOr<ModelRegistry::Found> found = registry_.Find(call.model, call.version);
    if (!found.ok()) return call.done(std::move(found).status());
    QueuedCall queued;
    queued.model = std::move(found->model);
    Bytes size;
    for (const auto& input : call.inputs) size += Bytes::Of(input.size());
    queued.model->statistics->request_size.Observe(size);
    queued.priority = call.priority > 0 ? call.priority : found->priority;
    if (!call.deadline && found->deadline) call.deadline = call.arrival + *found->deadline;
    const std::string name = call.model;
    queued.call = std::move(call);
    if (draining_) {
      return Dispatcher::Refuse(std::move(queued),
                                absl::UnavailableError("the server is shutting down"),
                                RejectReason::kShutdown);
    }
    if (found->state != ModelState::kReady) {
      return Dispatcher::Refuse(std::move(queued),
                                absl::UnavailableError(absl::StrFormat(
                                    "model '%s' is not ready: %s", name, found->reason)),
                                std::nullopt);
    }
    dispatcher_->Submit(std::move(queued));
  }

  absl::StatusOr<Reservation> AdmitRequest(Bytes bytes, std::string_view model) {
    absl::StatusOr<Reservation> admitted =
        draining_ ? absl::UnavailableError("the server is shutting down")
                  : ledger_.Reserve("requests", "", bytes, max_in_flight_);
    if (admitted.ok() || model.empty()) return admitted;
    if (const absl::StatusOr<ModelRegistry::Found> found = registry_.Find(model, ""); found.ok()) {
      const RejectReason reason = draining_ ? RejectReason::kShutdown
                                  : absl::IsResourceExhausted(admitted.status())
                                      ? RejectReason::kBudget
                                      : RejectReason::kQueue;
      ++found->model->statistics->rejected[static_cast<std::size_t>(reason)];
    }
    return admitted;
  }

  Bytes requests_room() const { return ledger_.limit("requests"); }

  MemoryReport Report() const {
    const ProcessMemory process = ReadProcessMemory();
    std::vector<MemoryLedger::Line> lines = base_.UsedLines(process);
    const std::int64_t unaccounted = Unaccounted(process, lines);
    return {.budget = ledger_.budget(),
            .budget_source = ceiling_.source,
            .reserved = ledger_.reserved(),
            .lines = std::move(lines),
            .resident = process.resident,
            .peak_resident = process.peak_resident,
            .swapped = process.swapped,
            .unaccounted = unaccounted,
            .device = std::string(executor_->device_name()),
            .uptime = SteadyClock().Now() - begin_};
  }

  void CountReload(bool succeeded) {
    MutexLock lock(mutex_);
    ++(succeeded ? reloads_.succeeded : reloads_.failed);
    reloads_.last_succeeded = succeeded;
    if (succeeded) reloads_.last_success_seconds = WallSeconds();
  }
  ReloadReport reloads() const {
    MutexLock lock(mutex_);
    return reloads_;
  }
  const StorageStatistics& storage() const { return executor_->storage(); }

  std::uint64_t Progress() {
    const std::uint64_t turns = turns_;
    // One turn at a time: a team that hangs is not sent more.
    if (!turn_posted_.exchange(true)) {
      team_->Post([this] {
        ++turns_;
        turn_posted_ = false;
      });
    }
    return turns + dispatcher_->steps() + lifecycle_->progress();
  }

  void Shutdown(Instant until) {
    draining_ = true;
    dispatcher_->Drain(until);
    lifecycle_->Stop();
  }

  ModelRegistry registry_;
  std::unique_ptr<ModelLifecycle> lifecycle_;

 private:
  absl::Status BelowBase(Bytes least) const {
    return absl::FailedPreconditionError(
        absl::StrFormat("memory.budget: got %s (%s), want at least %s: what an empty daemon takes",
                        FormatBytes(ledger_.budget()), ceiling_.source, FormatBytes(least)));
  }

  const BudgetCeiling ceiling_;
  const std::size_t max_in_flight_;
  const Instant begin_;
  MemoryLedger ledger_;
  BaseMemory base_{ledger_};
  Reservation receive_;
  std::unique_ptr<ComputeTeam> team_;
  std::unique_ptr<Backend> backend_;
  std::unique_ptr<Executor> executor_;
  const std::unique_ptr<PackageCache> cache_;
  std::unique_ptr<ModelMemory> memory_;
  std::unique_ptr<Dispatcher> dispatcher_;
  mutable Mutex mutex_;
  ReloadReport reloads_ ABSL_GUARDED_BY(mutex_){.last_success_seconds = WallSeconds()};
  std::atomic<bool> draining_{false};
  std::atomic<bool> turn_posted_{false};
  std::atomic<std::uint64_t> turns_{0};
};

ModelService::ModelService(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
ModelService::~ModelService() = default;

absl::StatusOr<std::unique_ptr<ModelService>> ModelService::Open(const Config& config) {
  SLUICE_ASSIGN_OR_RETURN(std::unique_ptr<PackageCache> cache, OpenCache(config));
  BudgetCeiling ceiling = BudgetOf(config);
  const ThreadChoice choice = ComputeThreads(config);
  spdlog::info("compute threads {}, set by {} ({})", choice.threads, choice.source,
               choice.explanation);
  SLUICE_ASSIGN_OR_RETURN(ComputeParts parts, StartComputeParts(config));
  auto impl =
      std::make_unique<Impl>(config, std::move(ceiling), std::move(parts), std::move(cache));
  SLUICE_RETURN_IF_ERROR(impl->ReserveBase(config));
  impl->MakeParts(config);
  return std::unique_ptr<ModelService>(new ModelService(std::move(impl)));
}

absl::Status ModelService::LoadAtStart() { return impl_->LoadAtStart(); }

absl::StatusOr<std::unique_ptr<ModelService>> ModelService::Start(const Config& config) {
  SLUICE_ASSIGN_OR_RETURN(std::unique_ptr<ModelService> service, Open(config));
  SLUICE_RETURN_IF_ERROR(service->LoadAtStart());
  return service;
}

bool ModelService::ready() const { return impl_->lifecycle_->ready(); }

std::vector<ModelStatus> ModelService::models() const { return impl_->registry_.statuses(); }

absl::StatusOr<ModelStatus> ModelService::Find(std::string_view name,
                                               std::string_view version) const {
  return impl_->registry_.Status(name, version);
}

MemoryReport ModelService::memory() const { return impl_->Report(); }

absl::StatusOr<Reservation> ModelService::AdmitRequest(Bytes bytes, std::string_view model) {
  return impl_->AdmitRequest(bytes, model);
}

Bytes ModelService::requests_room() const { return impl_->requests_room(); }

void ModelService::Infer(InferenceCall call) { impl_->Infer(std::move(call)); }

void ModelService::Reload(const Config& config) { impl_->lifecycle_->Reload(config); }

void ModelService::CountReload(bool succeeded) { impl_->CountReload(succeeded); }
ReloadReport ModelService::reloads() const { return impl_->reloads(); }
const StorageStatistics& ModelService::storage() const { return impl_->storage(); }

void ModelService::Load(std::string model, Answered answered) {
  impl_->lifecycle_->LoadByName(std::move(model), std::move(answered));
}

void ModelService::Unload(std::string model, Answered answered) {
  impl_->lifecycle_->UnloadByName(std::move(model), std::move(answered));
}

bool ModelService::loading() const { return !impl_->lifecycle_->idle(); }

std::uint64_t ModelService::Progress() { return impl_->Progress(); }

void ModelService::OnChange(std::function<void()> listener) {
  impl_->registry_.OnChange(std::move(listener));
}

void ModelService::Shutdown(Instant until) { impl_->Shutdown(until); }

}  // namespace sluice
