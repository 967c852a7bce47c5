#include "server/compute_threads.h"

#include <gtest/gtest.h>

namespace sluice {
namespace {

TEST(ComputeThreadsTest, TakesTheLowestLimitAndSaysWhich) {
  const ThreadChoice free = ChooseThreads({.allowed = 8});
  EXPECT_EQ(free.threads, 8);
  EXPECT_EQ(free.source, "affinity");
  const ThreadChoice limited = ChooseThreads({.allowed = 8, .quota = 2.5});
  EXPECT_EQ(limited.threads, 2);
  EXPECT_EQ(limited.source, "quota");
  EXPECT_EQ(limited.explanation, "configuration 0, affinity 8, quota 2.50");
  EXPECT_EQ(ChooseThreads({.allowed = 2, .quota = 64.0}).source, "affinity");
}

TEST(ComputeThreadsTest, TakesWhatIsConfiguredWhateverTheLimits) {
  const ThreadChoice choice = ChooseThreads({.configured = 4, .allowed = 2, .quota = 1.0});
  EXPECT_EQ(choice.threads, 4);
  EXPECT_EQ(choice.source, "configuration");
}

TEST(ComputeThreadsTest, LeavesOneThreadWhereTheQuotaIsBelowOneCpu) {
  EXPECT_EQ(ChooseThreads({.allowed = 8, .quota = 1.5}).threads, 1);
  EXPECT_EQ(ChooseThreads({.allowed = 8, .quota = 0.2}).threads, 1);
}

}  // namespace
}  // namespace sluice
