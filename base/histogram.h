// base/histogram.h
//
// Counts of values in fixed buckets, updated without waiting and read at any time.

#ifndef SLUICE_BASE_HISTOGRAM_H_
#define SLUICE_BASE_HISTOGRAM_H_

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "base/bytes.h"
#include "base/clock.h"

namespace sluice {

// `Scale` has kBounds, the buckets' upper bounds in the exported unit; a last bucket without bound
// follows. Sums are kept in whole parts of it, kParts to one.
// Threads: callable from several at once.
template <typename Scale>
class Histogram {
 public:
  static constexpr auto& kBounds = Scale::kBounds;
  struct Snapshot {
    std::array<std::uint64_t, Scale::kBounds.size() + 1> counts{};  // By bucket, not cumulative.
    std::uint64_t count = 0;
    double sum = 0;
  };

  void ObserveParts(std::uint64_t parts) {
    // A bucket holds its bound: Prometheus' `le` is "less or equal".
    const auto bound =
        std::ranges::lower_bound(kBounds, static_cast<double>(parts) / Scale::kParts);
    counts_[static_cast<std::size_t>(bound - kBounds.begin())].fetch_add(1,
                                                                         std::memory_order_relaxed);
    sum_.fetch_add(parts, std::memory_order_relaxed);
  }

  Snapshot Read() const {
    Snapshot snapshot;
    for (std::size_t i = 0; i < counts_.size(); ++i) {
      snapshot.counts[i] = counts_[i].load(std::memory_order_relaxed);
      snapshot.count += snapshot.counts[i];
    }
    snapshot.sum = static_cast<double>(sum_.load(std::memory_order_relaxed)) / Scale::kParts;
    return snapshot;
  }

 private:
  std::array<std::atomic<std::uint64_t>, Scale::kBounds.size() + 1> counts_{};
  std::atomic<std::uint64_t> sum_{0};
};

struct SecondsScale {
  static constexpr std::array<double, 16> kBounds = {
      0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30};
  static constexpr double kParts = 1e9;
};
class DurationHistogram : public Histogram<SecondsScale> {
 public:
  // A negative one, of a clock that two threads read, counts as nothing.
  void Observe(Duration duration) {
    ObserveParts(static_cast<std::uint64_t>(std::max(duration, Duration::zero()).count()));
  }
};

struct BytesScale {
  static constexpr std::array<double, 10> kBounds = {
      1024, 4096, 16384, 65536, 262144, 1048576, 4194304, 16777216, 67108864, 268435456};
  static constexpr double kParts = 1;
};
class SizeHistogram : public Histogram<BytesScale> {
 public:
  void Observe(Bytes size) { ObserveParts(size.count()); }
};

}  // namespace sluice

#endif  // SLUICE_BASE_HISTOGRAM_H_
