#include "server/statistics.h"

#include <gtest/gtest.h>

#include <thread>
#include <vector>

namespace sluice {
namespace {

using std::chrono::microseconds;
using std::chrono::seconds;

TEST(DurationHistogramTest, PutsADurationIntoTheBucketThatHoldsIt) {
  DurationHistogram histogram;
  histogram.Observe(Duration::zero());
  histogram.Observe(microseconds(250));  // The bound itself belongs to its bucket.
  histogram.Observe(microseconds(251));
  histogram.Observe(seconds(30));
  histogram.Observe(seconds(31));
  histogram.Observe(seconds(-1));  // A clock that two threads read: counts as nothing.
  const DurationHistogram::Snapshot snapshot = histogram.Read();
  EXPECT_EQ(snapshot.counts[0], 3u);
  EXPECT_EQ(snapshot.counts[1], 1u);
  EXPECT_EQ(snapshot.counts[15], 1u);
  EXPECT_EQ(snapshot.counts[16], 1u);
  EXPECT_EQ(snapshot.count, 6u);
  EXPECT_NEAR(snapshot.sum_seconds, 61.000501, 1e-9);
}

TEST(DurationHistogramTest, LosesNothingUnderConcurrentUse) {
  DurationHistogram histogram;
  std::vector<std::jthread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 5000; ++i) histogram.Observe(microseconds(i));
    });
  }
  threads.clear();
  EXPECT_EQ(histogram.Read().count, 20'000u);
}

}  // namespace
}  // namespace sluice
