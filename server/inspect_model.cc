#include "server/inspect_model.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "base/status_macros.h"
#include "server/base_memory.h"
#include "server/budget_need.h"
#include "server/compute_parts.h"
#include "server/model_loader.h"
#include "server/process_memory.h"
#include "server/warm_up.h"
#include "server/zero_run.h"

namespace sluice {
namespace {

// What two runs of the same steps differ by, packing included, which is not done here.
constexpr Bytes kGrowthVariation = 1536_KiB;

Bytes Sum(std::span<const Bytes> amounts) {
  Bytes sum;
  for (const Bytes amount : amounts) sum += amount;
  return sum;
}

// Files that are read to learn what is missing or how large the constants are; nothing is kept.
absl::StatusOr<Bytes> FileWeights(const ModelConfig& model, ModelInspection& inspection) {
  ImportOptions options;
  options.dims = model.dims;
  options.numbers = model.values;
  options.root = model.root;
  options.missing = &inspection.unsupported;
  SLUICE_ASSIGN_OR_RETURN(const ImportedModel imported, ImportOnnx(model.path, options));
  return WeightBytes(imported.graph);
}

ModelPlan PlanOf(const Config& config, const ModelConfig& model, const PreparedModel& prepared,
                 ModelNeed need) {
  const Program& program = *prepared.program;
  ModelPlan plan;
  plan.inputs.assign(program.inputs().begin(), program.inputs().end());
  plan.outputs.assign(program.outputs().begin(), program.outputs().end());
  plan.steps = program.steps().size();
  std::vector<Bytes> extents;
  for (const ExtentInfo& extent : program.extents()) {
    extents.push_back(AlignUp(extent.size, kPageSize));
    plan.largest_extent = std::max(plan.largest_extent, extents.back());
  }
  for (const Bytes size : PlanStored(program, model.weights).sizes) {
    plan.stored += AlignUp(size, kPageSize);
  }
  plan.extents = extents.size();
  plan.weights = Sum(extents);
  for (const StepInfo& step : program.steps()) plan.macs += step.macs;
  for (const BufferInfo& buffer : program.buffers()) {
    plan.naive_activations += AlignUp(buffer.size, kBufferAlignment);
  }
  plan.activations = prepared.activations.height;
  need.kernels = prepared.kernels.bytes() + prepared.metadata.bytes();
  need.loading = std::max(need.loading, need.kernels + PackingRoom(program));
  need.request = RequestMemory(PortBytes(program.inputs()), PortBytes(program.outputs()));
  need.demand = DemandOf(model, {}, extents, plan.activations);
  plan.smallest_budget = SmallestBudget(config, need);
  plan.largest_useful_budget = LargestUsefulBudget(config, need);
  return plan;
}

// What the process holds beyond what it held before.
struct Growth {
  Bytes anonymous, files;
};

Growth GrowthSince(const ProcessMemory& before) {
  ReturnFreedMemory();
  const ProcessMemory now = ReadProcessMemory();
  const auto anonymous = [](const ProcessMemory& process) {
    return process.resident + process.swapped - process.files;
  };
  return {.anonymous = anonymous(now) - anonymous(before), .files = now.files - before.files};
}

// Requires: the compute parts have started, and nothing else has been done in this process: what a
// look at the model leaves behind would be taken for the daemon's.
absl::StatusOr<ModelPlan> Plan(const Config& config, const ModelConfig& model,
                               const ComputeParts& parts) {
  ModelNeed need;
  need.start = BaseMemory::LeastNow();
  need.base = BaseMemory::SettledNow();
  ReturnFreedMemory();
  const ProcessMemory before = ReadProcessMemory();
  MemoryLedger ledger(Bytes::Max());
  PackageCache cache({});  // Nothing is packed.
  absl::StatusOr<PreparedModel> prepared =
      PrepareModel(model, OfflineContext(parts, ledger, cache));
  SLUICE_RETURN_IF_ERROR(prepared.status());
  need.loading = ledger.peak();
  // The daemon corrects its headroom when the model is lowered, and books what is left in memory
  // once it has run.
  const Growth lowered = GrowthSince(before);
  absl::Status run;
  parts.team->Run(
      [&] { run = RunOnZeros(*prepared->program, prepared->activations, /*rounds=*/1).status(); });
  SLUICE_RETURN_IF_ERROR(run);
  const Growth settled = GrowthSince(before);
  const Bytes headroom = BaseMemory::HeadroomFor(
      settled.files + (lowered.anonymous - ledger.reserved()) + kGrowthVariation);
  need.base += headroom + (settled.anonymous - ledger.reserved());
  ModelPlan plan = PlanOf(config, model, *prepared, need);
  // Kernels are freed where they were made.
  parts.team->Run([&] { prepared->program.reset(); });
  return plan;
}

}  // namespace

absl::StatusOr<ModelInspection> InspectModel(const Config& config, const ModelConfig& model) {
  SLUICE_ASSIGN_OR_RETURN(const ComputeParts parts, StartComputeParts(config));
  absl::StatusOr<ModelPlan> plan = Plan(config, model, parts);
  ModelInspection inspection;
  SLUICE_ASSIGN_OR_RETURN(inspection.file, SummarizeOnnx(model.path, {}));
  const absl::StatusOr<Bytes> file_weights = FileWeights(model, inspection);
  inspection.problem = plan.status();
  if (!plan.ok()) return inspection;
  SLUICE_ASSIGN_OR_RETURN(plan->file_weights, file_weights);
  inspection.plan = *std::move(plan);
  return inspection;
}

}  // namespace sluice
