// server/compile_model.h
//
// `sluiced compile`: makes a model's package without a daemon, so that the daemon's first start
// finds it.

#ifndef SLUICE_SERVER_COMPILE_MODEL_H_
#define SLUICE_SERVER_COMPILE_MODEL_H_

#include <filesystem>

#include "absl/status/statusor.h"
#include "base/bytes.h"
#include "engine/weight_encoder.h"
#include "server/config.h"

namespace sluice {

struct CompiledModel {
  std::filesystem::path package;
  Bytes file_size;
  WeightError weight_error;  // What `weights` changed.
  bool packed = false;       // False: it was there already, and its self-test passed.
};

// Loads the model as a daemon of this configuration would, which packs it into cache_dir and runs
// its self-test once. A daemon finds the package when it loads the same file, with the same
// dimensions, as many threads and the same build of the kernels.
// Memory: as the daemon takes while it loads a model, and the smallest arena.
// Fails: as LoadModel and CheckSelfTest; UNAVAILABLE, cache_dir cannot be made.
absl::StatusOr<CompiledModel> CompileModel(const Config& config, const ModelConfig& model);

}  // namespace sluice

#endif  // SLUICE_SERVER_COMPILE_MODEL_H_
