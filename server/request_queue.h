// server/request_queue.h
//
// Calls that wait for the compute slot: bounded for each model and in all, taken in order of
// priority, then earliest deadline, then arrival. Allocates at construction only.
//
// Threads: none of its own; whoever uses it holds one lock around it.

#ifndef SLUICE_SERVER_REQUEST_QUEUE_H_
#define SLUICE_SERVER_REQUEST_QUEUE_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "base/clock.h"
#include "server/model_service.h"

namespace sluice {

struct ServedModel;

struct QueuedCall {
  InferenceCall call;
  std::shared_ptr<ServedModel> model;
  int priority = 0;            // Resolved: the call's, or the model's.
  std::uint64_t sequence = 0;  // Of arrival; the queue sets it.
};

// A call that left the queue without running, and why.
struct DeadCall {
  QueuedCall queued;
  absl::Status status;
};

class RequestQueue {
 public:
  // Requires: both above zero.
  RequestQueue(std::size_t most_of_a_model, std::size_t most_in_all);

  // Takes the call, and leaves it as it was on failure.
  // Fails: UNAVAILABLE, the queue is full: with what waits and the limit.
  absl::Status TryPush(QueuedCall& queued);

  // The call that runs next.
  std::optional<QueuedCall> Pop();

  // Moves calls whose deadline has passed, or whose caller has left, to `dead`.
  void TakeDead(Instant now, std::vector<DeadCall>& dead);
  // Moves calls of `model`, or all of them for null, to `dead` with `status`.
  void TakeAll(const ServedModel* model, const absl::Status& status, std::vector<DeadCall>& dead);

  std::optional<Instant> NextDeadline() const;
  std::size_t waiting(const ServedModel& model) const;
  std::size_t size() const { return calls_.size(); }
  bool empty() const { return calls_.empty(); }

 private:
  // The order does not matter to the vector: what leaves is replaced by the last.
  QueuedCall Remove(std::size_t i);

  const std::size_t most_of_a_model_, most_in_all_;
  std::uint64_t next_sequence_ = 0;
  std::vector<QueuedCall> calls_;
};

}  // namespace sluice

#endif  // SLUICE_SERVER_REQUEST_QUEUE_H_
