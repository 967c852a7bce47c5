// server/message_gate.h
//
// Lets one unmeasured message at a time into memory. A call that waits here has sent no more than
// its flow-control window; when its turn comes its message is received, measured and admitted to
// the budget, and the turn goes on to the next. So messages whose size nobody knows yet take the
// memory of one, however many clients send.
//
//   Enter -> (OnTurn) -> receive, measure -> Admit -+-> ... -> Ended
//                                            |      ^
//                                            +-> (OnRoom): it fits, but not beside what runs now
//
// A message that must wait for room keeps its turn meanwhile.

#ifndef SLUICE_SERVER_MESSAGE_GATE_H_
#define SLUICE_SERVER_MESSAGE_GATE_H_

#include <cstddef>
#include <deque>
#include <functional>
#include <memory>

#include "base/clock.h"
#include "base/mutex.h"

namespace sluice {

// Threads: callable from several at once; callers are called without a lock held.
class MessageGate {
 public:
  class Caller {
   public:
    virtual ~Caller() = default;
    virtual void OnTurn() = 0;     // May receive now. May come after Leave, which is then repeated.
    virtual void OnRoom() = 0;     // There may be room since Admit said kWait: call it again.
    virtual void OnOverdue() = 0;  // Has had its turn for too long; should end it soon.
    virtual void OnClose() = 0;    // The gate closed while it waited; it is in no queue any more.
  };
  using Shared = std::shared_ptr<Caller>;  // A call may be gone while the gate still calls it.

  struct Limits {
    std::size_t most_waiting = 256;
    Duration patience = std::chrono::seconds(1);  // With a turn, while others wait for theirs.
    Duration longest = std::chrono::seconds(30);  // With a turn, in any case.
  };
  explicit MessageGate(Limits limits, const Clock& clock = SteadyClock())
      : limits_(limits), clock_(clock) {}

  enum class Entry { kEntered, kFull, kClosed };
  // Before it returns, or later, OnTurn is called.
  Entry Enter(const Shared& caller);
  // Gives up waiting, or the turn. Nothing when it has neither.
  void Leave(const Caller& caller);

  enum class Admission {
    kAdmitted,  // Counts as running until Ended; the turn has gone on to the next.
    kWait,      // OnRoom comes when something that runs has ended, and now and then.
    kNoRoom,    // The gate is closed, so nobody waits; it keeps its turn until Leave.
  };
  // `reserve(may_wait)` says whether the memory could be reserved; if not and it may wait, the
  // caller must be ready for OnRoom when it returns. It must not call the gate.
  // Requires: the caller has its turn.
  using Reserve = std::function<bool(bool may_wait)>;
  Admission Admit(const Caller& caller, const Reserve& reserve);
  // Requires: the caller was admitted, and what it had reserved is free.
  void Ended();

  // Tells a holder that has had its turn for too long, once; one that waits for room may look
  // again, since the budget changes without anything ending here. To be called now and then.
  void CheckHolder();
  bool busy() const;  // Somebody has the turn.
  // No turn comes any more.
  void Close();

 private:
  void PassOn(const Caller& caller);

  const Limits limits_;
  const Clock& clock_;
  mutable Mutex mutex_;
  std::deque<Shared> waiting_ ABSL_GUARDED_BY(mutex_);
  Shared holder_ ABSL_GUARDED_BY(mutex_);
  Instant since_ ABSL_GUARDED_BY(mutex_);  // When its turn began.
  bool overdue_ ABSL_GUARDED_BY(mutex_) = false;
  bool wants_room_ ABSL_GUARDED_BY(mutex_) = false;
  bool closed_ ABSL_GUARDED_BY(mutex_) = false;
  std::size_t running_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace sluice

#endif  // SLUICE_SERVER_MESSAGE_GATE_H_
