// streamer/executor.h
//
// Runs programs whose weights may lie on the SSD. One executor is one slot: an arena and the right
// to run one inference at a time. Weights that are not resident pass through a ring in the arena,
// read ahead of the steps by the reader thread (asynchronous two-stage pipeline).
//
//   arena   | activations, planned offsets |              ring of extents              |
//           0                       activations                                     arena size

#ifndef SLUICE_STREAMER_EXECUTOR_H_
#define SLUICE_STREAMER_EXECUTOR_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/bytes.h"
#include "base/clock.h"
#include "engine/compute_team.h"
#include "engine/program.h"
#include "planner/offset_plan.h"
#include "planner/residency.h"
#include "streamer/block_device.h"
#include "streamer/extent_stream.h"
#include "streamer/package.h"
#include "streamer/page_memory.h"

namespace sluice {

// A program, its package, its activation plan, and those weights that stay in memory.
// Threads: SetResidents on the compute team, between inferences; the rest from anywhere.
class StreamedModel {
 public:
  // Requires: steps use extents in order, and the package has the program's extents.
  StreamedModel(std::unique_ptr<Program> program, std::shared_ptr<const Package> package,
                OffsetPlan activations);
  ~StreamedModel();

  Program& program() { return *program_; }
  const Program& program() const { return *program_; }
  const Package& package() const { return *package_; }
  const OffsetPlan& activations() const { return activations_; }
  // Sizes of the extents in memory: whole pages.
  std::span<const Bytes> extent_bytes() const { return extent_bytes_; }
  Bytes weight_bytes() const;    // Sum of the above.
  Bytes resident_bytes() const;  // Atomic: for metrics.
  // Null for a streamed extent.
  const std::byte* resident(ExtentIndex extent) const;

 private:
  friend class Executor;
  std::unique_ptr<Program> program_;
  std::shared_ptr<const Package> package_;
  OffsetPlan activations_;
  std::vector<Bytes> extent_bytes_;
  std::vector<std::optional<StepIndex>> last_step_;  // By extent; none when no step uses it.
  std::vector<PageMemory> residents_;                // Empty for a streamed one.
  std::atomic<std::uint64_t> resident_bytes_{0};
};

struct InferenceStats {
  Duration total{};
  Duration stall{};  // Time that ready steps waited for their weights.
  Bytes streamed;    // Read from the SSD.
  std::size_t reads = 0;
  // Extents that steps used: in memory, or through the ring, and of those already verified when
  // their step was ready.
  std::size_t resident_extents = 0, streamed_extents = 0, prefetched_extents = 0;
};

// What a model does on this machine.
struct ModelProfile {
  std::vector<StepCost> costs;
  std::uint64_t answer = 0;  // Checksum of the self-test's outputs (self_test.h).
};

// Called before each step: OK goes on, anything else ends the inference with that status (deadline,
// cancellation, preemption).
using StepGate = std::function<absl::Status(StepIndex)>;

// Threads: Resize, SetResidents, Profile and Run on the compute team's leader only.
class Executor {
 public:
  struct Options {
    bool io_uring = true;  // False, or refused by the kernel: the thread pool.
    std::size_t queue_depth = 8;
    Bytes read_size = 1_MiB;  // Larger extents are read by several reads in flight together.
  };
  // Starts the reader thread, which reads and verifies.
  static absl::StatusOr<std::unique_ptr<Executor>> Open(const Options& options);
  // The same on a device of the caller's, such as the simulator; of the options only read_size
  // counts.
  static std::unique_ptr<Executor> OpenOn(std::unique_ptr<BlockDevice> device,
                                          const Options& options);
  ~Executor();

  std::string_view device_name() const;
  const StorageStatistics& storage() const;

  // Gives the slot an arena of this size; the old one is returned first, contents lost.
  // Fails: RESOURCE_EXHAUSTED; the slot has no arena then.
  absl::Status Resize(Bytes arena);
  Bytes arena() const;  // Atomic: for metrics.

  // Reads the extents that become resident and returns the memory of those that no longer are,
  // first. Fails: DATA_LOSS, a damaged extent: the model must not run on; RESOURCE_EXHAUSTED.
  // After a failure nothing is resident that was not verified.
  absl::Status SetResidents(StreamedModel& model, const std::vector<bool>& resident);

  // Runs one inference: `inputs` in the order of program().inputs(), each exactly as large as its
  // tensor; `outputs` likewise, written only when the answer is OK; an empty span is an output that
  // nobody wants. Where an output's size is computed, only what is real is written, to the front of
  // the span (dynamic_output.h), and the number of entries to `counts`, which has one for each
  // output or none at all.
  // Fails: DATA_LOSS, an extent does not match its checksum (names package and extent);
  //        FAILED_PRECONDITION, the arena is too small for this model; what `gate` returns;
  //        UNAVAILABLE, the disk failed. The next inference starts clean in every case.
  absl::StatusOr<InferenceStats> Run(StreamedModel& model,
                                     std::span<const std::span<const std::byte>> inputs,
                                     std::span<const std::span<std::byte>> outputs,
                                     const StepGate& gate, std::span<std::int64_t> counts = {});

  // Runs the self-test `rounds` times, weights as they are now: its answer, and the compute time of
  // each step, the median without stalls. Takes no memory beside the arena. Requires: rounds >= 1.
  // Fails: as Run; INTERNAL, two rounds gave different answers.
  absl::StatusOr<ModelProfile> Profile(StreamedModel& model, int rounds);

  // Reading and verifying, measured on the package's own extents (some tens of MiB at most), which
  // pass through the arena; those larger than it are left out.
  // Fails: FAILED_PRECONDITION, no extent fits the arena; as Run.
  absl::StatusOr<ReadCost> MeasureReads(StreamedModel& model);

 private:
  class Impl;
  explicit Executor(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

// The least arena that runs `model` with nothing resident.
Bytes MinimumArena(const StreamedModel& model);

}  // namespace sluice

#endif  // SLUICE_STREAMER_EXECUTOR_H_
