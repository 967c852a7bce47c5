#include "server/process_memory.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <vector>

namespace sluice {
namespace {

namespace fs = std::filesystem;

TEST(ProcessMemoryTest, ReadsTheLinesOfStatus) {
  const ProcessMemory memory = ParseProcessStatus(
      "Name:\tx\nVmPeak:\t 9 kB\nVmHWM:\t    2048 kB\nVmRSS:\t    1024 kB\nVmSwap:\t       4 kB\n");
  EXPECT_EQ(memory.resident, 1_MiB);
  EXPECT_EQ(memory.peak_resident, 2_MiB);
  EXPECT_EQ(memory.swapped, 4_KiB);
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

class CgroupTest : public testing::Test {
 protected:
  CgroupTest() : root_(testing::TempDir() + "sluice_cgroup_test") { fs::remove_all(root_); }
  ~CgroupTest() override { fs::remove_all(root_); }
  void Write(const fs::path& file, std::string_view text) {
    fs::create_directories((root_ / file).parent_path());
    std::ofstream(root_ / file) << text;
  }
  const fs::path root_;
};

TEST_F(CgroupTest, TakesTheTightestLimitOfVersionTwoUpToTheRoot) {
  Write("a/memory.max", "67108864\n");
  Write("a/b/memory.max", "max\n");
  EXPECT_EQ(ReadCgroupLimit("0::/a/b\n", root_), 64_MiB);
  EXPECT_EQ(ReadCgroupLimit("0::/\n", root_), std::nullopt);
}

TEST_F(CgroupTest, TakesTheLimitOfVersionOne) {
  Write("memory/x/memory.limit_in_bytes", "33554432\n");
  Write("memory/memory.limit_in_bytes", "9223372036854771712\n");
  EXPECT_EQ(ReadCgroupLimit("9:name=systemd:/\n4:cpu,memory:/x\n0::/\n", root_), 32_MiB);
  EXPECT_EQ(ReadCgroupLimit("4:memory:/gone/from/here\n", root_), std::nullopt);
}

TEST_F(CgroupTest, DoesNotFollowAPathOutOfTheMount) {
  Write("memory.max", "1048576");
  Write("inner/unused", "");
  EXPECT_EQ(ReadCgroupLimit("0::/../..\n", root_ / "inner"), std::nullopt);
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
