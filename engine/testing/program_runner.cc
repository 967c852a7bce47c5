#include "engine/testing/program_runner.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <utility>

#include "absl/strings/str_format.h"
#include "base/check.h"
#include "base/status_macros.h"
#include "engine/dynamic_output.h"

namespace sluice {
namespace {

constexpr std::size_t kFence = 128;
constexpr std::byte kCanary{0xA5};
constexpr std::byte kPoison{0xFF};  // Four of them are a NaN.
constexpr std::size_t kPage = 4096;

std::byte* AlignToPage(std::byte* address) {
  const auto number = reinterpret_cast<std::uintptr_t>(address);
  return address + (kPage - number % kPage) % kPage;
}

std::size_t AlignUp64(std::size_t size) { return (size + 63) / 64 * 64; }

}  // namespace

absl::StatusOr<std::unique_ptr<Program>> LowerOn(ComputeTeam& team, Backend& backend,
                                                 const Graph& graph, const LowerOptions& options) {
  absl::StatusOr<std::unique_ptr<Program>> program = absl::UnknownError("not run");
  team.Run([&] { program = backend.Lower(graph, options); });
  return program;
}

ProgramRunner::ProgramRunner(ComputeTeam& team, Program& program, Watch watch)
    : team_(team), program_(program), watch_(watch) {
  std::size_t at = kFence;
  for (const BufferInfo& buffer : program.buffers()) {
    const auto size = static_cast<std::size_t>(buffer.size.count());
    areas_.push_back({at, size});
    offsets_.push_back(Bytes::Of(at));
    at += AlignUp64(size) + kFence;
  }
  arena_storage_.assign(at + kPage, kCanary);
  arena_ = AlignToPage(arena_storage_.data());
  for (const Area& area : areas_) Poison(area);
}

void ProgramRunner::Poison(const Area& area) {
  std::fill_n(arena_ + area.begin, area.size, kPoison);
}

std::span<const std::byte> ProgramRunner::extent(ExtentIndex index) const {
  return {extents_[Index(index)],
          static_cast<std::size_t>(program_.extents()[Index(index)].size.count())};
}

absl::Status ProgramRunner::Pack() {
  absl::Status status;
  team_.Run([&] {
    for (std::size_t e = 0; e < program_.extents().size() && status.ok(); ++e) {
      const auto size = static_cast<std::size_t>(program_.extents()[e].size.count());
      extent_storage_.emplace_back(size + kPage);
      extents_.push_back(AlignToPage(extent_storage_.back().data()));
      const std::span<std::byte> into(extents_.back(), size);
      for (const std::byte before : {std::byte{0x11}, std::byte{0xEE}}) {
        if (watch_ == Watch::kNone && before == std::byte{0x11}) continue;
        std::ranges::fill(into, before);
        status = program_.Pack(At<ExtentIndex>(e), into);
        if (!status.ok()) return;
        if (watch_ == Watch::kNone) continue;
        if (packed_.size() <= e) {
          packed_.emplace_back(into.begin(), into.end());
        } else if (!std::ranges::equal(packed_[e], into)) {
          status = absl::InternalError(absl::StrFormat("extent %d packs differently twice", e));
        }
      }
    }
  });
  return status;
}

absl::Status ProgramRunner::RunStep(std::size_t step) {
  const StepInfo& info = program_.steps()[step];
  return program_.Run(At<StepIndex>(step),
                      {arena_, offsets_, info.extent ? extents_[Index(*info.extent)] : nullptr});
}

absl::Status ProgramRunner::RunSteps() {
  for (std::size_t s = 0; s < program_.steps().size(); ++s) {
    SLUICE_RETURN_IF_ERROR(RunStep(s));
  }
  return absl::OkStatus();
}

absl::Status ProgramRunner::CheckFences(std::size_t step) const {
  std::size_t at = 0;
  for (std::size_t b = 0; b <= areas_.size(); ++b) {
    const std::size_t end =
        b < areas_.size()
            ? areas_[b].begin
            : static_cast<std::size_t>(arena_storage_.data() + arena_storage_.size() - arena_);
    for (; at < end; ++at) {
      if (arena_[at] != kCanary) {
        return absl::InternalError(absl::StrFormat("step %d (%s, %s) wrote before buffer %d", step,
                                                   program_.steps()[step].name,
                                                   program_.steps()[step].kernel, b));
      }
    }
    if (b < areas_.size()) at = areas_[b].begin + areas_[b].size;
  }
  return absl::OkStatus();
}

absl::Status ProgramRunner::CheckWeights() const {
  for (std::size_t e = 0; e < packed_.size(); ++e) {
    if (!std::ranges::equal(packed_[e], extent(At<ExtentIndex>(e)))) {
      return absl::InternalError(absl::StrFormat("extent %d was written to", e));
    }
  }
  return absl::OkStatus();
}

absl::Status ProgramRunner::RunOnTeam(std::span<const TensorContents> inputs,
                                      std::vector<TensorContents>& outputs) {
  const auto buffers = program_.buffers();
  const bool strict = watch_ == Watch::kStrict;
  for (std::size_t s = 0; s < program_.steps().size(); ++s) {
    for (std::size_t b = 0; b < buffers.size() && strict; ++b) {
      if (Index(buffers[b].live.begin) == s) Poison(areas_[b]);
    }
    if (s == 0) {
      for (std::size_t i = 0; i < inputs.size(); ++i) {
        const Area& area = areas_[Index(program_.inputs()[i].buffer)];
        SLUICE_CHECK(inputs[i].size() <= area.size);
        std::ranges::copy(inputs[i], arena_ + area.begin);
      }
    }
    SLUICE_RETURN_IF_ERROR(RunStep(s));
    if (!strict) continue;
    SLUICE_RETURN_IF_ERROR(CheckFences(s));
    for (std::size_t b = 0; b < buffers.size(); ++b) {
      if (Index(buffers[b].live.end) == s + 1 && s + 1 < program_.steps().size()) {
        Poison(areas_[b]);
      }
    }
  }
  output_shapes_.clear();
  for (const PortInfo& port : program_.outputs()) {
    const std::byte* from = arena_ + areas_[Index(port.buffer)].begin;
    outputs.emplace_back(from, from + TensorBytes(port.type, port.shape).count());
    if (!port.dynamic) {
      output_shapes_.push_back(port.shape);
      continue;
    }
    const std::int64_t count = RealCount(port, arena_ + areas_[Index(port.dynamic->count)].begin);
    outputs.back().resize(CopyReal(port, count, from, outputs.back().data()).count());
    output_shapes_.push_back(RealShape(port, count));
  }
  return CheckWeights();
}

absl::StatusOr<std::vector<TensorContents>> ProgramRunner::Run(
    std::span<const TensorContents> inputs) {
  SLUICE_CHECK(inputs.size() == program_.inputs().size());
  std::vector<TensorContents> outputs;
  absl::Status status;
  team_.Run([&] { status = RunOnTeam(inputs, outputs); });
  if (!status.ok()) return status;
  return outputs;
}

TensorContents RandomContents(const PortInfo& port, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  const std::uint64_t count = ElementCount(port.shape);
  TensorContents contents(static_cast<std::size_t>(TensorBytes(port.type, port.shape).count()));
  for (std::uint64_t i = 0; i < count; ++i) {
    if (port.type == DataType::kFloat32) {
      const float element = static_cast<float>(random() >> 40) * 0x1p-23f - 1;
      std::memcpy(contents.data() + i * sizeof(element), &element, sizeof(element));
    } else {
      const std::size_t width = contents.size() / static_cast<std::size_t>(count);
      contents[i * width] = static_cast<std::byte>(random() % 4);
    }
  }
  return contents;
}

double LargestDifference(const TensorContents& found, const TensorContents& wanted) {
  if (found.size() != wanted.size()) return std::numeric_limits<double>::infinity();
  double largest = 0;
  for (std::size_t at = 0; at + sizeof(float) <= found.size(); at += sizeof(float)) {
    float a = 0, b = 0;
    std::memcpy(&a, found.data() + at, sizeof(float));
    std::memcpy(&b, wanted.data() + at, sizeof(float));
    if (a == b || (std::isnan(a) && std::isnan(b))) continue;
    const double difference = std::abs(static_cast<double>(a) - b) / (1 + std::abs(b));
    largest = std::max(
        largest, std::isnan(difference) ? std::numeric_limits<double>::infinity() : difference);
  }
  return largest;
}

}  // namespace sluice
