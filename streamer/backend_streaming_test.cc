// Real kernels: a small residual network gives the same bytes with its weights in memory, streamed
// through rings of several sizes, and anything between.

#include <gtest/gtest.h>

#include <filesystem>
#include <functional>
#include <memory>
#include <ostream>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "engine/backend.h"
#include "engine/testing/graph_builder.h"
#include "streamer/executor.h"
#include "streamer/testing/scratch_folder.h"
#include "streamer/testing/sum_program.h"
#include "streamer/testing/test_package.h"

namespace sluice {
namespace {

struct Kind {
  std::string name;
  std::function<std::unique_ptr<Backend>()> make;
  friend void PrintTo(const Kind& kind, std::ostream* out) { *out << kind.name; }
};

// Four convolutions of 147 KiB and a matrix product of 200 KiB behind a stem.
Graph ResidualNet() {
  GraphBuilder graph(3);
  const ValueId image = graph.Input({1, 3, 17, 19});
  Convolution stem = Conv(3, 2, 1);
  stem.epilogues = {Then(Unary::Kind::kRelu)};
  ValueId x = graph.Add(stem, {image, graph.Weights({64, 3, 3, 3}), graph.Weights({64}), {}});
  for (int block = 0; block < 2; ++block) {
    Convolution first = Conv(3, 1, 1);
    first.epilogues = {Then(Unary::Kind::kRelu)};
    Convolution second = Conv(3, 1, 1);
    second.epilogues = {ThenAdd(4), Then(Unary::Kind::kRelu)};
    const ValueId inner =
        graph.Add(first, {x, graph.Weights({64, 64, 3, 3}, -0.1f, 0.1f), graph.Weights({64}), {}});
    x = graph.Add(second,
                  {inner, graph.Weights({64, 64, 3, 3}, -0.1f, 0.1f), graph.Weights({64}), {}, x});
  }
  const ValueId flat = graph.Add(Reshape{}, {x}, Shape{1, 64 * 9 * 10});
  const ValueId answer = graph.Add(
      FullyConnected{}, {flat, graph.Weights({64 * 9 * 10, 10}, -0.1f, 0.1f), graph.Weights({10})});
  return graph.Finish({answer});
}

class BackendStreamingTest : public testing::TestWithParam<Kind> {};

TEST_P(BackendStreamingTest, GivesTheSameBytesResidentAndStreamedThroughAnyRing) {
  const std::unique_ptr<Backend> backend = GetParam().make();
  const Graph graph = ResidualNet();
  const LowerOptions options{.max_slice = 64_KiB, .min_extent = 16_KiB};
  auto whole = backend->Lower(graph, options);
  ASSERT_TRUE(whole.ok()) << whole.status();
  const std::size_t input_size =
      TensorBytes((*whole)->inputs()[0].type, (*whole)->inputs()[0].shape).count();
  std::vector<float> pixels(input_size / sizeof(float));
  for (std::size_t i = 0; i < pixels.size(); ++i) pixels[i] = static_cast<float>(i % 255) / 255;
  const auto bytes = std::as_bytes(std::span(pixels));
  const std::vector<std::vector<std::byte>> inputs = {{bytes.begin(), bytes.end()}};
  const std::vector<std::vector<std::byte>> wanted = RunWhole(**whole, inputs);

  const ScratchFolder folder;
  auto program = backend->Lower(graph, options);
  ASSERT_TRUE(program.ok()) << program.status();
  const auto model = MakeStreamedModel(*std::move(program), folder.path() / "p.sluice");
  model->program().ReleaseWeights();
  const auto executor = Executor::Open({.read_size = 32_KiB});
  ASSERT_TRUE(executor.ok()) << executor.status();
  const std::size_t extents = model->extent_bytes().size();
  EXPECT_GE(extents, 4u);
  const Bytes least = MinimumArena(*model);
  for (const Bytes more : {Bytes(), kPageSize, 64_KiB, 200_KiB, model->weight_bytes()}) {
    ASSERT_TRUE((*executor)->Resize(least + more).ok());
    for (const std::size_t residents : {std::size_t{0}, extents / 2, extents}) {
      SCOPED_TRACE(FormatBytes(more) + " more, residents " + std::to_string(residents));
      std::vector<bool> resident(extents);
      for (std::size_t i = 0; i < residents; ++i) resident[i * 2 % extents] = true;
      if (residents == extents) resident.assign(extents, true);
      ASSERT_TRUE((*executor)->SetResidents(*model, resident).ok());
      const auto outputs = RunOnce(**executor, *model, inputs);
      ASSERT_TRUE(outputs.ok()) << outputs.status();
      EXPECT_EQ(*outputs, wanted);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Backends, BackendStreamingTest,
                         testing::Values(Kind{"Reference", [] { return ReferenceBackend(); }},
                                         Kind{"Cpu", [] { return CpuBackend(2); }}),
                         [](const testing::TestParamInfo<Kind>& info) { return info.param.name; });

}  // namespace
}  // namespace sluice
