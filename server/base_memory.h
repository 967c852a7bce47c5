// server/base_memory.h
//
// The process itself in the ledger: what an empty daemon holds, and what is set aside for growth
// that nobody can reserve. What is in use is measured and never covered up by what is set aside:
//
//   base       the process once all of the empty daemon is up; measured once
//   headroom   pages of program and libraries that are touched for the first time, the allocator's
//              slack, stacks that deepen, and gRPC's buffers for clients that come together
//
//   resident + swapped  =  what the lines use  +  what no line explains
//
// Threads: callable from several at once, but Reserve, Measure and Correct one at a time.

#ifndef SLUICE_SERVER_BASE_MEMORY_H_
#define SLUICE_SERVER_BASE_MEMORY_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "base/bytes.h"
#include "server/memory_ledger.h"
#include "server/process_memory.h"

namespace sluice {

class BaseMemory {
 public:
  // Borrowed: the ledger must outlive this.
  explicit BaseMemory(MemoryLedger& ledger) : ledger_(ledger) {}

  // Takes what the process holds by now, what gRPC and the metrics page take until they listen,
  // and the headroom.
  // Fails: RESOURCE_EXHAUSTED, the budget is below that; `least` says how much it is.
  absl::Status Reserve();
  Bytes least() const { return least_; }
  // The same, before there is a budget: what Reserve would take now, and what of that the base is
  // once the daemon listens, rather a little more than less.
  static Bytes LeastNow();
  static Bytes SettledNow();
  // The headroom of a process that has grown by so much beyond base and lines.
  static Bytes HeadroomFor(Bytes growth);

  // Once everything around the models has started: the base becomes what the process holds.
  // Requires: nothing is loaded or requested. Fails: RESOURCE_EXHAUSTED.
  absl::Status Measure();

  // The ledger's lines with what is in use of each, for a process that holds `process`: the base as
  // it was measured, of the headroom the pages of files beyond it, nothing of `receive`, and all of
  // every other line.
  std::vector<MemoryLedger::Line> UsedLines(const ProcessMemory& process) const;

  // Gives freed memory back to the system, and makes the headroom as large as the process needs it:
  // larger when it grew, with `make_room` where the budget has no room left, and smaller when a
  // spike has passed. True when the headroom has changed.
  // Fails: RESOURCE_EXHAUSTED, the process outgrows the ledger and nothing can give way.
  absl::StatusOr<bool> Correct(const std::function<absl::Status(Bytes)>& make_room);

  // Freed memory is given back first; nullopt while requests are in flight, whose memory nobody can
  // tell from the rest. For the growth that a load brings with it.
  std::optional<std::int64_t> MeasureUnaccounted() const;

 private:
  MemoryLedger& ledger_;
  Reservation base_, headroom_;
  Bytes least_;
  Bytes settled_;  // What the process held when it was last corrected.
  // The base: both parts as measured.
  std::atomic<std::uint64_t> anonymous_{0}, files_{0};
};

// Resident and swapped bytes less what the lines use; below zero when they claim too much.
std::int64_t Unaccounted(const ProcessMemory& process, std::span<const MemoryLedger::Line> lines);

}  // namespace sluice

#endif  // SLUICE_SERVER_BASE_MEMORY_H_
