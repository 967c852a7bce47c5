#include "engine/cpu/cpu_steps.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/check.h"
#include "base/status_macros.h"

namespace sluice {
namespace {

float* Floats(std::byte* bytes) { return reinterpret_cast<float*>(bytes); }

}  // namespace

DnnlStep::DnnlStep(std::shared_ptr<DnnlKernel> kernel, std::vector<Operand> operands, Images images)
    : kernel_(std::move(kernel)),
      operands_(std::move(operands)),
      images_(std::move(images)),
      at_(operands_.size()) {
  SLUICE_CHECK(operands_.size() == kernel_->argument_count());
  SLUICE_CHECK(images_.count == 1 || images_.strides.size() == operands_.size());
}

absl::Status DnnlStep::Run(const Addresses& addresses) {
  for (std::int64_t image = 0; image < images_.count; ++image) {
    for (std::size_t i = 0; i < operands_.size(); ++i) {
      at_[i] = addresses.At(operands_[i]);
      if (image > 0) at_[i] += (images_.strides[i] * static_cast<std::uint64_t>(image)).count();
    }
    SLUICE_RETURN_IF_ERROR(kernel_->Run(at_));
  }
  return absl::OkStatus();
}

RowMajorStep::RowMajorStep(Kernel kernel, std::vector<Operand> inputs, Operand output,
                           Operand scratch)
    : kernel_(std::move(kernel)),
      inputs_(std::move(inputs)),
      output_(output),
      scratch_(scratch),
      at_(inputs_.size()) {}

absl::Status RowMajorStep::Run(const Addresses& addresses) {
  for (std::size_t i = 0; i < inputs_.size(); ++i) at_[i] = addresses.At(inputs_[i]);
  kernel_.run(at_, addresses.At(output_), addresses.At(scratch_));
  return absl::OkStatus();
}

absl::Status CopyStep::Run(const Addresses& addresses) {
  const auto size = static_cast<std::size_t>(size_.count());
  if (size > 0) std::memcpy(addresses.At(to_), addresses.At(from_), size);
  return absl::OkStatus();
}

JoinStep::JoinStep(std::vector<Part> parts, Operand to, std::int64_t images, Bytes image)
    : parts_(std::move(parts)), to_(to), images_(images), image_(image) {}

absl::Status JoinStep::Run(const Addresses& addresses) {
  for (std::int64_t image = 0; image < images_; ++image) {
    const auto n = static_cast<std::uint64_t>(image);
    for (const Part& part : parts_) {
      std::byte* to = addresses.At(to_) + (image_ * n + part.at).count();
      const std::byte* from = addresses.At(part.from) + (part.size * n).count();
      const auto lines = static_cast<std::int64_t>(part.size.count() / kBufferAlignment.count());
      constexpr auto kLine = static_cast<std::int64_t>(kBufferAlignment.count());
      constexpr std::int64_t kLinesOfChunk = 1024;
#pragma omp parallel for schedule(static)
      for (std::int64_t line = 0; line < lines; line += kLinesOfChunk) {
        const std::int64_t count = std::min(kLinesOfChunk, lines - line);
        std::memcpy(to + line * kLine, from + line * kLine,
                    static_cast<std::size_t>(count * kLine));
      }
      const auto copied = static_cast<std::size_t>(lines * kLine);
      std::memcpy(to + copied, from + copied, static_cast<std::size_t>(part.size.count()) - copied);
    }
  }
  return absl::OkStatus();
}

absl::Status RowProductStep::Run(const Addresses& addresses) {
  MultiplyRow(shape_, Floats(addresses.At(x_)), Floats(addresses.At(weights_)),
              Floats(addresses.At(bias_)), Floats(addresses.At(y_)));
  return absl::OkStatus();
}

absl::Status BlockedMeanStep::Run(const Addresses& addresses) {
  MeanOfPixels(shape_, Floats(addresses.At(x_)), Floats(addresses.At(y_)));
  return absl::OkStatus();
}

}  // namespace sluice
