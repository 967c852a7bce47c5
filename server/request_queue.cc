#include "server/request_queue.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "absl/strings/str_format.h"

namespace sluice {
namespace {

// What is smaller runs first.
auto Rank(const QueuedCall& queued) {
  return std::tuple(queued.priority, queued.call.deadline.value_or(Instant::max()),
                    queued.sequence);
}

}  // namespace

RequestQueue::RequestQueue(std::size_t most_of_a_model, std::size_t most_in_all)
    : most_of_a_model_(most_of_a_model), most_in_all_(most_in_all) {
  calls_.reserve(most_in_all);
}

std::size_t RequestQueue::waiting(const ServedModel& model) const {
  return static_cast<std::size_t>(std::ranges::count(
      calls_, &model, [](const QueuedCall& queued) { return queued.model.get(); }));
}

absl::Status RequestQueue::TryPush(QueuedCall& queued) {
  const std::size_t before = waiting(*queued.model);
  if (before >= most_of_a_model_) {
    return absl::UnavailableError(
        absl::StrFormat("queue of model '%s' is full: got %d waiting, want at most %d",
                        queued.call.model, before, most_of_a_model_));
  }
  if (calls_.size() >= most_in_all_) {
    return absl::UnavailableError(absl::StrFormat("queue is full: got %d waiting, want at most %d",
                                                  calls_.size(), most_in_all_));
  }
  queued.sequence = next_sequence_++;
  calls_.push_back(std::move(queued));
  return absl::OkStatus();
}

std::optional<QueuedCall> RequestQueue::Pop() {
  if (calls_.empty()) return std::nullopt;
  const auto next = std::ranges::min_element(calls_, {}, Rank);
  return Remove(static_cast<std::size_t>(next - calls_.begin()));
}

void RequestQueue::TakeDead(Instant now, std::vector<DeadCall>& dead) {
  for (std::size_t i = 0; i < calls_.size();) {
    const InferenceCall& call = calls_[i].call;
    if (call.deadline && *call.deadline <= now) {
      dead.push_back({Remove(i), absl::DeadlineExceededError("deadline passed while waiting")});
    } else if (call.cancelled && call.cancelled()) {
      dead.push_back({Remove(i), absl::CancelledError("the caller left while waiting")});
    } else {
      ++i;
    }
  }
}

void RequestQueue::TakeAll(const ServedModel* model, const absl::Status& status,
                           std::vector<DeadCall>& dead) {
  for (std::size_t i = 0; i < calls_.size();) {
    if (model == nullptr || calls_[i].model.get() == model) {
      dead.push_back({Remove(i), status});
    } else {
      ++i;
    }
  }
}

std::optional<Instant> RequestQueue::NextDeadline() const {
  std::optional<Instant> next;
  for (const QueuedCall& queued : calls_) {
    if (queued.call.deadline && (!next || *queued.call.deadline < *next)) {
      next = queued.call.deadline;
    }
  }
  return next;
}

QueuedCall RequestQueue::Remove(std::size_t i) {
  QueuedCall removed = std::move(calls_[i]);
  if (i + 1 != calls_.size()) calls_[i] = std::move(calls_.back());
  calls_.pop_back();
  return removed;
}

}  // namespace sluice
