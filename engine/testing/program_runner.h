// engine/testing/program_runner.h
//
// Runs a program as strictly as its contract allows, for tests of backends:
//   - every buffer lies by itself, fenced by canaries that no step may touch;
//   - a buffer holds NaNs before its live range and after it, so that a wrong range shows;
//   - weights are packed twice and must be the same bytes, lie by themselves, and no step may write
//     to them.

#ifndef SLUICE_ENGINE_TESTING_PROGRAM_RUNNER_H_
#define SLUICE_ENGINE_TESTING_PROGRAM_RUNNER_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/backend.h"
#include "engine/compute_team.h"
#include "engine/program.h"

namespace sluice {

using TensorContents = std::vector<std::byte>;

// Lowers on the team.
absl::StatusOr<std::unique_ptr<Program>> LowerOn(ComputeTeam& team, Backend& backend,
                                                 const Graph& graph,
                                                 const LowerOptions& options = {});

// Owns: nothing; team and program must outlive it.
class ProgramRunner {
 public:
  // How strictly buffers are watched; a benchmark wants neither fences nor NaNs.
  enum class Watch { kStrict, kNone };
  ProgramRunner(ComputeTeam& team, Program& program, Watch watch = Watch::kStrict);

  // Packs all extents. Fails: what Pack returns; INTERNAL when two runs differ.
  absl::Status Pack();
  // Runs all steps; outputs whose size is computed come without what is behind it. Requires:
  // packed; one contents for each input, of the tensor's size. Fails: what a step returns;
  // INTERNAL, a canary or the weights were overwritten, naming the step.
  absl::StatusOr<std::vector<TensorContents>> Run(std::span<const TensorContents> inputs);
  // The shapes of the outputs of the last run, as its contents decided.
  const std::vector<Shape>& output_shapes() const { return output_shapes_; }
  // Runs all steps on what the buffers hold, for timing. Call on the team.
  absl::Status RunSteps();

  std::span<const std::byte> extent(ExtentIndex index) const;

 private:
  struct Area {
    std::size_t begin = 0;  // In the arena.
    std::size_t size = 0;
  };
  absl::Status RunOnTeam(std::span<const TensorContents> inputs,
                         std::vector<TensorContents>& outputs);
  absl::Status RunStep(std::size_t step);
  void Poison(const Area& area);
  absl::Status CheckFences(std::size_t step) const;
  absl::Status CheckWeights() const;

  ComputeTeam& team_;
  Program& program_;
  const Watch watch_;
  std::vector<Shape> output_shapes_;
  std::vector<Area> areas_;  // Of each buffer.
  std::vector<Bytes> offsets_;
  std::vector<std::byte> arena_storage_;
  std::byte* arena_ = nullptr;
  std::vector<std::vector<std::byte>> extent_storage_;
  std::vector<std::byte*> extents_;
  std::vector<std::vector<std::byte>> packed_;  // Copies, to find writes.
};

// Seeded floats in [-1, 1), as the contents of a tensor; integers in [0, 4).
TensorContents RandomContents(const PortInfo& port, std::uint64_t seed);

// The largest difference between two float tensors, in units of 1 + |wanted|; infinite when one is
// NaN and the other is not, or sizes differ.
double LargestDifference(const TensorContents& found, const TensorContents& wanted);

}  // namespace sluice

#endif  // SLUICE_ENGINE_TESTING_PROGRAM_RUNNER_H_
