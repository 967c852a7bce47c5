#include "engine/cpu/cpu_program.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/check.h"
#include "base/status_macros.h"
#include "engine/cpu/weight_run.h"

namespace sluice {

std::byte* Addresses::At(const Operand& operand) const {
  switch (operand.space) {
    case Operand::Space::kAbsent:
      return nullptr;
    case Operand::Space::kBuffer:
      return memory_.arena + (memory_.offsets[Index(operand.buffer)] + operand.offset).count();
    case Operand::Space::kWeights:
      return const_cast<std::byte*>(weights_) + operand.offset.count();
  }
  return nullptr;
}

CpuProgram::CpuProgram(Parts parts)
    : kernels_(std::move(parts.kernels)),
      weights_at_(std::move(parts.weights_at)),
      weights_(std::move(parts.weights)) {
  SLUICE_CHECK(kernels_.size() == parts.steps.size() && weights_at_.size() == kernels_.size() &&
               weights_.size() == kernels_.size());
  steps_ = std::move(parts.steps);
  buffers_ = std::move(parts.buffers);
  extents_ = std::move(parts.extents);
  inputs_ = std::move(parts.inputs);
  outputs_ = std::move(parts.outputs);
  fingerprint_ = std::move(parts.fingerprint);
  kernel_memory_ = parts.kernel_memory;
  for (const std::vector<WeightPart>& step : weights_) {
    for (const WeightPart& part : step) {
      pack_memory_ = std::max({pack_memory_, PackMemory(part), EncodingMemory(part)});
    }
  }
}

absl::Status CpuProgram::Pack(ExtentIndex extent, std::span<std::byte> into) {
  SLUICE_CHECK(!released_);
  const ExtentInfo& info = extents_[Index(extent)];
  SLUICE_CHECK(into.size() == info.size.count());
  std::ranges::fill(into, std::byte{0});
  for (std::size_t s = Index(info.used.begin); s < Index(info.used.end); ++s) {
    for (const WeightPart& part : weights_[s]) {
      const auto at = static_cast<std::size_t>((weights_at_[s] + part.offset).count());
      SLUICE_RETURN_IF_ERROR(
          PackPart(part, into.subspan(at, static_cast<std::size_t>(part.size.count()))));
    }
  }
  return absl::OkStatus();
}

absl::Status CpuProgram::ReadScale(ExtentIndex extent, std::size_t run, std::span<float> into) {
  SLUICE_CHECK(!released_);
  const ExtentInfo& info = extents_[Index(extent)];
  for (std::size_t s = Index(info.used.begin); s < Index(info.used.end); ++s) {
    if (steps_[s].extent != extent) continue;
    for (const WeightPart& part : weights_[s]) {
      if (RunOf(part) && run-- == 0) return ReadScaleOf(part, into);
    }
  }
  SLUICE_CHECK(false);
  return absl::OkStatus();
}

void CpuProgram::ReleaseWeights() {
  weights_.clear();
  weights_.shrink_to_fit();
  released_ = true;
}

absl::Status CpuProgram::Run(StepIndex step, const StepMemory& memory) {
  const std::size_t s = Index(step);
  const std::byte* weights =
      memory.extent == nullptr ? nullptr : memory.extent + weights_at_[s].count();
  return kernels_[s]->Run(Addresses(memory, weights));
}

}  // namespace sluice
