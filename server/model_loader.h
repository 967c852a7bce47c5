// server/model_loader.h
//
// From a model description to a model that can run: import, simplify, lower, open or build the
// package. Every step reserves its memory first, so that loading keeps the budget too.

#ifndef SLUICE_SERVER_MODEL_LOADER_H_
#define SLUICE_SERVER_MODEL_LOADER_H_

#include <filesystem>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/bytes.h"
#include "engine/backend.h"
#include "engine/compute_team.h"
#include "model/onnx/onnx_importer.h"
#include "planner/offset_plan.h"
#include "server/compute_parts.h"
#include "server/config.h"
#include "server/memory_ledger.h"
#include "server/served_model.h"
#include "streamer/package_cache.h"

namespace sluice {

// Borrowed for the call.
struct LoadContext {
  ComputeTeam& team;
  Backend& backend;
  MemoryLedger& ledger;
  PackageCache& cache;
  // Makes other models' residents give way until so many bytes of the budget are free.
  std::function<absl::Status(Bytes)> make_room;
  // Asked between extents; not OK stops the load with that status.
  std::function<absl::Status()> keep_going;
};

// For a load without a daemon: nobody's memory can give way, and nobody asks it to stop.
LoadContext OfflineContext(const ComputeParts& parts, MemoryLedger& ledger, PackageCache& cache);

// A model before its weights are packed.
struct PreparedModel {
  std::string stamp;       // As FileStamp, before the import.
  ImportedModel imported;  // Its graph is lowered and gone.
  std::unique_ptr<Program> program;
  OffsetPlan activations;
  Reservation kernels, metadata;
};

// Imports, simplifies, lowers and plans. Fails: as LoadModel.
absl::StatusOr<PreparedModel> PrepareModel(const ModelConfig& config, const LoadContext& context);

// What packing takes for a while: the largest extent, and what the backend needs to fill it.
Bytes PackingRoom(const Program& program);

// How the weights will be stored, as far as one can tell before they are packed.
struct StoredPlan {
  std::vector<Bytes> sizes;  // By extent, without what fills the pages.
  std::uint64_t runs = 0;    // Of all extents.
};
StoredPlan PlanStored(const Program& program, WeightStorage storage);

// Bytes of one inference's tensors, by port.
std::vector<Bytes> PortBytes(std::span<const PortInfo> ports);

// Everything but the model's share of memory: nothing is resident yet and costs are all zero.
// Fails: what ImportOnnx, Lower and BuildPackage fail with; FAILED_PRECONDITION when the budget has
//        no room for the import, with the bytes it takes.
absl::StatusOr<std::unique_ptr<LoadedModel>> LoadModel(const ModelConfig& config,
                                                       const LoadContext& context);

// Imports and simplifies only: what `--check` does with each model.
absl::StatusOr<ImportedModel> ImportModel(const ModelConfig& config, Bytes max_structure);

// Whether the sources that a package's identity names still are as it says: it may be used again.
bool SourcesAreUnchanged(std::string_view identity);

// Size and times of a model's file: changes when the file does. Empty when there is none.
std::string FileStamp(const std::filesystem::path& path);

}  // namespace sluice

#endif  // SLUICE_SERVER_MODEL_LOADER_H_
