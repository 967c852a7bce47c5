#include "server/dispatcher.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_format.h"
#include "base/thread_name.h"

namespace sluice {
namespace {

// How often waiting calls are asked whether their caller has left.
constexpr Duration kSweepInterval = std::chrono::milliseconds(20);

void Add(std::atomic<std::uint64_t>& counter, std::uint64_t amount) {
  counter.fetch_add(amount, std::memory_order_relaxed);
}

// Counts the answer, then gives it.
void Answer(QueuedCall queued, absl::Status status) {
  ModelStatistics& statistics = *queued.model->statistics;
  const auto code = static_cast<std::size_t>(status.code());
  Add(statistics.requests[std::min(code, kStatusCodes - 1)], 1);
  statistics.request_duration.Observe(SteadyClock().Now() - queued.call.arrival);
  if (queued.call.done) queued.call.done(std::move(status));
}

void Reject(ModelStatistics& statistics, RejectReason reason) {
  Add(statistics.rejected[static_cast<std::size_t>(reason)], 1);
}

template <typename Span>
absl::Status CheckSizes(std::string_view what, const std::vector<Span>& given,
                        const std::vector<Bytes>& wanted, bool may_be_empty) {
  if (given.size() != wanted.size()) {
    return absl::InvalidArgumentError(
        absl::StrFormat("got %d %ss, want %d", given.size(), what, wanted.size()));
  }
  for (std::size_t i = 0; i < given.size(); ++i) {
    if (may_be_empty && given[i].empty()) continue;
    if (given[i].size() == wanted[i].count()) continue;
    return absl::InvalidArgumentError(absl::StrFormat("%s %d: got %d bytes, want %d", what, i,
                                                      given[i].size(), wanted[i].count()));
  }
  return absl::OkStatus();
}

}  // namespace

Dispatcher::Dispatcher(ComputeTeam& team, Executor& executor, Options options)
    : team_(team),
      executor_(executor),
      options_(std::move(options)),
      gate_([this](StepIndex) { return Gate(); }),
      queue_(options_.max_queue, options_.max_in_flight),
      sweeper_([this] { Sweep(); }) {}

Dispatcher::~Dispatcher() {
  Drain(Instant::min());
  {
    MutexLock lock(mutex_);
    stopping_ = true;
  }
  changed_.NotifyAll();
  sweeper_.join();
}

void Dispatcher::Submit(QueuedCall queued) {
  ModelStatistics& statistics = *queued.model->statistics;
  absl::Status refused;
  RejectReason reason = RejectReason::kQueue;
  {
    MutexLock lock(mutex_);
    if (draining_) {
      refused = absl::UnavailableError("the server is shutting down");
      reason = RejectReason::kShutdown;
    } else {
      refused = queue_.TryPush(queued);
    }
    if (refused.ok()) {
      statistics.queued.fetch_add(1, std::memory_order_relaxed);
      ++in_flight_;
      StartNext();
      if (queue_.empty()) return;
    }
  }
  if (!refused.ok()) return Refuse(std::move(queued), std::move(refused), reason);
  changed_.NotifyAll();  // The sweeper watches the call from here on.
}

void Dispatcher::Refuse(QueuedCall queued, absl::Status status,
                        std::optional<RejectReason> reason) {
  if (reason) Reject(*queued.model->statistics, *reason);
  Answer(std::move(queued), std::move(status));
}

void Dispatcher::Clear(const ServedModel& model, const absl::Status& status) {
  std::vector<DeadCall> dead;
  {
    MutexLock lock(mutex_);
    queue_.TakeAll(&model, status, dead);
  }
  FinishDead(std::move(dead));
}

void Dispatcher::Finish(const ServedModel& model, Instant until,
                        const std::function<bool()>& keep_waiting) {
  MutexLock lock(mutex_);
  while (running_ == &model || queue_.waiting(model) > 0) {
    const Instant now = SteadyClock().Now();
    if (now >= until || !keep_waiting()) return;
    changed_.WaitUntil(mutex_, std::min(until, now + kSweepInterval));
  }
}

void Dispatcher::Drain(Instant until) {
  std::vector<DeadCall> dead;
  {
    MutexLock lock(mutex_);
    draining_ = true;
    while (in_flight_ > 0 && until > SteadyClock().Now()) changed_.WaitUntil(mutex_, until);
    if (in_flight_ == 0) return;
    cancel_all_ = true;
    queue_.TakeAll(nullptr, absl::UnavailableError("the server is shutting down"), dead);
    for (const DeadCall& call : dead) {
      Reject(*call.queued.model->statistics, RejectReason::kShutdown);
    }
  }
  FinishDead(std::move(dead));
  MutexLock lock(mutex_);
  while (in_flight_ > 0) changed_.Wait(mutex_);
}

void Dispatcher::StartNext() {
  if (busy_) return;
  current_ = queue_.Pop();
  if (!current_) return;
  busy_ = true;
  running_ = current_->model.get();
  team_.Post([this] { RunCurrent(); });
}

void Dispatcher::RunCurrent() {
  ModelStatistics& statistics = *current_->model->statistics;
  statistics.queued.fetch_sub(1, std::memory_order_relaxed);
  statistics.running.fetch_add(1, std::memory_order_relaxed);
  statistics.queue_duration.Observe(SteadyClock().Now() - current_->call.arrival);
  InferenceStats stats;
  absl::Status status = RunCall(*current_, stats);
  if (status.ok()) {
    statistics.compute_duration.Observe(stats.total);
    statistics.stall_duration.Observe(stats.stall);
    Add(statistics.streamed_bytes, stats.streamed.count());
    Add(statistics.residency_hits, stats.resident_extents);
    Add(statistics.residency_misses, stats.streamed_extents);
    Add(statistics.prefetch_hits, stats.prefetched_extents);
    statistics.last_latency_ns = static_cast<std::uint64_t>(stats.total.count());
    statistics.last_stall_ns = static_cast<std::uint64_t>(stats.stall.count());
    statistics.last_streamed_bytes = stats.streamed.count();
  } else if (absl::IsDeadlineExceeded(status)) {
    Reject(statistics, RejectReason::kDeadline);
  }
  statistics.running.fetch_sub(1, std::memory_order_relaxed);
  if (absl::IsDataLoss(status)) options_.on_damage(current_->model, status);
  QueuedCall finished = *std::exchange(current_, std::nullopt);
  {
    MutexLock lock(mutex_);
    busy_ = false;
    running_ = nullptr;
    StartNext();
  }
  Answer(std::move(finished), std::move(status));
  Left(1);
}

absl::Status Dispatcher::RunCall(QueuedCall& queued, InferenceStats& stats) {
  LoadedModel* loaded = queued.model->loaded.get();
  if (loaded == nullptr) {
    return absl::UnavailableError(
        absl::StrFormat("model '%s' was unloaded while the request waited", queued.call.model));
  }
  absl::Status fits = CheckSizes("input", queued.call.inputs, loaded->input_bytes, false);
  if (fits.ok()) fits = CheckSizes("output", queued.call.outputs, loaded->output_bytes, true);
  if (fits.ok()) fits = Gate();
  if (!fits.ok()) return fits;
  absl::StatusOr<InferenceStats> run = executor_.Run(
      *loaded->streamed, queued.call.inputs, queued.call.outputs, gate_, queued.call.counts);
  if (run.ok()) {
    stats = *run;
    return absl::OkStatus();
  }
  // The arena belongs to the daemon, so that it is too small is no fault of the caller.
  if (absl::IsFailedPrecondition(run.status())) {
    return absl::InternalError(run.status().message());
  }
  return std::move(run).status();
}

absl::Status Dispatcher::Gate() {
  Add(steps_, 1);
  const InferenceCall& call = current_->call;
  if (cancel_all_.load(std::memory_order_relaxed)) {
    return absl::UnavailableError("the server is shutting down");
  }
  if (call.deadline && *call.deadline <= SteadyClock().Now()) {
    return absl::DeadlineExceededError("deadline passed while computing");
  }
  if (call.cancelled && call.cancelled()) {
    return absl::CancelledError("the caller left while computing");
  }
  return absl::OkStatus();
}

void Dispatcher::Sweep() {
  NameThread("sweeper");
  for (;;) {
    std::vector<DeadCall> dead;
    {
      MutexLock lock(mutex_);
      if (stopping_) return;
      const Instant now = SteadyClock().Now();
      queue_.TakeDead(now, dead);
      if (dead.empty() && queue_.empty()) {
        changed_.Wait(mutex_);
        continue;
      }
      if (dead.empty()) {
        changed_.WaitUntil(
            mutex_, std::min(queue_.NextDeadline().value_or(Instant::max()), now + kSweepInterval));
        continue;
      }
    }
    for (const DeadCall& call : dead) {
      if (!absl::IsDeadlineExceeded(call.status)) continue;
      Reject(*call.queued.model->statistics, RejectReason::kDeadline);
    }
    FinishDead(std::move(dead));
  }
}

void Dispatcher::FinishDead(std::vector<DeadCall> dead) {
  for (DeadCall& call : dead) {
    call.queued.model->statistics->queued.fetch_sub(1, std::memory_order_relaxed);
    Answer(std::move(call.queued), std::move(call.status));
  }
  if (!dead.empty()) Left(dead.size());
}

void Dispatcher::Left(std::size_t calls) {
  {
    MutexLock lock(mutex_);
    in_flight_ -= calls;
  }
  changed_.NotifyAll();
}

}  // namespace sluice
