// server/dispatcher.h
//
// The compute slot and the queue in front of it: one inference runs at a time, on the compute team;
// the next one is taken when a step of the team is free. Calls whose deadline passes, or whose
// caller leaves, are answered at once while they wait, and between steps while they run.

#ifndef SLUICE_SERVER_DISPATCHER_H_
#define SLUICE_SERVER_DISPATCHER_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "base/mutex.h"
#include "engine/compute_team.h"
#include "server/request_queue.h"
#include "server/served_model.h"
#include "streamer/executor.h"

namespace sluice {

// Threads: callable from several at once. Statistics of the model are updated before `done`.
class Dispatcher {
 public:
  struct Options {
    std::size_t max_queue = 64;       // Waiting calls of one model.
    std::size_t max_in_flight = 256;  // Waiting calls in all.
    // Called on the compute team when a model's weights turn out to be damaged.
    std::function<void(const std::shared_ptr<ServedModel>&, const absl::Status&)> on_damage;
  };
  // Owns: team and executor must outlive the dispatcher.
  Dispatcher(ComputeTeam& team, Executor& executor, Options options);
  ~Dispatcher();  // Cancels what is left, and waits for it.
  Dispatcher(const Dispatcher&) = delete;
  Dispatcher& operator=(const Dispatcher&) = delete;

  // Queues the call. `done` gets what model_service.h says of Infer.
  void Submit(QueuedCall queued);

  // Answers a call that does not get as far as the queue.
  static void Refuse(QueuedCall queued, absl::Status status, std::optional<RejectReason> reason);

  // Answers the waiting calls of a model with `status`.
  void Clear(const ServedModel& model, const absl::Status& status);

  // Waits until no call of the model runs or waits, at the latest until `until` or until
  // `keep_waiting`, asked every few milliseconds, says no. The caller sees to it that none comes.
  void Finish(const ServedModel& model, Instant until, const std::function<bool()>& keep_waiting);

  // Refuses what comes, and waits for what runs or waits; after `until` the rest is cancelled.
  void Drain(Instant until);

  // Grows with every step that runs: a watchdog sees whether inferences move.
  std::uint64_t steps() const { return steps_.load(std::memory_order_relaxed); }

 private:
  void StartNext() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void RunCurrent();  // On the compute team.
  absl::Status RunCall(QueuedCall& queued, InferenceStats& stats);
  absl::Status Gate();
  void Sweep();  // The timer thread.
  void FinishDead(std::vector<DeadCall> dead);
  void Left(std::size_t calls);

  ComputeTeam& team_;
  Executor& executor_;
  const Options options_;
  const StepGate gate_;

  Mutex mutex_;
  CondVar changed_;
  RequestQueue queue_ ABSL_GUARDED_BY(mutex_);
  bool busy_ ABSL_GUARDED_BY(mutex_) = false;
  bool draining_ ABSL_GUARDED_BY(mutex_) = false;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::size_t in_flight_ ABSL_GUARDED_BY(mutex_) = 0;  // Submitted and not yet answered.

  const ServedModel* running_ ABSL_GUARDED_BY(mutex_) = nullptr;

  // The call that runs: set while not busy, then the compute team's until it is answered.
  std::optional<QueuedCall> current_;
  std::atomic<bool> cancel_all_{false};
  std::atomic<std::uint64_t> steps_{0};
  std::thread sweeper_;
};

}  // namespace sluice

#endif  // SLUICE_SERVER_DISPATCHER_H_
