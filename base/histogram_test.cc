#include "base/histogram.h"

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
  EXPECT_NEAR(snapshot.sum, 61.000501, 1e-9);
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

TEST(SizeHistogramTest, PutsASizeIntoTheBucketThatHoldsIt) {
  SizeHistogram histogram;
  histogram.Observe(Bytes());
  histogram.Observe(1_KiB);
  histogram.Observe(Bytes::Of(1025));
  histogram.Observe(1024_MiB);
  const SizeHistogram::Snapshot snapshot = histogram.Read();
  EXPECT_EQ(snapshot.counts[0], 2u);
  EXPECT_EQ(snapshot.counts[1], 1u);
  EXPECT_EQ(snapshot.counts[10], 1u);
  EXPECT_EQ(snapshot.sum, 1024.0 + 1025.0 + 1073741824.0);
}

}  // namespace
}  // namespace sluice
