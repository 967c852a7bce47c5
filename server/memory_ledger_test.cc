#include "server/memory_ledger.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <thread>
#include <vector>

namespace sluice {
namespace {

TEST(MemoryLedgerTest, RefusesWhatDoesNotFitAndSaysTheNumbers) {
  MemoryLedger ledger(10_MiB);
  const absl::StatusOr<Reservation> first = ledger.Reserve("weights", "a", 8_MiB);
  ASSERT_TRUE(first.ok());
  const absl::Status refused = ledger.Reserve("arena", "", 3_MiB).status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(refused.message(), "memory for arena: got 2 MiB free, want 3 MiB (budget 10 MiB)");
  EXPECT_EQ(ledger.reserved(), 8_MiB);
  EXPECT_EQ(ledger.free(), 2_MiB);
  EXPECT_TRUE(ledger.Reserve("arena", "", 2_MiB).ok());
}

TEST(MemoryLedgerTest, GivesBackWhatIsDestroyed) {
  MemoryLedger ledger(10_MiB);
  {
    const absl::StatusOr<Reservation> whole = ledger.Reserve("import", "", 10_MiB);
    ASSERT_TRUE(whole.ok());
    EXPECT_EQ(ledger.free(), Bytes());
  }
  EXPECT_EQ(ledger.reserved(), Bytes());
  EXPECT_TRUE(ledger.lines().empty());
}

TEST(MemoryLedgerTest, MovesAReservationWithoutCountingItTwice) {
  MemoryLedger ledger(10_MiB);
  Reservation kept = *ledger.Reserve("weights", "a", 4_MiB);
  Reservation moved = std::move(kept);
  EXPECT_EQ(ledger.reserved(), 4_MiB);
  EXPECT_EQ(kept.bytes(), Bytes());
  moved = *ledger.Reserve("weights", "b", 1_MiB);
  EXPECT_EQ(ledger.reserved(), 1_MiB);
  ASSERT_EQ(ledger.lines().size(), 1u);
  EXPECT_EQ(ledger.lines()[0].model, "b");
}

TEST(MemoryLedgerTest, ResizesOrStaysAsItWas) {
  MemoryLedger ledger(10_MiB);
  Reservation reservation = *ledger.Reserve("weights", "a", 4_MiB);
  EXPECT_TRUE(reservation.Resize(10_MiB).ok());
  EXPECT_EQ(reservation.Resize(11_MiB).code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(reservation.bytes(), 10_MiB);
  EXPECT_TRUE(reservation.Resize(Bytes()).ok());
  EXPECT_EQ(ledger.reserved(), Bytes());
  EXPECT_EQ(ledger.lines().size(), 1u);
  EXPECT_EQ(Reservation().Resize(1_KiB).code(), absl::StatusCode::kFailedPrecondition);
}

TEST(MemoryLedgerTest, ListsLinesInOrderWithTheirSums) {
  MemoryLedger ledger(10_MiB);
  const Reservation b = *ledger.Reserve("weights", "b", 1_MiB);
  const Reservation a = *ledger.Reserve("weights", "a", 1_MiB);
  const Reservation more = *ledger.Reserve("weights", "a", 2_MiB);
  const Reservation base = *ledger.Reserve("base", "", 3_MiB);
  const std::vector<MemoryLedger::Line> lines = ledger.lines();
  ASSERT_EQ(lines.size(), 3u);
  EXPECT_EQ(lines[0].line, "base");
  EXPECT_EQ(lines[1].model, "a");
  EXPECT_EQ(lines[1].reserved, 3_MiB);
  EXPECT_EQ(lines[1].reservations, 2u);
  EXPECT_EQ(lines[2].model, "b");
}

TEST(MemoryLedgerTest, LimitsTheNumberOfReservations) {
  MemoryLedger ledger(10_MiB);
  const absl::StatusOr<Reservation> first = ledger.Reserve("requests", "", 1_KiB, 1);
  ASSERT_TRUE(first.ok());
  EXPECT_EQ(ledger.Reserve("requests", "", 1_KiB, 1).status().code(),
            absl::StatusCode::kUnavailable);
}

TEST(MemoryLedgerTest, LimitsALineOverAllModels) {
  MemoryLedger ledger(10_MiB);
  Reservation first = *ledger.Reserve("requests", "", 2_MiB);
  EXPECT_EQ(ledger.LimitLine("requests", 3_MiB), 3_MiB);
  EXPECT_EQ(ledger.Reserve("requests", "a", 2_MiB).status().code(),
            absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(first.Resize(4_MiB).code(), absl::StatusCode::kResourceExhausted);
  EXPECT_TRUE(first.Resize(3_MiB).ok());
  EXPECT_EQ(ledger.LimitLine("requests", 1_MiB), 3_MiB);  // What is in flight stays.
  EXPECT_TRUE(ledger.Reserve("weights", "a", 7_MiB).ok());
}

TEST(MemoryLedgerTest, SaturatesInsteadOfWrapping) {
  MemoryLedger ledger(Bytes::Max());
  const absl::StatusOr<Reservation> most = ledger.Reserve("a", "", Bytes::Max() - Bytes::Of(1));
  ASSERT_TRUE(most.ok());
  EXPECT_FALSE(ledger.Reserve("b", "", Bytes::Max()).ok());
}

TEST(MemoryLedgerTest, NeverExceedsTheBudgetUnderConcurrentUse) {
  MemoryLedger ledger(64_KiB);
  std::atomic<bool> exceeded{false};
  std::atomic<int> granted{0};
  std::vector<std::jthread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 2000; ++i) {
        absl::StatusOr<Reservation> one =
            ledger.Reserve("requests", t % 2 == 0 ? "a" : "b", Bytes::Of(1024u * (1 + i % 30)));
        if (!one.ok()) continue;
        ++granted;
        (void)one->Resize(Bytes::Of(1024u * (1 + (i + t) % 40)));
        if (ledger.reserved() > ledger.budget()) exceeded = true;
      }
    });
  }
  threads.clear();
  EXPECT_FALSE(exceeded);
  EXPECT_GT(granted, 0);
  EXPECT_EQ(ledger.reserved(), Bytes());
  EXPECT_TRUE(ledger.lines().empty());
}

}  // namespace
}  // namespace sluice
