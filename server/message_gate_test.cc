#include "server/message_gate.h"

#include <gtest/gtest.h>

#include <memory>

namespace sluice {
namespace {

using std::chrono::milliseconds;

class HandClock final : public Clock {
 public:
  Instant Now() const override { return now_; }
  void Advance(Duration by) { now_ += by; }

 private:
  Instant now_{};
};

struct Call final : MessageGate::Caller {
  void OnTurn() override { ++turns; }
  void OnRoom() override { ++rooms; }
  void OnOverdue() override { ++overdue; }
  void OnClose() override { ++closed; }
  int turns = 0, rooms = 0, overdue = 0, closed = 0;
};

bool Fits(bool /*may_wait*/) { return true; }
bool DoesNotFit(bool /*may_wait*/) { return false; }

class MessageGateTest : public testing::Test {
 protected:
  void EnterAll(std::initializer_list<std::shared_ptr<Call>> calls) {
    for (const auto& call : calls) EXPECT_EQ(gate_.Enter(call), MessageGate::Entry::kEntered);
  }

  HandClock clock_;
  MessageGate gate_{
      {.most_waiting = 2, .patience = milliseconds(100), .longest = milliseconds(1000)}, clock_};
  const std::shared_ptr<Call> a_ = std::make_shared<Call>(), b_ = std::make_shared<Call>(),
                              c_ = std::make_shared<Call>(), d_ = std::make_shared<Call>();
};

TEST_F(MessageGateTest, GivesOneTurnAtATimeInOrderOfArrival) {
  EnterAll({a_, b_, c_});
  EXPECT_EQ(gate_.Enter(d_), MessageGate::Entry::kFull);
  EXPECT_EQ(a_->turns + b_->turns + c_->turns, 1);
  gate_.Leave(*a_);
  EXPECT_EQ(b_->turns, 1);
  EXPECT_EQ(c_->turns, 0);
  EXPECT_EQ(gate_.Admit(*b_, Fits), MessageGate::Admission::kAdmitted);
  EXPECT_EQ(c_->turns, 1);
  EXPECT_EQ(d_->turns, 0);
}

TEST_F(MessageGateTest, OneThatLeavesTheQueueTakesNobodysTurn) {
  EnterAll({a_, b_, c_});
  gate_.Leave(*b_);
  EXPECT_EQ(c_->turns, 0);
  gate_.Leave(*a_);
  gate_.Leave(*a_);
  EXPECT_EQ(b_->turns, 0);
  EXPECT_EQ(c_->turns, 1);
}

TEST_F(MessageGateTest, WhatWaitsForRoomHearsOfTheNextEnd) {
  EnterAll({a_, b_, c_});
  EXPECT_EQ(gate_.Admit(*a_, Fits), MessageGate::Admission::kAdmitted);
  EXPECT_EQ(gate_.Admit(*b_, DoesNotFit), MessageGate::Admission::kWait);
  EXPECT_EQ(b_->rooms, 0);
  gate_.Ended();
  EXPECT_EQ(b_->rooms, 1);
  EXPECT_EQ(c_->turns, 0);
  EXPECT_EQ(gate_.Admit(*b_, Fits), MessageGate::Admission::kAdmitted);
  EXPECT_EQ(c_->turns, 1);
}

// Memory that no call holds may come free too: the process shrinks after a spike.
TEST_F(MessageGateTest, WhatWaitsForRoomLooksAgainThoughNothingRuns) {
  EnterAll({a_, b_});
  EXPECT_EQ(gate_.Admit(*a_, DoesNotFit), MessageGate::Admission::kWait);
  gate_.CheckHolder();
  EXPECT_EQ(a_->rooms, 1);
  gate_.CheckHolder();
  EXPECT_EQ(a_->rooms, 1) << "it has not asked again";
  EXPECT_EQ(gate_.Admit(*a_, DoesNotFit), MessageGate::Admission::kWait);
  gate_.CheckHolder();
  EXPECT_EQ(a_->rooms, 2);
  EXPECT_EQ(gate_.Admit(*a_, Fits), MessageGate::Admission::kAdmitted);
  EXPECT_EQ(b_->turns, 1);
}

TEST_F(MessageGateTest, NobodyWaitsForRoomAtAClosedGate) {
  EnterAll({a_});
  gate_.Close();
  EXPECT_EQ(gate_.Admit(*a_, DoesNotFit), MessageGate::Admission::kNoRoom);
}

TEST_F(MessageGateTest, ASlowHolderIsToldOnceWhenOthersWait) {
  EnterAll({a_});
  clock_.Advance(milliseconds(200));
  gate_.CheckHolder();
  EXPECT_EQ(a_->overdue, 0);
  EnterAll({b_});
  gate_.CheckHolder();
  gate_.CheckHolder();
  EXPECT_EQ(a_->overdue, 1);
  gate_.Leave(*a_);
  gate_.CheckHolder();
  EXPECT_EQ(b_->overdue, 0);
}

TEST_F(MessageGateTest, AHolderIsToldInTheEndThoughNobodyWaits) {
  EnterAll({a_});
  clock_.Advance(milliseconds(1000));
  gate_.CheckHolder();
  EXPECT_EQ(a_->overdue, 0);
  clock_.Advance(milliseconds(1));
  gate_.CheckHolder();
  EXPECT_EQ(a_->overdue, 1);
}

TEST_F(MessageGateTest, OneThatWaitsForRoomIsNotSlow) {
  EnterAll({a_, b_, c_});
  EXPECT_EQ(gate_.Admit(*a_, Fits), MessageGate::Admission::kAdmitted);
  EXPECT_EQ(gate_.Admit(*b_, DoesNotFit), MessageGate::Admission::kWait);
  clock_.Advance(milliseconds(200));
  gate_.CheckHolder();
  EXPECT_EQ(b_->overdue, 0);
}

TEST_F(MessageGateTest, AClosedGateSendsTheWaitingAwayAndTakesNobody) {
  EnterAll({a_, b_});
  gate_.Close();
  EXPECT_EQ(a_->closed, 0);
  EXPECT_EQ(b_->closed, 1);
  EXPECT_EQ(gate_.Enter(c_), MessageGate::Entry::kClosed);
  gate_.Leave(*a_);
  EXPECT_FALSE(gate_.busy());
}

}  // namespace
}  // namespace sluice
