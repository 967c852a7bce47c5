#include "server/process_memory.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

namespace sluice {
namespace {

TEST(ProcessMemoryTest, ReadsTheLinesOfStatus) {
  const ProcessMemory memory = ParseProcessStatus(
      "Name:\tx\nVmPeak:\t 9 kB\nVmHWM:\t    2048 kB\nVmRSS:\t    1024 kB\nRssFile:\t 12 "
      "kB\nRssShmem:\t 8 kB\n"
      "VmSwap:\t       4 kB\n");
  EXPECT_EQ(memory.resident, 1_MiB);
  EXPECT_EQ(memory.peak_resident, 2_MiB);
  EXPECT_EQ(memory.swapped, 4_KiB);
  EXPECT_EQ(memory.files, 20_KiB);
  EXPECT_EQ(ParseProcessStatus("nonsense").resident, Bytes());
}

TEST(ProcessMemoryTest, SeesMemoryThatIsTouched) {
  const Bytes before = ReadProcessMemory().resident;
  std::vector<char> touched(32 << 20, 1);
  const ProcessMemory after = ReadProcessMemory();
  EXPECT_GE(after.resident, before + 24_MiB);
  EXPECT_GE(after.peak_resident, after.resident - 1_MiB);
  EXPECT_GE(ReadProcessPages().anonymous, 24_MiB);
  EXPECT_EQ(touched[12345], 1);
}

TEST(BudgetTest, TakesTheLowestCeilingAndSaysWhich) {
  BudgetInputs inputs{.configured = 64_MiB,
                      .cgroup_limit = std::nullopt,
                      .machine = {.total = 1024_MiB, .available = 500_MiB},
                      .own = 20_MiB};
  EXPECT_EQ(ResolveBudget(inputs).bytes, 64_MiB);
  EXPECT_EQ(ResolveBudget(inputs).source, "configuration");
  inputs.cgroup_limit = 48_MiB;
  EXPECT_EQ(ResolveBudget(inputs).bytes, 48_MiB);
  EXPECT_EQ(ResolveBudget(inputs).source, "cgroup");
  inputs.machine.available = 10_MiB;
  EXPECT_EQ(ResolveBudget(inputs).bytes, 30_MiB);
  EXPECT_EQ(ResolveBudget(inputs).source, "machine");
  EXPECT_THAT(ResolveBudget(inputs).explanation, testing::HasSubstr("cgroup 48 MiB"));
}

TEST(BudgetTest, CountsThePercentageOfTheMachine) {
  const BudgetInputs inputs{
      .percent = 25, .machine = {.total = 1024_MiB, .available = 1000_MiB}, .own = 20_MiB};
  EXPECT_EQ(ResolveBudget(inputs).bytes, 256_MiB);
}

}  // namespace
}  // namespace sluice
