#include "server/request_queue.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "server/served_model.h"

namespace sluice {
namespace {

using std::chrono::milliseconds;
using testing::ElementsAre;

const Instant kStart{std::chrono::seconds(1000)};

class RequestQueueTest : public testing::Test {
 protected:
  QueuedCall Call(std::string name, int priority = 2, int deadline_ms = 0) {
    QueuedCall queued;
    queued.call.model = std::move(name);
    queued.model = model_;
    queued.priority = priority;
    if (deadline_ms > 0) queued.call.deadline = kStart + milliseconds(deadline_ms);
    return queued;
  }
  void Push(RequestQueue& queue, QueuedCall queued) {
    const absl::Status pushed = queue.TryPush(queued);
    ASSERT_TRUE(pushed.ok()) << pushed;
  }
  static std::vector<std::string> Order(RequestQueue& queue) {
    std::vector<std::string> names;
    while (std::optional<QueuedCall> next = queue.Pop()) names.push_back(next->call.model);
    return names;
  }

  const std::shared_ptr<ServedModel> model_ = std::make_shared<ServedModel>("m");
  const std::shared_ptr<ServedModel> other_ = std::make_shared<ServedModel>("o");
};

TEST_F(RequestQueueTest, OrdersByPriorityThenDeadlineThenArrival) {
  RequestQueue queue(10, 10);
  Push(queue, Call("no deadline, first"));
  Push(queue, Call("no deadline, second"));
  Push(queue, Call("late", 2, 90));
  Push(queue, Call("early", 2, 10));
  Push(queue, Call("high", 1));
  Push(queue, Call("low", 3, 1));
  EXPECT_THAT(Order(queue), ElementsAre("high", "early", "late", "no deadline, first",
                                        "no deadline, second", "low"));
}

TEST_F(RequestQueueTest, BoundsEachModelAndTheWhole) {
  RequestQueue queue(2, 3);
  Push(queue, Call("a"));
  Push(queue, Call("b"));
  QueuedCall third = Call("c");
  const absl::Status full = queue.TryPush(third);
  EXPECT_EQ(full.code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(full.message(), "queue of model 'c' is full: got 2 waiting, want at most 2");
  EXPECT_EQ(third.call.model, "c");  // Still the caller's.
  third.model = other_;
  Push(queue, std::move(third));
  QueuedCall fourth = Call("d");
  fourth.model = other_;
  EXPECT_EQ(queue.TryPush(fourth).code(), absl::StatusCode::kUnavailable);
}

TEST_F(RequestQueueTest, LetsTheExpiredAndTheCancelledGo) {
  RequestQueue queue(10, 10);
  Push(queue, Call("stays", 2, 50));
  Push(queue, Call("expires", 2, 10));
  QueuedCall cancelled = Call("cancelled");
  cancelled.call.cancelled = [] { return true; };
  Push(queue, std::move(cancelled));
  EXPECT_EQ(queue.NextDeadline(), kStart + milliseconds(10));
  std::vector<DeadCall> dead;
  queue.TakeDead(kStart + milliseconds(10), dead);
  ASSERT_EQ(dead.size(), 2u);
  EXPECT_EQ(dead[0].queued.call.model, "expires");
  EXPECT_EQ(dead[0].status.code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_EQ(dead[1].status.code(), absl::StatusCode::kCancelled);
  EXPECT_THAT(Order(queue), ElementsAre("stays"));
  EXPECT_EQ(queue.NextDeadline(), std::nullopt);
}

TEST_F(RequestQueueTest, TakesTheCallsOfOneModelOrAll) {
  RequestQueue queue(10, 10);
  Push(queue, Call("mine"));
  QueuedCall call = Call("other");
  call.model = other_;
  Push(queue, std::move(call));
  std::vector<DeadCall> dead;
  queue.TakeAll(model_.get(), absl::UnavailableError("unloaded"), dead);
  ASSERT_EQ(dead.size(), 1u);
  EXPECT_EQ(dead[0].queued.call.model, "mine");
  queue.TakeAll(nullptr, absl::UnavailableError("draining"), dead);
  EXPECT_EQ(dead.size(), 2u);
  EXPECT_TRUE(queue.empty());
}

}  // namespace
}  // namespace sluice
