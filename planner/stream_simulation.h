// planner/stream_simulation.h
//
// The asynchronous two-stage pipeline in simulated time: one reader, one computer, one ring. Made
// once for a model, run for many choices of residents and ring.
//
// Threads: one thread owns a simulation.

#ifndef SLUICE_PLANNER_STREAM_SIMULATION_H_
#define SLUICE_PLANNER_STREAM_SIMULATION_H_

#include <span>
#include <vector>

#include "base/bytes.h"
#include "base/clock.h"
#include "planner/residency.h"
#include "planner/ring_layout.h"

namespace sluice {

// What reading so many bytes takes, without the latency: a day at most, which keeps sums of times
// far from overflow whatever was measured. Requires: read.bytes_per_second > 0.
Duration TransferTime(Bytes size, const ReadCost& read);

// The latency of one read within the same limits.
Duration ReadLatency(const ReadCost& read);

class StreamSimulation {
 public:
  struct Outcome {
    Duration predicted{};
    Duration stall{};
  };

  // Owns: borrows `extents`, which outlive it.
  // Requires: as residency.h says of steps, extents and reads.
  StreamSimulation(std::span<const StepCost> steps, std::span<const Bytes> extents,
                   const ReadCost& read, std::span<const Bytes> reads = {});

  // Requires: ring >= largest extent that is not resident. Cost: O(extents).
  Outcome Run(const std::vector<bool>& resident, Bytes ring);

  Duration transfer(std::size_t extent) const { return stages_[extent].transfer; }
  Duration compute() const { return compute_; }  // All steps, without a stall.

 private:
  struct Stage {
    Duration transfer{};  // Of one extent.
    Duration use{};       // Steps that need it.
    Duration after{};     // Steps without weights up to the next extent's first.
  };
  std::span<const Bytes> extents_;
  std::vector<Stage> stages_;  // By extent.
  Duration lead_{};            // Steps before the first extent.
  Duration compute_{};
  Duration latency_{};
  RingLayout ring_;
  std::vector<Duration> freed_;  // By extent: when its last step finished.
};

}  // namespace sluice

#endif  // SLUICE_PLANNER_STREAM_SIMULATION_H_
