#include "server/statistics.h"

#include <algorithm>

namespace sluice {

void DurationHistogram::Observe(Duration duration) {
  const double seconds = Seconds(std::max(duration, Duration::zero()));
  // A bucket holds its bound: Prometheus' `le` is "less or equal".
  const auto bound = std::ranges::lower_bound(kBounds, seconds);
  const auto bucket = static_cast<std::size_t>(bound - kBounds.begin());
  counts_[bucket].fetch_add(1, std::memory_order_relaxed);
  sum_nanoseconds_.fetch_add(
      static_cast<std::uint64_t>(std::max(duration, Duration::zero()).count()),
      std::memory_order_relaxed);
}

DurationHistogram::Snapshot DurationHistogram::Read() const {
  Snapshot snapshot;
  for (std::size_t i = 0; i < counts_.size(); ++i) {
    snapshot.counts[i] = counts_[i].load(std::memory_order_relaxed);
    snapshot.count += snapshot.counts[i];
  }
  snapshot.sum_seconds =
      static_cast<double>(sum_nanoseconds_.load(std::memory_order_relaxed)) / 1e9;
  return snapshot;
}

}  // namespace sluice
