// engine/cpu/cpu_program.h
//
// The program of the CPU backend: a list of steps that know their kernels and operands.

#ifndef SLUICE_ENGINE_CPU_CPU_PROGRAM_H_
#define SLUICE_ENGINE_CPU_CPU_PROGRAM_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "engine/cpu/weight_part.h"
#include "engine/program.h"

namespace sluice {

// Where an operand of a step lies.
struct Operand {
  enum class Space : std::uint8_t { kAbsent, kBuffer, kWeights };
  Space space = Space::kAbsent;
  BufferIndex buffer{};
  Bytes offset;  // In the buffer, or in the step's weights.

  static Operand In(BufferIndex buffer, Bytes offset = Bytes()) {
    return {Space::kBuffer, buffer, offset};
  }
  static Operand Weights(Bytes offset) { return {Space::kWeights, {}, offset}; }
  Operand Shifted(Bytes by) const { return {space, buffer, offset + by}; }
};

// Turns operands into addresses, for one run of one step.
class Addresses {
 public:
  Addresses(const StepMemory& memory, const std::byte* weights)
      : memory_(memory), weights_(weights) {}

  // Null for an absent operand. Weights must not be written to, though oneDNN's interface takes
  // them without const.
  std::byte* At(const Operand& operand) const;

 private:
  const StepMemory& memory_;
  const std::byte* weights_;
};

class CpuStep {
 public:
  virtual ~CpuStep() = default;
  virtual absl::Status Run(const Addresses& addresses) = 0;
};

class CpuProgram final : public Program {
 public:
  struct Parts {
    std::vector<StepInfo> steps;
    std::vector<BufferInfo> buffers;
    std::vector<ExtentInfo> extents;
    std::vector<PortInfo> inputs, outputs;
    std::string fingerprint;
    Bytes kernel_memory;
    std::vector<std::unique_ptr<CpuStep>> kernels;  // One for each step.
    std::vector<Bytes> weights_at;                  // Of each step, in its extent.
    std::vector<std::vector<WeightPart>> weights;   // Of each step.
  };
  explicit CpuProgram(Parts parts);

  absl::Status Pack(ExtentIndex extent, std::span<std::byte> into) override;
  absl::Status ReadScale(ExtentIndex extent, std::size_t run, std::span<float> into) override;
  void ReleaseWeights() override;
  absl::Status Run(StepIndex step, const StepMemory& memory) override;

 private:
  std::vector<std::unique_ptr<CpuStep>> kernels_;
  std::vector<Bytes> weights_at_;
  std::vector<std::vector<WeightPart>> weights_;
  bool released_ = false;
};

}  // namespace sluice

#endif  // SLUICE_ENGINE_CPU_CPU_PROGRAM_H_
