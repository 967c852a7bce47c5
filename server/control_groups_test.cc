#include "server/control_groups.h"

#include <gtest/gtest.h>

#include <fstream>

namespace sluice {
namespace {

namespace fs = std::filesystem;

class ControlGroupsTest : public testing::Test {
 protected:
  ControlGroupsTest() : root_(testing::TempDir() + "sluice_control_groups_test") {
    fs::remove_all(root_);
  }
  ~ControlGroupsTest() override { fs::remove_all(root_); }
  void Write(const fs::path& file, std::string_view text) {
    fs::create_directories((root_ / file).parent_path());
    std::ofstream(root_ / file) << text;
  }
  const fs::path root_;
};

TEST_F(ControlGroupsTest, TakesTheTightestLimitOfVersionTwoUpToTheRoot) {
  Write("a/memory.max", "67108864\n");
  Write("a/b/memory.max", "max\n");
  EXPECT_EQ(MemoryLimit(FindControlGroups("0::/a/b\n", root_, "memory")), 64_MiB);
  EXPECT_EQ(MemoryLimit(FindControlGroups("0::/\n", root_, "memory")), std::nullopt);
}

TEST_F(ControlGroupsTest, TakesTheLimitOfVersionOne) {
  Write("memory/x/memory.limit_in_bytes", "33554432\n");
  Write("memory/memory.limit_in_bytes", "9223372036854771712\n");
  EXPECT_EQ(
      MemoryLimit(FindControlGroups("9:name=systemd:/\n4:cpu,memory:/x\n0::/\n", root_, "memory")),
      32_MiB);
  EXPECT_EQ(MemoryLimit(FindControlGroups("4:memory:/gone/from/here\n", root_, "memory")),
            std::nullopt);
}

TEST_F(ControlGroupsTest, DoesNotFollowAPathOutOfTheMount) {
  Write("memory.max", "1048576");
  Write("inner/unused", "");
  EXPECT_EQ(MemoryLimit(FindControlGroups("0::/../..\n", root_ / "inner", "memory")), std::nullopt);
}

TEST_F(ControlGroupsTest, TakesTheTightestQuotaOfVersionTwo) {
  Write("a/cpu.max", "150000 100000\n");
  Write("a/b/cpu.max", "max 100000\n");
  Write("c/cpu.max", "400000 100000\n");
  Write("c/d/cpu.max", "50000 200000\n");
  EXPECT_EQ(CpuQuota(FindControlGroups("0::/a/b\n", root_, "cpu")), 1.5);
  EXPECT_EQ(CpuQuota(FindControlGroups("0::/c/d\n", root_, "cpu")), 0.25);
  EXPECT_EQ(CpuQuota(FindControlGroups("0::/\n", root_, "cpu")), std::nullopt);
}

TEST_F(ControlGroupsTest, TakesTheQuotaOfVersionOne) {
  Write("cpu/x/cpu.cfs_quota_us", "250000\n");
  Write("cpu/x/cpu.cfs_period_us", "100000\n");
  Write("cpu/x/y/cpu.cfs_quota_us", "-1\n");
  Write("cpu/x/y/cpu.cfs_period_us", "100000\n");
  EXPECT_EQ(CpuQuota(FindControlGroups("3:cpu,cpuacct:/x/y\n", root_, "cpu")), 2.5);
  EXPECT_EQ(CpuQuota(FindControlGroups("3:cpuacct:/x/y\n", root_, "cpu")), std::nullopt);
}

TEST_F(ControlGroupsTest, TakesNoNonsenseForALimit) {
  Write("cpu.max", "12\n");
  Write("memory.max", "-5\n");
  EXPECT_EQ(CpuQuota(FindControlGroups("0::/\n", root_, "cpu")), std::nullopt);
  EXPECT_EQ(MemoryLimit(FindControlGroups("0::/\nnonsense\n:\n", root_, "memory")), std::nullopt);
}

}  // namespace
}  // namespace sluice
