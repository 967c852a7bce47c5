#include "server/model_problem.h"

#include <algorithm>
#include <cstddef>
#include <optional>
#include <unordered_map>
#include <utility>

#include "absl/strings/str_format.h"
#include "base/status_macros.h"
#include "model/graph.h"
#include "server/compute_parts.h"
#include "server/model_loader.h"
#include "server/zero_run.h"
#include "streamer/package_cache.h"

namespace sluice {
namespace {

constexpr int kRounds = 5;

// Values in one place have one name: the second one gets a number, and so on.
void MakeUnique(std::vector<std::string>& ids) {
  std::unordered_map<std::string, int> seen;
  for (std::string& id : ids) {
    while (const int times = seen[id]++) absl::StrAppendFormat(&id, " #%d", times + 1);
  }
}

Duration Estimate(const StepInfo& step, int threads) {
  const double computing =
      static_cast<double>(step.macs) / (kMacsPerSecondAndThread * static_cast<double>(threads));
  const double moving = static_cast<double>(step.touched.count()) / kTouchedBytesPerSecond;
  return kStepOverhead + std::chrono::duration_cast<Duration>(
                             std::chrono::duration<double>(std::max(computing, moving)));
}

absl::StatusOr<ModelProblem> ProblemOf(const PreparedModel& prepared, const ComputeParts& parts,
                                       StepTimes times) {
  Program& program = *prepared.program;
  ModelProblem problem;
  problem.times = times;
  for (const BufferInfo& buffer : program.buffers()) {
    problem.buffers.ids.push_back(buffer.name);
    problem.buffers.records.push_back({.size = buffer.size, .live = buffer.live});
  }
  MakeUnique(problem.buffers.ids);
  for (const ExtentInfo& extent : program.extents()) {
    const std::string& first = program.steps()[Index(extent.used.begin)].name;
    const std::string& last = program.steps()[Index(extent.used.end) - 1].name;
    problem.extent_names.push_back(first == last ? first
                                                 : absl::StrFormat("%s to %s", first, last));
    problem.extents.push_back(AlignUp(extent.size, kPageSize));
  }
  absl::StatusOr<std::vector<Duration>> measured = std::vector<Duration>();
  if (times == StepTimes::kMeasured) {
    parts.team->Run([&] { measured = RunOnZeros(program, prepared.activations, kRounds); });
    SLUICE_RETURN_IF_ERROR(measured.status());
  }
  for (std::size_t i = 0; i < program.steps().size(); ++i) {
    const StepInfo& step = program.steps()[i];
    problem.steps.push_back(
        {.compute = measured->empty() ? Estimate(step, parts.team->threads()) : (*measured)[i],
         .extent = step.extent});
  }
  return problem;
}

}  // namespace

absl::StatusOr<ModelProblem> ProblemOfModel(const Config& config, const ModelConfig& model,
                                            StepTimes times) {
  SLUICE_ASSIGN_OR_RETURN(const ComputeParts parts, StartComputeParts(config));
  MemoryLedger ledger(Bytes::Max());
  PackageCache cache({});  // Nothing is packed.
  absl::StatusOr<PreparedModel> prepared =
      PrepareModel(model, OfflineContext(parts, ledger, cache));
  SLUICE_RETURN_IF_ERROR(prepared.status());
  absl::StatusOr<ModelProblem> problem = ProblemOf(*prepared, parts, times);
  // Kernels are freed where they were made.
  parts.team->Run([&] { prepared->program.reset(); });
  return problem;
}

absl::StatusOr<NamedRecords> RecordsAsWritten(const ModelConfig& model) {
  constexpr Bytes kMaxStructure = 64_MiB;
  SLUICE_ASSIGN_OR_RETURN(const ImportedModel imported, ImportModel(model, kMaxStructure));
  const Graph& graph = imported.graph;
  const auto end = At<StepIndex>(std::max<std::size_t>(graph.nodes.size(), 1));
  std::vector<std::optional<StepRange>> lives(graph.values.size());
  for (const ValueId input : graph.inputs) {
    lives[Index(input)] = StepRange{At<StepIndex>(0), At<StepIndex>(1)};
  }
  for (std::size_t n = 0; n < graph.nodes.size(); ++n) {
    const auto after = At<StepIndex>(n + 1);
    for (const std::optional<ValueId>& input : graph.nodes[n].inputs) {
      if (input && lives[Index(*input)]) lives[Index(*input)]->end = after;
    }
    lives[Index(graph.nodes[n].output)] = StepRange{At<StepIndex>(n), after};
  }
  for (const ValueId output : graph.outputs) {
    if (lives[Index(output)]) lives[Index(output)]->end = end;
  }
  NamedRecords problem;
  for (std::size_t v = 0; v < graph.values.size(); ++v) {
    if (!lives[v]) continue;
    const Value& value = graph.values[v];
    problem.ids.push_back(value.name);
    problem.records.push_back({.size = TensorBytes(value.type, value.shape), .live = *lives[v]});
  }
  MakeUnique(problem.ids);
  return problem;
}

}  // namespace sluice
