#include "streamer/testing/sum_program.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <random>
#include <utility>

#include "absl/strings/str_format.h"
#include "base/check.h"
#include "engine/widen_loops.h"
#include "model/data_type.h"
#include "streamer/page_memory.h"

namespace sluice {
namespace {

// Multiplies by a large odd number and folds: each bit of the input moves about half of the output.
std::uint64_t Mix(std::uint64_t x) {
  x = (x ^ (x >> 31)) * 0x9E3779B97F4A7C15u;
  x = (x ^ (x >> 29)) * 0xD1B54A32D192ED03u;
  return x ^ (x >> 32);
}

constexpr Bytes kHalfFloatsAt = Bytes::Of(64);

class SumProgram final : public Program {
 public:
  explicit SumProgram(const SumProgramOptions& options) : options_(options) {
    for (std::size_t extent = 0; extent < options.extents.size(); ++extent) {
      const std::size_t first = steps_.size();
      if (options.step_without_weights) AddStep(std::nullopt);
      for (std::size_t i = 0; i < options.steps_per_extent; ++i) AddStep(At<ExtentIndex>(extent));
      extents_.push_back({.size = options.extents[extent],
                          .used = {At<StepIndex>(first), At<StepIndex>(steps_.size())}});
      if (const std::uint64_t floats = HalfFloats(extent); floats > 0) {
        extents_.back().runs.push_back(
            {.offset = kHalfFloatsAt, .floats = floats, .source = DataType::kFloat16});
      }
    }
    if (steps_.empty()) AddStep(std::nullopt);
    for (std::size_t i = 0; i <= steps_.size(); ++i) {
      // Buffer i is written by step i - 1 and read by step i.
      const std::size_t begin = i == 0 ? 0 : i - 1;
      buffers_.push_back(
          {.name = absl::StrFormat("b%d", i),
           .size = options.buffer,
           .live = {At<StepIndex>(begin), At<StepIndex>(std::min(i + 1, steps_.size()))}});
    }
    const auto count = static_cast<std::int64_t>(options.buffer.count());
    inputs_.push_back({.name = "x", .type = DataType::kUint8, .shape = {count}, .buffer = {}});
    outputs_.push_back({.name = "y",
                        .type = DataType::kUint8,
                        .shape = {count},
                        .buffer = At<BufferIndex>(steps_.size())});
    fingerprint_ = absl::StrFormat("sums %d", options.seed);
  }

  absl::Status Pack(ExtentIndex extent, std::span<std::byte> into) override {
    for (std::size_t i = 0; i < into.size(); ++i) {
      const std::uint64_t word = Mix(options_.seed * 1'000'003 + Index(extent) * 7'919 + i / 8);
      into[i] = static_cast<std::byte>(word >> (i % 8 * 8));
    }
    for (std::uint64_t i = 0; i < HalfFloats(Index(extent)); ++i) {
      const auto half = static_cast<std::uint16_t>(Mix(options_.seed + i * 31 + Index(extent)));
      WidenLoopsFor(WidenIsa::kGeneric)
          ->half(&half, reinterpret_cast<float*>(into.data() + kHalfFloatsAt.count()) + i, 1);
    }
    return absl::OkStatus();
  }

  void ReleaseWeights() override {}

  absl::Status Run(StepIndex step, const StepMemory& memory) override {
    const std::optional<ExtentIndex> extent = steps_[Index(step)].extent;
    SLUICE_CHECK(extent.has_value() == (memory.extent != nullptr) ||
                 options_.extents[Index(*extent)] == Bytes());
    if (options_.during_step) options_.during_step(step, memory.extent);
    std::uint64_t sum = Mix(Index(step));
    if (extent) {
      for (const std::byte weight :
           std::span(memory.extent, options_.extents[Index(*extent)].count())) {
        sum = (sum ^ static_cast<std::uint64_t>(weight)) * 0x100000001B3u;
      }
    }
    const std::byte* const from = memory.arena + memory.offsets[Index(step)].count();
    std::byte* const to = memory.arena + memory.offsets[Index(step) + 1].count();
    for (std::size_t i = 0; i < options_.buffer.count(); ++i) {
      const auto before = static_cast<std::uint64_t>(from[i]);
      to[i] = static_cast<std::byte>(Mix(sum + i + before) & 0xFF);
    }
    return absl::OkStatus();
  }

 private:
  std::uint64_t HalfFloats(std::size_t extent) const {
    if (!options_.half_floats) return 0;
    return (options_.extents[extent] - kHalfFloatsAt).count() / sizeof(float);
  }
  void AddStep(std::optional<ExtentIndex> extent) {
    steps_.push_back({.name = absl::StrFormat("step %d", steps_.size()),
                      .kernel = "sum",
                      .extent = extent,
                      .macs = 0,
                      .touched = {}});
  }

  const SumProgramOptions options_;
};

}  // namespace

std::unique_ptr<Program> MakeSumProgram(const SumProgramOptions& options) {
  return std::make_unique<SumProgram>(options);
}

std::vector<Bytes> AnyExtents(std::uint64_t seed, std::size_t count, Bytes largest) {
  std::mt19937_64 random(seed);
  std::vector<Bytes> extents;
  for (std::size_t i = 0; i < count; ++i) {
    const std::uint64_t any = 1 + random() % largest.count();
    switch (random() % 4) {
      case 0:
        extents.push_back(Bytes::Of(1 + any % 100));
        break;
      case 1:
        extents.push_back(std::min(AlignUp(Bytes::Of(any), kPageSize), largest));
        break;
      default:
        extents.push_back(Bytes::Of(any));
    }
  }
  return extents;
}

std::vector<std::vector<std::byte>> RunWhole(Program& program,
                                             const std::vector<std::vector<std::byte>>& inputs) {
  std::vector<Bytes> offsets;
  Bytes end;
  for (const BufferInfo& buffer : program.buffers()) {
    offsets.push_back(end);
    end += AlignUp(buffer.size, kBufferAlignment);
  }
  const PageMemory arena = PageMemory::Map(std::max(end, kPageSize)).value();
  std::vector<PageMemory> extents;
  for (std::size_t i = 0; i < program.extents().size(); ++i) {
    const Bytes size = program.extents()[i].size;
    extents.push_back(PageMemory::Map(size).value());
    SLUICE_CHECK(program.Pack(At<ExtentIndex>(i), extents[i].span().first(size.count())).ok());
  }
  const auto at = [&](BufferIndex buffer) {
    return arena.span().data() + offsets[Index(buffer)].count();
  };
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    std::ranges::copy(inputs[i], at(program.inputs()[i].buffer));
  }
  for (std::size_t i = 0; i < program.steps().size(); ++i) {
    const std::optional<ExtentIndex> extent = program.steps()[i].extent;
    const StepMemory memory{.arena = arena.span().data(),
                            .offsets = offsets,
                            .extent = extent ? extents[Index(*extent)].span().data() : nullptr};
    SLUICE_CHECK(program.Run(At<StepIndex>(i), memory).ok());
  }
  std::vector<std::vector<std::byte>> outputs;
  for (const PortInfo& output : program.outputs()) {
    const Bytes size = TensorBytes(output.type, output.shape);
    outputs.emplace_back(at(output.buffer), at(output.buffer) + size.count());
  }
  return outputs;
}

}  // namespace sluice
