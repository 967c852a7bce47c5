// server/wire_statistics.h
//
// Counters of what the wire answers by itself, before a model sees it.

#ifndef SLUICE_SERVER_WIRE_STATISTICS_H_
#define SLUICE_SERVER_WIRE_STATISTICS_H_

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "absl/status/status.h"
#include "server/front_door.h"
#include "server/statistics.h"

namespace sluice {

// Threads: callable from several at once.
struct WireStatistics {
  // Inference requests refused before they reached a model's queue, by status code.
  std::array<std::atomic<std::uint64_t>, kStatusCodes> refused{};
  std::atomic<std::int64_t> watchers{0};  // Open health watches.

  FrontDoor::Counts connections;

  void Refused(absl::StatusCode code) {
    const auto index = static_cast<std::size_t>(code);
    if (index < refused.size()) refused[index].fetch_add(1, std::memory_order_relaxed);
  }
};

}  // namespace sluice

#endif  // SLUICE_SERVER_WIRE_STATISTICS_H_
