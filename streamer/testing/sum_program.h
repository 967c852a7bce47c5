// streamer/testing/sum_program.h
//
// A program whose answer depends on every bit of its weights, for tests of how weights are moved.
// Step k mixes the sum of its weights into what step k - 1 left.

#ifndef SLUICE_STREAMER_TESTING_SUM_PROGRAM_H_
#define SLUICE_STREAMER_TESTING_SUM_PROGRAM_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "base/bytes.h"
#include "engine/program.h"

namespace sluice {

struct SumProgramOptions {
  std::uint64_t seed = 1;      // Of the weights.
  std::vector<Bytes> extents;  // Payloads; need not be whole pages.
  std::size_t steps_per_extent = 1;
  // Extents have floats behind their first 64 bytes, as long as they are, that are numbers of 16
  // bits: any, NaNs too.
  bool half_floats = false;
  bool step_without_weights = true;  // One before each extent's steps.
  Bytes buffer = Bytes::Of(256);     // Of each intermediate tensor; at least 8.
  // Called inside each step, with its weights: where a test looks around.
  std::function<void(StepIndex, const std::byte* extent)> during_step;
};
std::unique_ptr<Program> MakeSumProgram(const SumProgramOptions& options);

// Any number of Bytes drawn from `seed`, none above `largest`: odd sizes, whole pages, one byte.
std::vector<Bytes> AnyExtents(std::uint64_t seed, std::size_t count, Bytes largest);

// Runs any program with all of its memory at hand and nothing shared: no streamer, no plan. The
// outputs, in order.
std::vector<std::vector<std::byte>> RunWhole(Program& program,
                                             const std::vector<std::vector<std::byte>>& inputs);

}  // namespace sluice

#endif  // SLUICE_STREAMER_TESTING_SUM_PROGRAM_H_
