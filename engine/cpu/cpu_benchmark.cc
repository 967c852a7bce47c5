// Kernels of the CPU backend on the shapes of networks we serve, weights resident.

#include <benchmark/benchmark.h>

#include <vector>

#include "base/check.h"
#include "engine/backend.h"
#include "engine/compute_team.h"
#include "engine/testing/graph_builder.h"
#include "engine/testing/program_runner.h"

namespace sluice {
namespace {

ComputeTeam& Team() {
  static ComputeTeam team(2);
  return team;
}

// Runs the whole program on the team, over and over; reports multiply-accumulates and weight bytes
// a second.
void RunGraph(benchmark::State& state, const Graph& graph) {
  const auto program = LowerOn(Team(), *CpuBackend(Team().threads()), graph);
  SLUICE_CHECK(program.ok());
  ProgramRunner runner(Team(), **program, ProgramRunner::Watch::kNone);
  SLUICE_CHECK(runner.Pack().ok());
  std::vector<TensorContents> inputs;
  for (const PortInfo& port : (*program)->inputs()) inputs.push_back(RandomContents(port, 1));
  if (!runner.Run(inputs).ok()) {
    state.SkipWithError("a step failed");
    return;
  }
  double macs = 0, weights = 0;
  for (const StepInfo& step : (*program)->steps()) macs += static_cast<double>(step.macs);
  for (const ExtentInfo& extent : (*program)->extents()) {
    weights += static_cast<double>(extent.size.count());
  }
  Team().Run([&] {
    for (auto _ : state) SLUICE_CHECK(runner.RunSteps().ok());
  });
  using benchmark::Counter;
  state.counters["flops"] = Counter(2 * macs, Counter::kIsIterationInvariantRate);
  state.counters["weight_bytes"] = Counter(weights, Counter::kIsIterationInvariantRate);
  state.counters["steps"] = static_cast<double>((*program)->steps().size());
}

// Input channels, output channels, pixels a side, kernel, stride.
void Convolve(benchmark::State& state) {
  GraphBuilder b;
  const std::int64_t in = state.range(0), out = state.range(1), size = state.range(2);
  const std::int64_t kernel = state.range(3);
  const ValueId x = b.Input({1, in, size, size});
  const ValueId w = b.Weights({out, in, kernel, kernel});
  RunGraph(state,
           b.Finish({b.Add(Conv(kernel, state.range(4), kernel / 2), {x, w, b.Weights({out})})}));
}
BENCHMARK(Convolve)
    ->Args({3, 64, 224, 7, 2})
    ->Args({64, 64, 56, 3, 1})
    ->Args({256, 512, 56, 1, 2})
    ->Args({128, 128, 28, 3, 1})
    ->Args({256, 256, 14, 3, 1})
    ->Args({1024, 256, 14, 1, 1})
    ->Args({512, 512, 7, 3, 1})
    ->Args({512, 2048, 7, 1, 1})
    ->UseRealTime();

// Rows, inputs, outputs.
void Product(benchmark::State& state) {
  GraphBuilder b;
  const ValueId x = b.Input({state.range(0), state.range(1)});
  const ValueId w = b.Weights({state.range(1), state.range(2)});
  RunGraph(state, b.Finish({b.Add(FullyConnected{}, {x, w, b.Weights({state.range(2)})})}));
}
BENCHMARK(Product)
    ->Args({1, 2048, 1000})
    ->Args({1, 25088, 1024})
    ->Args({1, 4096, 4096})
    ->Args({8, 2048, 1000})
    ->Args({128, 768, 3072})
    ->UseRealTime();

struct Stage {
  std::int64_t blocks, width, stride;
};

ValueId Convolved(GraphBuilder& b, ValueId x, std::int64_t out, Convolution conv,
                  std::optional<ValueId> added = std::nullopt) {
  if (added) conv.epilogues.push_back(ThenAdd(4));
  conv.epilogues.push_back(Then(Unary::Kind::kRelu));
  const ValueId w = b.Weights({out, b.shape(x)[1], conv.kernel[0], conv.kernel[1]}, -0.05f, 0.05f);
  std::vector<std::optional<ValueId>> inputs = {x, w, b.Weights({out}), std::nullopt};
  if (added) inputs.push_back(added);
  return b.Add(conv, inputs);
}

// ResNet-50 (He et al., 2015): the layers' shapes, random weights.
void ResNet50(benchmark::State& state) {
  GraphBuilder b;
  ValueId x = Convolved(b, b.Input({1, 3, 224, 224}), 64, Conv(7, 2, 3));
  x = b.Add(Pool{Pool::Kind::kMax, {3, 3}, {2, 2}, {1, 1}, {1, 1}, {1, 1}, false}, {x});
  for (const Stage& stage :
       {Stage{3, 64, 1}, Stage{4, 128, 2}, Stage{6, 256, 2}, Stage{3, 512, 2}}) {
    for (std::int64_t block = 0; block < stage.blocks; ++block) {
      const std::int64_t stride = block == 0 ? stage.stride : 1;
      const ValueId narrow = Convolved(b, x, stage.width, Conv(1));
      const ValueId middle = Convolved(b, narrow, stage.width, Conv(3, stride, 1));
      ValueId shortcut = x;
      if (block == 0) {
        const ValueId w = b.Weights({4 * stage.width, b.shape(x)[1], 1, 1}, -0.05f, 0.05f);
        shortcut = b.Add(Conv(1, stride), {x, w, b.Weights({4 * stage.width})});
      }
      x = Convolved(b, middle, 4 * stage.width, Conv(1), shortcut);
    }
  }
  x = b.Add(Pool{Pool::Kind::kAverage, {7, 7}, {1, 1}, {1, 1}, {0, 0}, {0, 0}, false}, {x});
  x = b.Add(Reshape{}, {x}, Shape{1, 2048});
  x = b.Add(FullyConnected{true, {}},
            {x, b.Weights({1000, 2048}, -0.05f, 0.05f), b.Weights({1000})});
  RunGraph(state, b.Finish({x}));
}
BENCHMARK(ResNet50)->MeasureProcessCPUTime()->UseRealTime()->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace sluice
