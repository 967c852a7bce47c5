#include "server/model_loader.h"

#include <sys/stat.h>

#include <algorithm>
#include <system_error>
#include <utility>

#include "absl/strings/str_format.h"
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
// What we keep for each step and buffer: records, names, costs.
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

// Lowers on the compute team, and books what the kernels took: what the program says, or what the
// process grew by when that is more.
absl::StatusOr<std::unique_ptr<Program>> LowerWithin(const ModelConfig& config,
                                                     const LoadContext& context, const Graph& graph,
                                                     Reservation& kernels) {
  SLUICE_ASSIGN_OR_RETURN(kernels, ReserveRoom(context, "kernels", config.name,
                                               kLoweringPerNode * (graph.nodes.size() + 1)));
  absl::StatusOr<std::unique_ptr<Program>> lowered;
  context.team.Run([&] { lowered = context.backend.Lower(graph, {}); });
  if (!lowered.ok()) return lowered;
  const Program& program = **lowered;
  const Bytes metadata = kMetadataPerStep * (program.steps().size() + program.buffers().size());
  SLUICE_RETURN_IF_ERROR(kernels.Resize(program.kernel_memory() + metadata));
  return lowered;
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
  identity.text += absl::StrFormat("program %s\n", program.fingerprint());
  return identity;
}

absl::Status Build(const std::filesystem::path& path, const PackageIdentity& identity,
                   const ModelConfig& config, std::span<const Bytes> sizes, Program& program,
                   const LoadContext& context) {
  Bytes largest;
  for (const Bytes size : sizes) largest = std::max(largest, AlignUp(size, kPageSize));
  SLUICE_ASSIGN_OR_RETURN(const Reservation import, ReserveRoom(context, "import", config.name,
                                                                largest + program.pack_memory()));
  SLUICE_ASSIGN_OR_RETURN(const PageMemory staging, PageMemory::Map(largest));
  // One extent at a time, so that inferences of other models run between.
  const auto pack = [&](ExtentIndex extent, std::span<std::byte> into) {
    absl::Status packed;
    context.team.Run([&] { packed = program.Pack(extent, into); });
    return packed;
  };
  const auto progress = [&](Bytes, Bytes) { return context.keep_going(); };
  return BuildPackage(path, identity, sizes, pack,
                      {.progress = progress, .staging = staging.span()});
}

absl::StatusOr<std::shared_ptr<const Package>> OpenOrBuild(const ModelConfig& config,
                                                           const ImportedModel& imported,
                                                           Program& program,
                                                           const LoadContext& context) {
  std::vector<Bytes> sizes;
  for (const ExtentInfo& extent : program.extents()) sizes.push_back(extent.size);
  const PackageIdentity identity = IdentityOf(config, imported, program);
  const std::filesystem::path path = context.cache_dir / identity.FileName();
  absl::StatusOr<std::shared_ptr<const Package>> package = Package::Open(path, identity, sizes);
  const bool rebuild = absl::IsNotFound(package.status()) || absl::IsDataLoss(package.status()) ||
                       absl::IsFailedPrecondition(package.status());
  if (!rebuild) return package;
  SLUICE_RETURN_IF_ERROR(Build(path, identity, config, sizes, program, context));
  if (IdentityOf(config, imported, program).text != identity.text) {
    std::error_code ignored;
    std::filesystem::remove(path, ignored);
    return absl::DataLossError(absl::StrFormat(
        "%s: the file changed while it was read, want one that stays", config.path.string()));
  }
  return Package::Open(path, identity, sizes);
}

std::vector<Bytes> PortBytes(std::span<const PortInfo> ports) {
  std::vector<Bytes> bytes;
  for (const PortInfo& port : ports) bytes.push_back(TensorBytes(port.type, port.shape));
  return bytes;
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
  options.root = config.root;
  options.max_structure = max_structure;
  SLUICE_ASSIGN_OR_RETURN(ImportedModel imported, ImportOnnx(config.path, options));
  SLUICE_RETURN_IF_ERROR(Simplify(imported.graph));
  return imported;
}

absl::StatusOr<std::unique_ptr<LoadedModel>> LoadModel(const ModelConfig& config,
                                                       const LoadContext& context) {
  auto loaded = std::make_unique<LoadedModel>();
  loaded->stamp = FileStamp(config.path);
  Reservation import;
  SLUICE_ASSIGN_OR_RETURN(ImportedModel imported, ImportInSteps(config, context, import));
  SLUICE_ASSIGN_OR_RETURN(std::unique_ptr<Program> program,
                          LowerWithin(config, context, imported.graph, loaded->kernels));
  imported.graph = Graph();
  ReturnFreedMemory();
  import = Reservation();
  OffsetPlan activations = PlanActivations(*program);
  SLUICE_ASSIGN_OR_RETURN(std::shared_ptr<const Package> package,
                          OpenOrBuild(config, imported, *program, context));
  program->ReleaseWeights();
  ReturnFreedMemory();
  loaded->input_bytes = PortBytes(program->inputs());
  loaded->output_bytes = PortBytes(program->outputs());
  loaded->costs = UnknownCosts(*program);
  SLUICE_ASSIGN_OR_RETURN(loaded->weights, context.ledger.Reserve("weights", config.name, Bytes()));
  loaded->streamed = std::make_unique<StreamedModel>(std::move(program), std::move(package),
                                                     std::move(activations));
  loaded->plan.resident.assign(loaded->streamed->extent_bytes().size(), false);
  return loaded;
}

}  // namespace sluice
