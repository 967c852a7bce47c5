// Streaming a package of 64 MiB through rings of several sizes, beside raw reads of the same file
// in the same run. bytes_per_second is what to compare; `stall` is the share of the time that the
// steps, which do next to nothing, waited.

#include <benchmark/benchmark.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <vector>

#include "streamer/executor.h"
#include "streamer/testing/scratch_folder.h"
#include "streamer/testing/test_package.h"

namespace sluice {
namespace {

constexpr std::size_t kExtents = 64;
constexpr Bytes kExtent = 1_MiB;

// Steps that touch nothing but the first byte of their weights.
class IdleProgram final : public Program {
 public:
  IdleProgram() {
    for (std::size_t i = 0; i < kExtents; ++i) {
      steps_.push_back({.name = "idle",
                        .kernel = "idle",
                        .extent = At<ExtentIndex>(i),
                        .macs = 0,
                        .touched = {}});
      extents_.push_back({.size = kExtent, .used = {At<StepIndex>(i), At<StepIndex>(i + 1)}});
    }
    fingerprint_ = "idle";
  }
  absl::Status Pack(ExtentIndex extent, std::span<std::byte> into) override {
    std::ranges::fill(into, static_cast<std::byte>(Index(extent) + 1));
    return absl::OkStatus();
  }
  void ReleaseWeights() override {}
  absl::Status Run(StepIndex step, const StepMemory& memory) override {
    return memory.extent[0] == static_cast<std::byte>(Index(step) + 1)
               ? absl::OkStatus()
               : absl::InternalError("not the weights of this step");
  }
};

struct Fixture {
  ScratchFolder folder;
  std::unique_ptr<StreamedModel> model =
      MakeStreamedModel(std::make_unique<IdleProgram>(), folder.path() / "p.sluice");
};

Fixture& TheFixture() {
  static Fixture fixture;
  return fixture;
}

void BM_RawReads(benchmark::State& state) {
  const Package& package = TheFixture().model->package();
  auto device = OpenIoUringDevice(8);
  std::unique_ptr<BlockDevice> disk = device.ok() ? *std::move(device) : OpenThreadPoolDevice(4);
  const PageMemory memory = PageMemory::Map(8_MiB).value();
  disk->RegisterMemory(memory.span());
  state.SetLabel(std::string(disk->name()));
  std::vector<Completion> completions(8);
  for (auto _ : state) {
    std::size_t submitted = 0, done = 0;
    while (done < kExtents) {
      // Eight places of a mebibyte, as many reads: what lands in a place is overwritten.
      while (submitted < kExtents &&
             disk->TrySubmit({.tag = submitted,
                              .fd = package.fd(),
                              .offset = package.extents()[submitted].offset,
                              .into = memory.span().subspan(submitted % 8 << 20, 1 << 20)})) {
        ++submitted;
      }
      const std::size_t count = disk->Reap(completions, std::chrono::seconds(1));
      for (std::size_t i = 0; i < count; ++i) {
        if (completions[i].result != 1 << 20) state.SkipWithError("short or failed read");
      }
      done += count;
    }
  }
  state.SetBytesProcessed(static_cast<std::int64_t>(state.iterations() * (kExtents << 20)));
}
BENCHMARK(BM_RawReads)->UseRealTime();

void BM_Stream(benchmark::State& state) {
  StreamedModel& model = *TheFixture().model;
  auto executor = Executor::Open({.io_uring = state.range(1) == 1});
  if (!executor.ok()) return state.SkipWithError("no executor");
  state.SetLabel(std::string((*executor)->device_name()));
  const Bytes ring = 1_MiB * static_cast<std::uint64_t>(state.range(0));
  if (!(*executor)->Resize(ring).ok()) return state.SkipWithError("no memory");
  Duration stall{}, total{};
  for (auto _ : state) {
    const auto stats = (*executor)->Run(model, {}, {}, nullptr);
    if (!stats.ok()) return state.SkipWithError(std::string(stats.status().message()).c_str());
    stall += stats->stall;
    total += stats->total;
  }
  state.SetBytesProcessed(static_cast<std::int64_t>(state.iterations() * (kExtents << 20)));
  state.counters["stall"] = Seconds(stall) / std::max(Seconds(total), 1e-9);
}
BENCHMARK(BM_Stream)
    ->ArgNames({"ring_mib", "io_uring"})
    ->ArgsProduct({{1, 2, 4, 8, 16, 64}, {1, 0}})
    ->UseRealTime();

}  // namespace
}  // namespace sluice
