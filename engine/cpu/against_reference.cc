#include "engine/cpu/against_reference.h"

#include <algorithm>

namespace sluice {
namespace {

Outcome RunOn(Backend& backend, const Graph& graph, const LowerOptions& options) {
  Outcome outcome;
  const auto program = LowerOn(TestTeam(), backend, graph, options);
  EXPECT_TRUE(program.ok()) << program.status();
  if (!program.ok()) return outcome;
  for (const StepInfo& step : (*program)->steps()) outcome.kernels.push_back(step.kernel);
  outcome.fingerprint = (*program)->fingerprint();
  ProgramRunner runner(TestTeam(), **program);
  const absl::Status packed = runner.Pack();
  EXPECT_TRUE(packed.ok()) << packed;
  std::vector<TensorContents> inputs;
  for (const PortInfo& port : (*program)->inputs()) {
    inputs.push_back(RandomContents(port, 17 + inputs.size()));
  }
  auto outputs = runner.Run(inputs);
  EXPECT_TRUE(outputs.ok()) << outputs.status();
  if (outputs.ok()) outcome.outputs = *std::move(outputs);
  // The buffers hold what the first run left: the second must not notice.
  const auto again = runner.Run(inputs);
  EXPECT_TRUE(again.ok() && *again == outcome.outputs) << "a second run differs";
  return outcome;
}

}  // namespace

ComputeTeam& TestTeam() {
  static ComputeTeam team(2);
  return team;
}

Outcome RunCpu(const Graph& graph, const LowerOptions& options) {
  return RunOn(*CpuBackend(TestTeam().threads()), graph, options);
}

std::vector<TensorContents> RunReference(const Graph& graph) {
  return RunOn(*ReferenceBackend(), graph, {}).outputs;
}

Outcome ExpectMatchesReference(const Graph& graph, const LowerOptions& options, double tolerance) {
  const std::vector<TensorContents> wanted = RunReference(graph);
  Outcome found = RunCpu(graph, options);
  EXPECT_EQ(found.outputs.size(), wanted.size());
  for (std::size_t i = 0; i < wanted.size() && i < found.outputs.size(); ++i) {
    if (graph.value(graph.outputs[i]).type == DataType::kFloat32) {
      EXPECT_LE(LargestDifference(found.outputs[i], wanted[i]), tolerance) << "output " << i;
    } else {
      EXPECT_EQ(found.outputs[i], wanted[i]) << "output " << i;
    }
  }
  if (testing::Test::HasFailure()) {
    for (const std::string& kernel : found.kernels) {
      ADD_FAILURE() << "kernel: " << kernel;
    }
  }
  return found;
}

std::size_t Count(const Outcome& outcome, const std::string& part) {
  return static_cast<std::size_t>(std::ranges::count_if(
      outcome.kernels,
      [&](const std::string& kernel) { return kernel.find(part) != std::string::npos; }));
}

}  // namespace sluice
