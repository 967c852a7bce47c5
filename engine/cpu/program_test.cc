// What holds for every program of the CPU backend: weights, extents, memory, sharing of a team.

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <numeric>
#include <thread>

#include "engine/cpu/against_reference.h"
#include "engine/cpu/weight_part.h"

namespace sluice {
namespace {

// Notes the largest window that anyone reads, and fails on demand.
class WatchedConstant final : public Constant {
 public:
  explicit WatchedConstant(std::shared_ptr<const Constant> inner) : inner_(std::move(inner)) {}
  Bytes size() const override { return inner_->size(); }
  absl::Status Read(Bytes offset, std::span<std::byte> into) const override {
    if (fail) return absl::DataLossError("watched");
    if (offset + Bytes::Of(into.size()) > size()) ++outside;
    largest = std::max(largest.load(), into.size());
    return inner_->Read(offset, into);
  }
  mutable std::atomic<std::size_t> largest = 0, outside = 0;
  std::atomic<bool> fail = false;

 private:
  std::shared_ptr<const Constant> inner_;
};

Graph TwoLayers(std::int64_t channels = 64) {
  GraphBuilder b;
  const ValueId x = b.Input({1, 3, 12, 12});
  ValueId y = b.Add(Conv(3, 1, 1), {x, b.Weights({channels, 3, 3, 3}), b.Weights({channels})});
  y = b.Add(Conv(3, 2, 1),
            {y, b.Weights({channels, channels, 3, 3}), b.Weights({channels}), std::nullopt});
  const ValueId mean =
      b.Add(Pool{Pool::Kind::kAverage, {6, 6}, {1, 1}, {1, 1}, {0, 0}, {0, 0}, false}, {y});
  const ValueId flat = b.Add(Reshape{}, {mean}, Shape{1, channels});
  return b.Finish({b.Add(FullyConnected{}, {flat, b.Weights({channels, 10}), b.Weights({10})})});
}

std::unique_ptr<Program> Lowered(const Graph& graph, const LowerOptions& options = {}) {
  auto program = LowerOn(TestTeam(), *CpuBackend(TestTeam().threads()), graph, options);
  EXPECT_TRUE(program.ok()) << program.status();
  return *std::move(program);
}

TEST(CpuProgramTest, ExtentsFollowTheStepsAndRespectTheirSizes) {
  // Sixteen channels of the second layer are 36 KiB.
  const LowerOptions options{.max_slice = 40_KiB, .min_extent = 32_KiB};
  const auto program = Lowered(TwoLayers(), options);
  std::size_t last = 0;
  for (std::size_t s = 0; s < program->steps().size(); ++s) {
    const auto extent = program->steps()[s].extent;
    if (!extent) continue;
    EXPECT_GE(Index(*extent), last);
    last = Index(*extent);
    const StepRange used = program->extents()[last].used;
    EXPECT_LE(Index(used.begin), s);
    EXPECT_GT(Index(used.end), s);
  }
  EXPECT_EQ(last + 1, program->extents().size());
  EXPECT_GT(program->extents().size(), 3u);
  for (std::size_t e = 1; e < program->extents().size(); ++e) {
    EXPECT_LE(Index(program->extents()[e - 1].used.end), Index(program->extents()[e].used.begin));
  }
  for (const ExtentInfo& extent : program->extents()) {
    EXPECT_LE(extent.size, 40_KiB);
    EXPECT_GT(extent.size, Bytes());
  }
}

TEST(CpuProgramTest, PacksFromBoundedWindowsInsideTheConstants) {
  Graph graph = TwoLayers(512);
  std::vector<std::shared_ptr<const WatchedConstant>> watched;
  for (Value& value : graph.values) {
    if (value.constant == nullptr) continue;
    watched.push_back(std::make_shared<WatchedConstant>(value.constant));
    value.constant = watched.back();
  }
  const auto program = Lowered(graph);
  ProgramRunner runner(TestTeam(), *program);
  ASSERT_TRUE(runner.Pack().ok());
  for (const auto& constant : watched) {
    EXPECT_EQ(constant->outside, 0u);
    EXPECT_LE(constant->largest, (256_KiB).count());
    EXPECT_GT(constant->largest, 0u);
  }
  EXPECT_GE(program->pack_memory(), 256_KiB);
  EXPECT_LE(program->pack_memory(), 1_MiB);
}

TEST(CpuProgramTest, ADamagedModelFileFailsThePack) {
  Graph graph = TwoLayers();
  for (Value& value : graph.values) {
    if (value.constant == nullptr) continue;
    auto watched = std::make_shared<WatchedConstant>(value.constant);
    watched->fail = true;
    value.constant = watched;
  }
  const auto program = Lowered(graph);
  ProgramRunner runner(TestTeam(), *program);
  EXPECT_TRUE(absl::IsDataLoss(runner.Pack()));
}

TEST(CpuProgramTest, ReleasesTheModelFile) {
  Graph graph = TwoLayers();
  std::vector<std::weak_ptr<const Constant>> constants;
  for (const Value& value : graph.values) {
    if (value.constant != nullptr) constants.push_back(value.constant);
  }
  const auto program = Lowered(graph);
  graph = Graph();
  program->ReleaseWeights();
  for (const auto& constant : constants) EXPECT_TRUE(constant.expired());
}

TEST(CpuProgramTest, TheFingerprintTellsLayoutsApart) {
  const std::string base = Lowered(TwoLayers())->fingerprint();
  EXPECT_EQ(Lowered(TwoLayers())->fingerprint(), base);
  EXPECT_NE(Lowered(TwoLayers(), {.max_slice = 20_KiB})->fingerprint(), base);
  EXPECT_NE(Lowered(TwoLayers(), {.min_extent = 1_KiB})->fingerprint(), base);
  EXPECT_NE(Lowered(TwoLayers(48))->fingerprint(), base);
  const auto one = LowerOn(TestTeam(), *CpuBackend(1), TwoLayers());
  ASSERT_TRUE(one.ok());
  EXPECT_NE((*one)->fingerprint(), base);
}

TEST(CpuProgramTest, EqualLayersShareTheirKernels) {
#ifdef __SANITIZE_ADDRESS__
  GTEST_SKIP() << "kernel memory is what the process grows by, the sanitizer's part included";
#endif
  const auto chain = [](int layers) {
    GraphBuilder b;
    ValueId x = b.Input({1, 16, 8, 8});
    for (int i = 0; i < layers; ++i) {
      x = b.Add(Conv(3, 1, 1), {x, b.Weights({16, 16, 3, 3}), b.Weights({16})});
    }
    return b.Finish({x});
  };
  // Far below the 40 KiB of another generated kernel for each.
  const Bytes few = Lowered(chain(4))->kernel_memory();
  EXPECT_LT(Lowered(chain(40))->kernel_memory(), few + 512_KiB);
}

TEST(CpuProgramTest, ProgramsOfOneTeamDoNotDisturbEachOther) {
  const auto first = Lowered(TwoLayers(32)), second = Lowered(TwoLayers(48));
  const auto run = [](Program& program, int rounds) {
    ProgramRunner runner(TestTeam(), program);
    EXPECT_TRUE(runner.Pack().ok());
    std::vector<TensorContents> inputs = {RandomContents(program.inputs()[0], 3)};
    const auto once = runner.Run(inputs);
    EXPECT_TRUE(once.ok());
    for (int i = 0; i < rounds; ++i) {
      const auto again = runner.Run(inputs);
      EXPECT_TRUE(again.ok() && *again == *once);
    }
  };
  std::thread other([&] { run(*first, 30); });
  run(*second, 30);
  other.join();
}

TEST(CpuProgramTest, ASecondPairOfLayersReusesTheBuffersOfTheFirst) {
  // Live ranges end with the last reader: at no step are more than three tensors alive.
  GraphBuilder b;
  ValueId x = b.Input({1, 16, 8, 8});
  for (int i = 0; i < 8; ++i)
    x = b.Add(Conv(3, 1, 1), {x, b.Weights({16, 16, 3, 3}), std::nullopt});
  const auto program = Lowered(b.Finish({x}));
  for (std::size_t s = 0; s < program->steps().size(); ++s) {
    const auto alive = std::ranges::count_if(program->buffers(), [&](const BufferInfo& buffer) {
      return Index(buffer.live.begin) <= s && s < Index(buffer.live.end);
    });
    EXPECT_LE(alive, 3) << s;
  }
}

TEST(WeightPartTest, PlacesAWindowOfRowsAndColumns) {
  std::vector<float> contents(6 * 5);
  std::iota(contents.begin(), contents.end(), 0.0f);
  std::vector<std::byte> bytes(contents.size() * sizeof(float));
  std::memcpy(bytes.data(), contents.data(), bytes.size());
  const Factor rows{.count = 2, .placement = {.outer_stride = 1}, .scale_stride = 1};
  const Factor columns{.count = 3, .placement = {.outer_stride = 8, .inner = {{2, 4}}}};
  const std::vector<float> scales = {1, 1, 1, 10, 100, 1};
  std::vector<std::byte> scale_bytes(scales.size() * sizeof(float));
  std::memcpy(scale_bytes.data(), scales.data(), scale_bytes.size());
  const WeightPart part{.source = InlineConstant(bytes),
                        .size = Bytes::Of(16 * sizeof(float)),
                        .axes = {{.factors = {rows}, .first = 3, .count = 2},
                                 {.factors = {columns}, .first = 1, .count = 3}},
                        .row_length = 5,
                        .scale = InlineConstant(scale_bytes),
                        .scale_first = 3};
  std::vector<float> packed(16, 0.0f);
  ASSERT_TRUE(PackPart(part, std::as_writable_bytes(std::span(packed))).ok());
  // Rows 3 and 4, columns 1 to 3; columns lie at 0, 4 and 8, rows one apart.
  const std::vector<float> wanted = {160, 2100, 0, 0, 170, 2200, 0, 0, 180, 2300, 0, 0, 0, 0, 0, 0};
  EXPECT_EQ(packed, wanted);
}

}  // namespace
}  // namespace sluice
