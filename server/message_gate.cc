#include "server/message_gate.h"

#include <algorithm>
#include <utility>

namespace sluice {

MessageGate::Entry MessageGate::Enter(const Shared& caller) {
  {
    MutexLock lock(mutex_);
    if (closed_) return Entry::kClosed;
    if (holder_ != nullptr) {
      if (waiting_.size() >= limits_.most_waiting) return Entry::kFull;
      waiting_.push_back(caller);
      return Entry::kEntered;
    }
    holder_ = caller;
    since_ = clock_.Now();
  }
  caller->OnTurn();
  return Entry::kEntered;
}

void MessageGate::Leave(const Caller& caller) {
  Shared left;  // Dies without the lock.
  {
    MutexLock lock(mutex_);
    const auto found =
        std::ranges::find_if(waiting_, [&](const Shared& one) { return one.get() == &caller; });
    if (found != waiting_.end()) {
      left = std::move(*found);
      waiting_.erase(found);
    }
  }
  if (left == nullptr) PassOn(caller);
}

MessageGate::Admission MessageGate::Admit(const Caller& caller, const Reserve& reserve) {
  {
    // Held while trying, so that nothing can end unnoticed in between.
    MutexLock lock(mutex_);
    const bool may_wait = !closed_;
    if (!reserve(may_wait)) {
      wants_room_ = may_wait;
      return may_wait ? Admission::kWait : Admission::kNoRoom;
    }
    ++running_;
  }
  PassOn(caller);
  return Admission::kAdmitted;
}

void MessageGate::PassOn(const Caller& caller) {
  Shared before, next;
  {
    MutexLock lock(mutex_);
    if (holder_.get() != &caller) return;
    before = std::exchange(holder_, nullptr);
    overdue_ = wants_room_ = false;
    if (!waiting_.empty()) {
      next = std::move(waiting_.front());
      waiting_.pop_front();
      holder_ = next;
      since_ = clock_.Now();
    }
  }
  if (next != nullptr) next->OnTurn();
}

void MessageGate::Ended() {
  Shared hopeful;
  {
    MutexLock lock(mutex_);
    --running_;
    if (std::exchange(wants_room_, false)) hopeful = holder_;
  }
  if (hopeful != nullptr) hopeful->OnRoom();
}

void MessageGate::CheckHolder() {
  Shared slow, hopeful;
  {
    MutexLock lock(mutex_);
    if (holder_ == nullptr || overdue_) return;
    const Duration held = clock_.Now() - since_;
    // One that waits for room is not slow itself.
    const bool late = held > limits_.patience && !waiting_.empty() && !wants_room_;
    if (late || held > limits_.longest) {
      overdue_ = true;
      slow = holder_;
    } else if (std::exchange(wants_room_, false)) {
      hopeful = holder_;
    }
  }
  if (slow != nullptr) slow->OnOverdue();
  if (hopeful != nullptr) hopeful->OnRoom();
}

bool MessageGate::busy() const {
  MutexLock lock(mutex_);
  return holder_ != nullptr;
}

void MessageGate::Close() {
  std::deque<Shared> waiting;
  {
    MutexLock lock(mutex_);
    closed_ = true;
    waiting.swap(waiting_);
    // The holder may still be answered: what it sends is measured, and what runs will end.
  }
  for (const Shared& caller : waiting) caller->OnClose();
}

}  // namespace sluice
