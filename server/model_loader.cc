#include "server/model_loader.h"

#include <sys/stat.h>

#include <algorithm>
#include <functional>
#include <utility>

#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "base/status_macros.h"
#include "model/rewrite.h"
#include "planner/offset_plan.h"
#include "server/process_memory.h"
#include "server/warm_up.h"
#include "streamer/page_memory.h"

namespace sluice {
namespace {

// Structure beyond initialisers, most of all nodes and names: a thousand nodes take some 100 KiB.
constexpr Bytes kLeastStructure = 1_MiB;
constexpr Bytes kMaxStructure = 16_MiB;
// What lowering takes for a node, from networks with many small kernels; corrected afterwards.
constexpr Bytes kLoweringPerNode = 32_KiB;
// What we keep for each step and buffer: records, names, costs. Measured once the model has run.
constexpr Bytes kMetadataPerStep = Bytes::Of(512);

absl::StatusOr<Reservation> ReserveRoom(const LoadContext& context, std::string_view line,
                                        const std::string& model, Bytes bytes) {
  absl::StatusOr<Reservation> reservation = context.ledger.Reserve(line, model, bytes);
  if (reservation.ok()) return reservation;
  const absl::Status made = context.make_room(bytes);
  if (made.ok()) reservation = context.ledger.Reserve(line, model, bytes);
  if (reservation.ok()) return reservation;
  return absl::FailedPreconditionError(
      absl::StrFormat("loading model '%s' takes %s: %s", model, FormatBytes(bytes),
                      made.ok() ? reservation.status().message() : made.message()));
}

absl::StatusOr<ImportedModel> ImportWithin(const ModelConfig& config, const LoadContext& context,
                                           Bytes max_structure, Reservation& import) {
  import = Reservation();
  SLUICE_ASSIGN_OR_RETURN(import, ReserveRoom(context, "import", config.name, max_structure * 2));
  absl::StatusOr<ImportedModel> imported = ImportModel(config, max_structure);
  // The parsed file is gone; the graph stays until it is lowered.
  if (imported.ok()) SLUICE_RETURN_IF_ERROR(import.Resize(imported->structure_memory));
  return imported;
}

// Most networks' structure is small, so little is reserved at first.
absl::StatusOr<ImportedModel> ImportInSteps(const ModelConfig& config, const LoadContext& context,
                                            Reservation& import) {
  Bytes structure = kLeastStructure;
  for (;;) {
    absl::StatusOr<ImportedModel> imported = ImportWithin(config, context, structure, import);
    if (!absl::IsResourceExhausted(imported.status()) || structure >= kMaxStructure) {
      return imported;
    }
    structure = structure * 2;
  }
}

// Lowers on the compute team, and books what the kernels took and an estimate for the rest.
absl::StatusOr<std::unique_ptr<Program>> LowerWithin(const ModelConfig& config,
                                                     const LoadContext& context, const Graph& graph,
                                                     PreparedModel& prepared) {
  SLUICE_ASSIGN_OR_RETURN(
      prepared.kernels,
      ReserveRoom(context, "kernels", config.name, kLoweringPerNode * (graph.nodes.size() + 1)));
  absl::StatusOr<std::unique_ptr<Program>> lowered;
  context.team.Run([&] { lowered = context.backend.Lower(graph, {}); });
  if (!lowered.ok()) return lowered;
  const Program& program = **lowered;
  const Bytes metadata = kMetadataPerStep * (program.steps().size() + program.buffers().size());
  SLUICE_RETURN_IF_ERROR(prepared.kernels.Resize(program.kernel_memory()));
  SLUICE_ASSIGN_OR_RETURN(prepared.metadata,
                          ReserveRoom(context, "metadata", config.name, metadata));
  return lowered;
}

Bytes LargestExtent(const Program& program) {
  Bytes largest;
  for (const ExtentInfo& extent : program.extents()) {
    largest = std::max(largest, AlignUp(extent.size, kPageSize));
  }
  return largest;
}

OffsetPlan PlanActivations(const Program& program) {
  std::vector<UsageRecord> records;
  records.reserve(program.buffers().size());
  for (const BufferInfo& buffer : program.buffers()) {
    records.push_back({.size = buffer.size, .live = buffer.live});
  }
  return PlanOffsets(records);
}

PackageIdentity IdentityOf(const ModelConfig& config, const ImportedModel& imported,
                           const Program& program) {
  PackageIdentity identity{"identity 1\n"};
  for (const std::filesystem::path& file : imported.files) {
    identity.text += absl::StrFormat("file %s %s\n", file.string(), FileStamp(file));
  }
  identity.text += absl::StrFormat("structure %016x\n", imported.structure_hash);
  for (const auto& [name, size] : config.dims) {
    identity.text += absl::StrFormat("dimension %s %d\n", name, size);
  }
  for (const auto& [name, numbers] : config.values) {
    identity.text += absl::StrFormat("values %s %s\n", name, absl::StrJoin(numbers, " "));
  }
  identity.text += absl::StrFormat("weights %s\n", std::string(Name(config.weights)));
  identity.text += absl::StrFormat("program %s\n", program.fingerprint());
  return identity;
}

using WithRoom = std::function<absl::Status(Bytes, const std::function<absl::Status()>&)>;

absl::Status Build(const std::filesystem::path& path, const PackageIdentity& identity,
                   const ModelConfig& config, std::span<const Bytes> sizes, Program& program,
                   const LoadContext& context, WithRoom with_room) {
  SLUICE_ASSIGN_OR_RETURN(const Reservation import,
                          ReserveRoom(context, "import", config.name, PackingRoom(program)));
  SLUICE_ASSIGN_OR_RETURN(const PageMemory staging, PageMemory::Map(LargestExtent(program)));
  // One extent at a time, so that inferences of other models run between.
  const auto pack = [&](ExtentIndex extent, std::span<std::byte> pages) {
    absl::StatusOr<PackedExtent> packed;
    context.team.Run([&] { packed = PackExtent(program, extent, config.weights, pages); });
    return packed;
  };
  const StoredPlan planned = PlanStored(program, config.weights);
  const auto progress = [&](Bytes, Bytes) { return context.keep_going(); };
  return BuildPackage(path, identity, sizes, pack,
                      {.progress = progress,
                       .staging = staging.span(),
                       .stored_sizes = planned.sizes,
                       .most_runs = planned.runs,
                       .with_room = std::move(with_room)});
}

absl::StatusOr<std::shared_ptr<const Package>> OpenOrBuild(const ModelConfig& config,
                                                           const ImportedModel& imported,
                                                           Program& program,
                                                           const LoadContext& context) {
  std::vector<Bytes> sizes;
  for (const ExtentInfo& extent : program.extents()) sizes.push_back(extent.size);
  const PackageIdentity identity = IdentityOf(config, imported, program);
  const auto build = [&](const std::filesystem::path& path, WithRoom with_room) {
    absl::Status built =
        Build(path, identity, config, sizes, program, context, std::move(with_room));
    if (built.ok() && IdentityOf(config, imported, program).text != identity.text) {
      context.cache.Condemn(path);
      built = absl::DataLossError(absl::StrFormat(
          "%s: the file changed while it was read, want one that stays", config.path.string()));
    }
    return built;
  };
  return context.cache.OpenOrBuild({.identity = identity,
                                    .extent_sizes = sizes,
                                    .build = build,
                                    .keep_going = context.keep_going});
}

// Costs are unknown until the model has run once.
std::vector<StepCost> UnknownCosts(const Program& program) {
  std::vector<StepCost> costs;
  for (const StepInfo& step : program.steps()) {
    costs.push_back({.compute = Duration::zero(), .extent = step.extent});
  }
  return costs;
}

}  // namespace

LoadContext OfflineContext(const ComputeParts& parts, MemoryLedger& ledger, PackageCache& cache) {
  return {.team = *parts.team,
          .backend = *parts.backend,
          .ledger = ledger,
          .cache = cache,
          .make_room = [](Bytes) { return absl::OkStatus(); },
          .keep_going = [] { return absl::OkStatus(); }};
}

// Reads what IdentityOf writes: "file PATH STAMP", where the path may have spaces and the stamp has
// four words.
bool SourcesAreUnchanged(std::string_view identity) {
  constexpr std::string_view kFile = "file ";
  while (!identity.empty()) {
    std::string_view line = identity.substr(0, identity.find('\n'));
    identity.remove_prefix(std::min(line.size() + 1, identity.size()));
    if (!line.starts_with(kFile)) continue;
    line.remove_prefix(kFile.size());
    std::size_t space = line.size();
    for (int word = 0; word < 4 && space != std::string_view::npos && space > 0; ++word) {
      space = line.rfind(' ', space - 1);
    }
    if (space == std::string_view::npos || space == 0) continue;
    if (FileStamp(line.substr(0, space)) != line.substr(space + 1)) return false;
  }
  return true;
}

std::string FileStamp(const std::filesystem::path& path) {
  struct stat info {};
  if (stat(path.c_str(), &info) != 0) return {};
  return absl::StrFormat("%d %d.%09d %d.%09d %d", info.st_size, info.st_mtim.tv_sec,
                         info.st_mtim.tv_nsec, info.st_ctim.tv_sec, info.st_ctim.tv_nsec,
                         info.st_ino);
}

absl::StatusOr<ImportedModel> ImportModel(const ModelConfig& config, Bytes max_structure) {
  ImportOptions options;
  options.dims = config.dims;
  options.numbers = config.values;
  options.root = config.root;
  options.max_structure = max_structure;
  SLUICE_ASSIGN_OR_RETURN(ImportedModel imported, ImportOnnx(config.path, options));
  SLUICE_RETURN_IF_ERROR(Simplify(imported.graph));
  return imported;
}

Bytes PackingRoom(const Program& program) { return LargestExtent(program) + program.pack_memory(); }

StoredPlan PlanStored(const Program& program, WeightStorage storage) {
  StoredPlan plan;
  plan.sizes.reserve(program.extents().size());
  for (const ExtentInfo& extent : program.extents()) {
    const std::vector<EncodedRun> runs = PlannedRuns(extent.runs, storage);
    plan.sizes.push_back(StoredSize(extent.size, runs));
    plan.runs += runs.size();
  }
  return plan;
}

std::vector<Bytes> PortBytes(std::span<const PortInfo> ports) {
  std::vector<Bytes> bytes;
  for (const PortInfo& port : ports) bytes.push_back(TensorBytes(port.type, port.shape));
  return bytes;
}

absl::StatusOr<PreparedModel> PrepareModel(const ModelConfig& config, const LoadContext& context) {
  PreparedModel prepared;
  prepared.stamp = FileStamp(config.path);
  Reservation import;
  SLUICE_ASSIGN_OR_RETURN(prepared.imported, ImportInSteps(config, context, import));
  SLUICE_ASSIGN_OR_RETURN(prepared.program,
                          LowerWithin(config, context, prepared.imported.graph, prepared));
  prepared.imported.graph = Graph();
  ReturnFreedMemory();
  prepared.activations = PlanActivations(*prepared.program);
  return prepared;
}

absl::StatusOr<std::unique_ptr<LoadedModel>> LoadModel(const ModelConfig& config,
                                                       const LoadContext& context) {
  SLUICE_ASSIGN_OR_RETURN(PreparedModel prepared, PrepareModel(config, context));
  Program& program = *prepared.program;
  SLUICE_ASSIGN_OR_RETURN(std::shared_ptr<const Package> package,
                          OpenOrBuild(config, prepared.imported, program, context));
  program.ReleaseWeights();
  ReturnFreedMemory();
  auto loaded = std::make_unique<LoadedModel>();
  loaded->stamp = std::move(prepared.stamp);
  loaded->kernels = std::move(prepared.kernels);
  loaded->metadata = std::move(prepared.metadata);
  loaded->required = std::move(prepared.imported.specialised);
  loaded->input_bytes = PortBytes(program.inputs());
  loaded->output_bytes = PortBytes(program.outputs());
  loaded->costs = UnknownCosts(program);
  SLUICE_ASSIGN_OR_RETURN(loaded->weights, context.ledger.Reserve("weights", config.name, Bytes()));
  loaded->streamed = std::make_unique<StreamedModel>(
      std::move(prepared.program), std::move(package), std::move(prepared.activations));
  for (const ExtentRecord& extent : loaded->streamed->package().extents()) {
    loaded->read_bytes.push_back(extent.stored_pages());
  }
  loaded->plan.resident.assign(loaded->streamed->extent_bytes().size(), false);
  return loaded;
}

}  // namespace sluice
