// server/model_loader.h
//
// From a model description to a model that can run: import, simplify, lower, open or build the
// package. Every step reserves its memory first, so that loading keeps the budget too.

#ifndef SLUICE_SERVER_MODEL_LOADER_H_
#define SLUICE_SERVER_MODEL_LOADER_H_

#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/bytes.h"
#include "engine/backend.h"
#include "engine/compute_team.h"
#include "model/onnx/onnx_importer.h"
#include "server/config.h"
#include "server/memory_ledger.h"
#include "server/served_model.h"
#include "streamer/package.h"

namespace sluice {

// Borrowed for the call.
struct LoadContext {
  ComputeTeam& team;
  Backend& backend;
  MemoryLedger& ledger;
  std::filesystem::path cache_dir;
  // Makes other models' residents give way until so many bytes of the budget are free.
  std::function<absl::Status(Bytes)> make_room;
  // Asked between extents; not OK stops the load with that status.
  std::function<absl::Status()> keep_going;
};

// Everything but the model's share of memory: nothing is resident yet and costs are all zero.
// Fails: what ImportOnnx, Lower and BuildPackage fail with; FAILED_PRECONDITION when the budget has
//        no room for the import, with the bytes it takes.
absl::StatusOr<std::unique_ptr<LoadedModel>> LoadModel(const ModelConfig& config,
                                                       const LoadContext& context);

// Imports and simplifies only: what `--check` does with each model.
absl::StatusOr<ImportedModel> ImportModel(const ModelConfig& config, Bytes max_structure);

// Size and times of a model's file: changes when the file does. Empty when there is none.
std::string FileStamp(const std::filesystem::path& path);

}  // namespace sluice

#endif  // SLUICE_SERVER_MODEL_LOADER_H_
