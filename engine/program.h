// engine/program.h
//
// A graph lowered for one device: steps that run in order, the buffers and weights that they use,
// and the kernels behind them. A program owns no tensor memory: whoever runs it supplies an arena,
// places for the buffers, and the weights of each step.
//
//   buffers   b0 --step 0--> b1 --step 1--> b2 ...     places in the arena come from the planner
//   weights      extent 0        extent 0|1            from memory or from the SSD, by the streamer

#ifndef SLUICE_ENGINE_PROGRAM_H_
#define SLUICE_ENGINE_PROGRAM_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "base/bytes.h"
#include "base/ids.h"
#include "engine/weight_encoding.h"
#include "model/data_type.h"

namespace sluice {

// Bytes that steps read and write: an intermediate tensor in the kernel's layout, scratch, or an
// input or output of the model. Aligned to kBufferAlignment.
struct BufferInfo {
  std::string name;
  Bytes size;
  StepRange live;  // Inputs live from step 0, outputs until the last step.
};

// A contiguous run of packed weights: one read. Extents are used in order: the steps of one are
// consecutive, and those of extent k come before those of k + 1.
struct ExtentInfo {
  Bytes size;  // Payload; in memory it takes whole pages.
  StepRange used;
  std::vector<WeightRun> runs = {};  // Floats that may be stored narrower: in order and apart.
};

struct StepInfo {
  std::string name;    // The node's, with the slice's number when there are several.
  std::string kernel;  // Which implementation, such as "conv jit:avx512_core nChw16c".
  std::optional<ExtentIndex> extent;
  std::uint64_t macs = 0;
  Bytes touched;  // Bytes of buffers and weights that it reads and writes, for costs.
};

// An input or output of the model: a row-major tensor in a buffer of its own.
struct PortInfo {
  // Of an output: `axis` is as large as the kInt64 in `count` says, at most as the shape does.
  struct Dynamic {
    std::size_t axis = 0;
    BufferIndex count{};
  };
  std::string name;
  DataType type = DataType::kFloat32;
  Shape shape;
  BufferIndex buffer{};
  std::optional<Dynamic> dynamic = {};
  // Of an input that the graph was made for one content of: that; empty: anything will do.
  std::vector<std::byte> required = {};
};

// What a step is given to run with. Borrowed for the call.
struct StepMemory {
  std::byte* arena = nullptr;         // Aligned to kPageSize.
  std::span<const Bytes> offsets;     // Of every buffer, counted from `arena`.
  const std::byte* extent = nullptr;  // Start of the step's extent; null when it has none.
};

// Threads: Pack and Run only on the compute team's thread (compute_team.h), one call at a time; the
// rest from anywhere.
class Program {
 public:
  virtual ~Program() = default;

  std::span<const StepInfo> steps() const { return steps_; }
  std::span<const BufferInfo> buffers() const { return buffers_; }
  std::span<const ExtentInfo> extents() const { return extents_; }
  std::span<const PortInfo> inputs() const { return inputs_; }
  std::span<const PortInfo> outputs() const { return outputs_; }

  // Names everything that the packed bytes depend on beside the graph: kernels, weight layouts,
  // slices, library version, instruction set, threads. A package with another one is rebuilt.
  const std::string& fingerprint() const { return fingerprint_; }

  // Memory that the program's kernels hold: an estimate from its creation, for the ledger.
  Bytes kernel_memory() const { return kernel_memory_; }

  // Most memory that Pack takes for itself while it runs, beside `into`.
  Bytes pack_memory() const { return pack_memory_; }

  // Writes the packed weights of one extent, in any order of extents. Same graph and fingerprint,
  // same bytes; what lies between weights is zero. Requires: into.size() == the extent's size,
  // aligned to kPageSize.
  // Fails: DATA_LOSS when the model file cannot be read or has changed.
  virtual absl::Status Pack(ExtentIndex extent, std::span<std::byte> into) = 0;

  // Writes the scales that a run of an extent was multiplied by, by slot of its channels; 1 where
  // a slot is filling.
  // Requires: that run is scaled and has channels; one place in `into` for each.
  // Fails: as Pack.
  virtual absl::Status ReadScale(ExtentIndex extent, std::size_t run, std::span<float> into);

  // Lets go of the model file: after this, Pack is a bug.
  virtual void ReleaseWeights() = 0;

  // Runs one step: reads its input buffers and weights, writes its output buffers. Allocates
  // nothing of ours. Fails: INTERNAL, the kernel library refused; a bug or lack of memory.
  virtual absl::Status Run(StepIndex step, const StepMemory& memory) = 0;

 protected:
  std::vector<StepInfo> steps_;
  std::vector<BufferInfo> buffers_;
  std::vector<ExtentInfo> extents_;
  std::vector<PortInfo> inputs_, outputs_;
  std::string fingerprint_;
  Bytes kernel_memory_, pack_memory_;
};

}  // namespace sluice

#endif  // SLUICE_ENGINE_PROGRAM_H_
