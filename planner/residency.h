// planner/residency.h
//
// Which extents stay in memory and which pass through a ring, when there is not memory for all:
// the choice that minimises the predicted latency of the asynchronous two-stage pipeline.
//
//   reader   |e0|e1|   e2   |e3|        one device, in order of need, as far ahead as the ring
//   computer    |s0|s1|~~~~~|s2|s3|     allows; ~ is a stall: a ready step waits for its weights
//
// Source of the pipeline: M. Ji et al., "Demand Layering for Real-Time DNN Inference with
// Minimized Memory Usage", RTSS 2022, arXiv 2210.04024.
//
// Threads: pure functions, callable from anywhere. Same input, same answer.

#ifndef SLUICE_PLANNER_RESIDENCY_H_
#define SLUICE_PLANNER_RESIDENCY_H_

#include <optional>
#include <span>
#include <vector>

#include "base/bytes.h"
#include "base/clock.h"
#include "base/ids.h"

namespace sluice {

// Extents are used in order: the steps of one extent are consecutive, and extent k comes before
// k + 1. Sizes are whole pages.
struct StepCost {
  Duration compute{};
  std::optional<ExtentIndex> extent;  // Whose bytes must be in memory before the step starts.
};

struct ReadCost {
  Duration latency{};               // Of one read.
  double bytes_per_second = 1.0e9;  // Read, verified and widened, sustained. Above zero.
};

struct StreamPlan {
  std::vector<bool> resident;  // By extent.
  Bytes resident_bytes;        // Sum of the resident extents.
  Bytes ring;                  // Whole pages; zero when everything is resident.
  Duration predicted{};        // Latency of one inference.
  Duration stall{};            // Part of it that steps wait for weights.
};

// Simulates one inference. An extent occupies ring bytes from the issue of its read until its last
// step has finished; the ring is first-in first-out and an extent never wraps around its end.
// Requires: ring >= largest streamed extent.
// `reads`: bytes of each extent's read, where weights are stored narrower than in memory; empty: as
// many as the extent has.
StreamPlan SimulateStream(std::span<const StepCost> steps, std::span<const Bytes> extents,
                          const ReadCost& read, std::vector<bool> resident, Bytes ring,
                          std::span<const Bytes> reads = {});

// Spends `memory` on resident extents and on the ring. Everything resident when it all fits. Of
// plans whose latency is within 1 % of the best that is found, the one that reads least.
// Fails: nullopt when `memory` is below MinimumStreamMemory(extents).
std::optional<StreamPlan> ChooseResidents(std::span<const StepCost> steps,
                                          std::span<const Bytes> extents, const ReadCost& read,
                                          Bytes memory, std::span<const Bytes> reads = {});

// The least memory that runs: the largest extent, once.
Bytes MinimumStreamMemory(std::span<const Bytes> extents);

}  // namespace sluice

#endif  // SLUICE_PLANNER_RESIDENCY_H_
