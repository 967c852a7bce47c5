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
#include "base/histogram.h"

namespace sluice {

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
  SizeHistogram request_size;          // Input tensors.
  std::atomic<std::uint64_t> streamed_bytes{0};
  // Extents that steps used: found in memory, or streamed, and of those already there when their
  // step was ready.
  std::atomic<std::uint64_t> residency_hits{0}, residency_misses{0}, prefetch_hits{0};
  std::atomic<std::uint64_t> evictions{0};  // Resident extents that gave way and stream since.
  std::atomic<std::int64_t> queued{0};      // Waiting now.
  std::atomic<std::int64_t> running{0};
  std::atomic<std::uint64_t> loads_ok{0}, loads_failed{0};
  DurationHistogram load_duration;
  std::atomic<std::uint64_t> last_latency_ns{0}, last_stall_ns{0}, last_streamed_bytes{0};
};

}  // namespace sluice

#endif  // SLUICE_SERVER_STATISTICS_H_
