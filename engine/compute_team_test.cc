#include "engine/compute_team.h"

#include <gtest/gtest.h>

#ifdef _OPENMP
#include <omp.h>
#endif

#include <atomic>
#include <set>
#include <thread>
#include <vector>

#include "base/mutex.h"

namespace sluice {
namespace {

TEST(ComputeTeamTest, RunsWorkOnOneThreadInTheOrderPosted) {
  std::vector<int> order;
  std::set<std::thread::id> threads;
  {
    ComputeTeam team(2);
    for (int i = 0; i < 100; ++i) {
      team.Post([&order, &threads, i] {
        order.push_back(i);
        threads.insert(std::this_thread::get_id());
      });
    }
    team.Run([&] { order.push_back(100); });
    EXPECT_EQ(order.size(), 101u);
  }
  for (std::size_t i = 0; i < order.size(); ++i) EXPECT_EQ(order[i], static_cast<int>(i));
  EXPECT_EQ(threads.size(), 1u);
  EXPECT_FALSE(threads.contains(std::this_thread::get_id()));
}

TEST(ComputeTeamTest, RunReturnsAfterTheWorkIsDone) {
  ComputeTeam team(1);
  int value = 0;
  team.Run([&] { value = 7; });
  EXPECT_EQ(value, 7);
}

TEST(ComputeTeamTest, FinishesWhatWasPostedBeforeItEnds) {
  std::atomic<int> done = 0;
  {
    ComputeTeam team(1);
    for (int i = 0; i < 50; ++i) team.Post([&done] { ++done; });
  }
  EXPECT_EQ(done, 50);
}

TEST(ComputeTeamTest, TakesWorkFromSeveralThreads) {
  ComputeTeam team(1);
  int sum = 0;  // Only the leader touches it.
  std::vector<std::thread> callers;
  for (int caller = 0; caller < 4; ++caller) {
    callers.emplace_back([&team, &sum] {
      for (int i = 0; i < 25; ++i) team.Run([&sum] { ++sum; });
    });
  }
  for (std::thread& caller : callers) caller.join();
  int seen = 0;
  team.Run([&] { seen = sum; });
  EXPECT_EQ(seen, 100);
}

#ifdef _OPENMP
class ComputeTeamThreadsTest : public testing::TestWithParam<int> {};

TEST_P(ComputeTeamThreadsTest, ItsRegionsUseExactlyItsThreads) {
  ComputeTeam team(GetParam());
  Mutex mutex;
  std::set<std::thread::id> threads;
  std::thread::id leader;
  // Twice: the second region gets the first one's threads back.
  for (int round = 0; round < 2; ++round) {
    team.Run([&] {
      leader = std::this_thread::get_id();
#pragma omp parallel
      {
        MutexLock lock(mutex);
        threads.insert(std::this_thread::get_id());
      }
    });
  }
  EXPECT_EQ(threads.size(), static_cast<std::size_t>(GetParam()));
  EXPECT_TRUE(threads.contains(leader));
}

INSTANTIATE_TEST_SUITE_P(Sizes, ComputeTeamThreadsTest, testing::Values(1, 2, 3));

TEST(ComputeTeamTest, LeavesTheSettingOfOtherThreadsAlone) {
  const int before = omp_get_max_threads();
  ComputeTeam team(before + 1);
  int inside = 0;
  team.Run([&] { inside = omp_get_max_threads(); });
  EXPECT_EQ(inside, before + 1);
  EXPECT_EQ(omp_get_max_threads(), before);
}
#endif

}  // namespace
}  // namespace sluice
