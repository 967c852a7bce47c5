#include "server/base_memory.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

namespace sluice {
namespace {

absl::Status NoRoom(Bytes) { return absl::ResourceExhaustedError("nothing gives way"); }

Bytes Reserved(const MemoryLedger& ledger, std::string_view name) {
  Bytes sum;
  for (const MemoryLedger::Line& line : ledger.lines()) {
    if (line.line == name) sum += line.reserved;
  }
  return sum;
}

// What one may find beside what is looked for. The address sanitizer keeps a byte for every eight.
#if defined(__SANITIZE_ADDRESS__)
constexpr std::int64_t kSlack = 6 << 20;
#else
constexpr std::int64_t kSlack = 1 << 20;
#endif

// Anonymous memory that nobody has reserved.
class Hoard {
 public:
  explicit Hoard(Bytes size) : bytes_(size.count()) {
    std::memset(bytes_.data(), 1, bytes_.size());
  }

 private:
  std::vector<char> bytes_;
};

class BaseMemoryTest : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_TRUE(base_.Reserve().ok());
    ASSERT_TRUE(base_.Measure().ok());
  }
  MemoryLedger ledger_{2048_MiB};
  BaseMemory base_{ledger_};
};

TEST_F(BaseMemoryTest, ExplainsTheEmptyProcess) {
  const ProcessMemory process = ReadProcessMemory();
  const std::int64_t unaccounted = Unaccounted(process, base_.UsedLines(process));
  EXPECT_LT(std::abs(unaccounted), kSlack);
}

TEST_F(BaseMemoryTest, ShowsWhatNoLineExplains) {
  const Hoard hoard(32_MiB);
  const ProcessMemory process = ReadProcessMemory();
  const std::int64_t unaccounted = Unaccounted(process, base_.UsedLines(process));
  EXPECT_GT(unaccounted, 31 << 20);
  EXPECT_LT(unaccounted, (32 << 20) + kSlack);
}

TEST_F(BaseMemoryTest, CountsReservedMemoryAsExplained) {
  const Reservation reserved = *ledger_.Reserve("weights", "a", 32_MiB);
  const Hoard hoard(32_MiB);
  const ProcessMemory process = ReadProcessMemory();
  EXPECT_LT(std::abs(Unaccounted(process, base_.UsedLines(process))), kSlack);
}

TEST_F(BaseMemoryTest, RaisesTheHeadroomAndLowersItAgain) {
#if defined(__SANITIZE_ADDRESS__)
  GTEST_SKIP() << "the address sanitizer keeps freed memory for a while";
#endif
  const Bytes before = Reserved(ledger_, "headroom");
  const Bytes base = Reserved(ledger_, "base");
  {
    const Hoard hoard(32_MiB);
    const absl::StatusOr<bool> raised = base_.Correct(NoRoom);
    ASSERT_TRUE(raised.ok()) << raised.status();
    EXPECT_TRUE(*raised);
    EXPECT_GE(Reserved(ledger_, "headroom"), 32_MiB);
    EXPECT_FALSE(*base_.Correct(NoRoom)) << "it is large enough by now";
  }
  EXPECT_TRUE(*base_.Correct(NoRoom));
  EXPECT_LE(Reserved(ledger_, "headroom"), before + 1_MiB);
  EXPECT_EQ(Reserved(ledger_, "base"), base) << "the base is measured once";
}

TEST_F(BaseMemoryTest, AsksForRoomAndSaysWhenThereIsNone) {
  // A line of which nothing is in use, so that it explains nothing.
  Reservation rest = *ledger_.Reserve("receive", "", ledger_.free());
  const Hoard hoard(32_MiB);
  const absl::Status refused = base_.Correct(NoRoom).status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(refused.message()), testing::HasSubstr("raise memory.budget (2 GiB)"));
  const Hoard more(1_MiB);
  const absl::StatusOr<bool> raised =
      base_.Correct([&](Bytes bytes) { return rest.Resize(rest.bytes() - bytes); });
  ASSERT_TRUE(raised.ok()) << raised.status();
  EXPECT_TRUE(*raised);
  EXPECT_GE(Reserved(ledger_, "headroom"), 33_MiB);
}

TEST(BaseMemoryBudgetTest, SaysWhatAnEmptyDaemonTakes) {
  MemoryLedger ledger(4_MiB);
  BaseMemory base(ledger);
  EXPECT_EQ(base.Reserve().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_GT(base.least(), 4_MiB);
}

}  // namespace
}  // namespace sluice
