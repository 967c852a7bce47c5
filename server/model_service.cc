#include "server/model_service.h"

#include <spdlog/spdlog.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <system_error>
#include <utility>

#include "absl/strings/str_format.h"
#include "base/status_macros.h"
#include "engine/backend.h"
#include "engine/compute_team.h"
#include "server/dispatcher.h"
#include "server/model_lifecycle.h"
#include "server/model_memory.h"
#include "server/model_registry.h"
#include "server/process_environment.h"
#include "server/process_memory.h"
#include "server/warm_up.h"
#include "streamer/executor.h"
#include "streamer/package.h"

namespace sluice {
namespace {

// What the process grows by after the base is measured, and no reservation covers: gRPC's and the
// metrics page's threads and buffers (6 MiB once they listen, 4 more with eight clients at once),
// stacks that deepen, library code touched for the first time.
constexpr Bytes kHeadroom = 10_MiB;

absl::Status PrepareCache(const std::filesystem::path& cache_dir) {
  std::error_code error;
  std::filesystem::create_directories(cache_dir, error);
  if (error || access(cache_dir.c_str(), W_OK | X_OK) != 0) {
    return absl::UnavailableError(
        absl::StrFormat("cache_dir: got %s (%s), want a folder that can be written",
                        cache_dir.string(), error ? error.message() : std::strerror(errno)));
  }
  RemoveStaleBuilds(cache_dir);
  return absl::OkStatus();
}

BudgetCeiling BudgetOf(const Config& config) {
  return ResolveBudget({.configured = config.budget,
                        .percent = config.budget_percent,
                        .cgroup_limit = ReadCgroupLimit(),
                        .machine = ReadMachineMemory(),
                        .own = ReadProcessMemory().resident});
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
  Impl(const Config& config, BudgetCeiling ceiling, std::unique_ptr<ComputeTeam> team,
       std::unique_ptr<Backend> backend, std::unique_ptr<Executor> executor)
      : ceiling_(std::move(ceiling)),
        max_in_flight_(config.max_in_flight),
        begin_(SteadyClock().Now()),
        ledger_(ceiling_.bytes),
        team_(std::move(team)),
        backend_(std::move(backend)),
        executor_(std::move(executor)) {}

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
    const Bytes largest_message = LargestMessage(config, ledger_.budget());
    const ProcessMemory process = ReadProcessMemory();
    const Bytes base = process.resident + process.swapped + kHeadroom;
    absl::StatusOr<Reservation> reserved = ledger_.Reserve("base", "", base);
    if (!reserved.ok()) {
      return absl::FailedPreconditionError(absl::StrFormat(
          "memory.budget: got %s (%s), want at least %s: what an empty daemon takes",
          FormatBytes(ledger_.budget()), ceiling_.source, FormatBytes(base)));
    }
    base_ = *std::move(reserved);
    // gRPC's quota (grpc_server.cc) lets it hold this much before a request is admitted.
    absl::StatusOr<Reservation> receive = ledger_.Reserve("receive", "", largest_message);
    if (!receive.ok()) {
      return absl::FailedPreconditionError(absl::StrFormat(
          "memory.budget: got %s (%s), want at least %s: what an empty daemon takes, and %s for "
          "the largest message (limits.max_request)",
          FormatBytes(ledger_.budget()), ceiling_.source, FormatBytes(base + largest_message),
          FormatBytes(largest_message)));
    }
    receive_ = *std::move(receive);
    spdlog::info("budget {}, set by {} ({}); base {}; reading through {}",
                 FormatBytes(ledger_.budget()), ceiling_.source, ceiling_.explanation,
                 FormatBytes(base), executor_->device_name());
    return absl::OkStatus();
  }

  void Begin(const Config& config) {
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
                                                                        .dispatcher = *dispatcher_},
                                                  config);
  }

  void Infer(InferenceCall call) {
    if (call.arrival == Instant()) call.arrival = SteadyClock().Now();
    absl::StatusOr<ModelRegistry::Found> found = registry_.Find(call.model, call.version);
    if (!found.ok()) return call.done(std::move(found).status());
    QueuedCall queued;
    queued.model = std::move(found->model);
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

  MemoryReport Report() const {
    const ProcessMemory process = ReadProcessMemory();
    return {.budget = ledger_.budget(),
            .budget_source = ceiling_.source,
            .reserved = ledger_.reserved(),
            .lines = ledger_.lines(),
            .resident = process.resident,
            .peak_resident = process.peak_resident,
            .swapped = process.swapped,
            .device = std::string(executor_->device_name()),
            .uptime = SteadyClock().Now() - begin_};
  }

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
  const BudgetCeiling ceiling_;
  const std::size_t max_in_flight_;
  const Instant begin_;
  MemoryLedger ledger_;
  Reservation base_, receive_;
  std::unique_ptr<ComputeTeam> team_;
  std::unique_ptr<Backend> backend_;
  std::unique_ptr<Executor> executor_;
  std::unique_ptr<ModelMemory> memory_;
  std::unique_ptr<Dispatcher> dispatcher_;
  std::atomic<bool> draining_{false};
  std::atomic<bool> turn_posted_{false};
  std::atomic<std::uint64_t> turns_{0};
};

ModelService::ModelService(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
ModelService::~ModelService() = default;

absl::StatusOr<std::unique_ptr<ModelService>> ModelService::Start(const Config& config) {
  TuneAllocator();
  SLUICE_RETURN_IF_ERROR(PrepareCache(config.cache_dir));
  BudgetCeiling ceiling = BudgetOf(config);
  const int threads = ComputeThreads(config);
  auto team = std::make_unique<ComputeTeam>(threads);
  std::unique_ptr<Backend> backend = CpuBackend(threads);
  SLUICE_RETURN_IF_ERROR(WarmUp(*backend, *team));
  SLUICE_ASSIGN_OR_RETURN(std::unique_ptr<Executor> executor,
                          Executor::Open({.io_uring = config.io_uring}));
  ReturnFreedMemory();
  auto impl = std::make_unique<Impl>(config, std::move(ceiling), std::move(team),
                                     std::move(backend), std::move(executor));
  SLUICE_RETURN_IF_ERROR(impl->ReserveBase(config));
  impl->Begin(config);
  return std::unique_ptr<ModelService>(new ModelService(std::move(impl)));
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

void ModelService::Infer(InferenceCall call) { impl_->Infer(std::move(call)); }

void ModelService::Reload(const Config& config) { impl_->lifecycle_->Reload(config); }

bool ModelService::loading() const { return !impl_->lifecycle_->idle(); }

std::uint64_t ModelService::Progress() { return impl_->Progress(); }

void ModelService::OnChange(std::function<void()> listener) {
  impl_->registry_.OnChange(std::move(listener));
}

void ModelService::Shutdown(Instant until) { impl_->Shutdown(until); }

}  // namespace sluice
