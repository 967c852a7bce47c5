// server/statistics.h
//
// Counters that the request path updates without waiting and the metrics page reads at any time.

#ifndef SLUICE_SERVER_STATISTICS_H_
#define SLUICE_SERVER_STATISTICS_H_

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "absl/status/status.h"
#include "base/clock.h"

namespace sluice {

// Counts durations in fixed buckets. Threads: callable from several at once.
class DurationHistogram {
 public:
  // Upper bounds in seconds; a last bucket without bound follows.
  static constexpr std::array<double, 16> kBounds = {
      0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30};
  struct Snapshot {
    std::array<std::uint64_t, kBounds.size() + 1> counts{};  // By bucket, not cumulative.
    std::uint64_t count = 0;
    double sum_seconds = 0;
  };

  void Observe(Duration duration);
  Snapshot Read() const;

 private:
  std::array<std::atomic<std::uint64_t>, kBounds.size() + 1> counts_{};
  std::atomic<std::uint64_t> sum_nanoseconds_{0};
};

enum class RejectReason : std::uint8_t { kBudget, kQueue, kDeadline, kShutdown };
inline constexpr std::size_t kRejectReasons = 4;
inline constexpr std::size_t kStatusCodes = 17;  // absl's codes are 0 to 16.

// Of one model since it was first known to the daemon.
struct ModelStatistics {
  std::array<std::atomic<std::uint64_t>, kStatusCodes> requests{};  // Answered, by status code.
  std::array<std::atomic<std::uint64_t>, kRejectReasons> rejected{};
  DurationHistogram request_duration;  // From arrival to answer.
  DurationHistogram queue_duration;
  DurationHistogram compute_duration;  // The executor's run, stalls included.
  DurationHistogram stall_duration;    // Steps waiting for weights.
  std::atomic<std::uint64_t> streamed_bytes{0};
  std::atomic<std::int64_t> queued{0};  // Waiting now.
  std::atomic<std::int64_t> running{0};
  std::atomic<std::uint64_t> loads_ok{0}, loads_failed{0};
  DurationHistogram load_duration;
  std::atomic<std::uint64_t> last_latency_ns{0}, last_stall_ns{0}, last_streamed_bytes{0};
};

}  // namespace sluice

#endif  // SLUICE_SERVER_STATISTICS_H_
