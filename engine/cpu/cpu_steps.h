// engine/cpu/cpu_steps.h
//
// The kinds of steps of the CPU backend.

#ifndef SLUICE_ENGINE_CPU_CPU_STEPS_H_
#define SLUICE_ENGINE_CPU_CPU_STEPS_H_

#include <memory>
#include <vector>

#include "engine/cpu/cpu_program.h"
#include "engine/cpu/dnnl_kernel.h"
#include "engine/cpu/vector_kernels.h"
#include "engine/kernels/kernel.h"

namespace sluice {

// A oneDNN primitive. `operands` are its arguments in order, the scratchpad last. With several
// images the primitive is for one, and operand i moves on by strides[i] for each next one.
class DnnlStep final : public CpuStep {
 public:
  struct Images {
    std::int64_t count = 1;
    std::vector<Bytes> strides;
  };
  DnnlStep(std::shared_ptr<DnnlKernel> kernel, std::vector<Operand> operands, Images images);
  absl::Status Run(const Addresses& addresses) override;

 private:
  std::shared_ptr<DnnlKernel> kernel_;
  std::vector<Operand> operands_;
  Images images_;
  std::vector<std::byte*> at_;  // Reused by every run.
};

// A kernel of engine/kernels.
class RowMajorStep final : public CpuStep {
 public:
  RowMajorStep(Kernel kernel, std::vector<Operand> inputs, Operand output, Operand scratch);
  absl::Status Run(const Addresses& addresses) override;

 private:
  Kernel kernel_;
  std::vector<Operand> inputs_;
  Operand output_, scratch_;
  std::vector<const std::byte*> at_;
};

// The same bytes in another buffer.
class CopyStep final : public CpuStep {
 public:
  CopyStep(Operand from, Operand to, Bytes size) : from_(from), to_(to), size_(size) {}
  absl::Status Run(const Addresses& addresses) override;

 private:
  Operand from_, to_;
  Bytes size_;
};

// Channels of blocked tensors side by side: every part has its place in every image.
class JoinStep final : public CpuStep {
 public:
  struct Part {
    Operand from;
    Bytes size;  // Of one image.
    Bytes at;    // In an image of the result.
  };
  // `image`: of the result.
  JoinStep(std::vector<Part> parts, Operand to, std::int64_t images, Bytes image);
  absl::Status Run(const Addresses& addresses) override;

 private:
  std::vector<Part> parts_;
  Operand to_;
  std::int64_t images_;
  Bytes image_;
};

class RowProductStep final : public CpuStep {
 public:
  RowProductStep(RowProduct shape, Operand x, Operand weights, Operand bias, Operand y)
      : shape_(shape), x_(x), weights_(weights), bias_(bias), y_(y) {}
  absl::Status Run(const Addresses& addresses) override;

 private:
  RowProduct shape_;
  Operand x_, weights_, bias_, y_;
};

class BlockedMeanStep final : public CpuStep {
 public:
  BlockedMeanStep(BlockedMean shape, Operand x, Operand y) : shape_(shape), x_(x), y_(y) {}
  absl::Status Run(const Addresses& addresses) override;

 private:
  BlockedMean shape_;
  Operand x_, y_;
};

}  // namespace sluice

#endif  // SLUICE_ENGINE_CPU_CPU_STEPS_H_
