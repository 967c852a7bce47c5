#include "server/compile_model.h"

#include <memory>
#include <utility>

#include "base/status_macros.h"
#include "server/compute_parts.h"
#include "server/model_loader.h"
#include "server/open_cache.h"
#include "server/self_test_record.h"

namespace sluice {
namespace {

// On the compute team.
absl::Status RunSelfTest(Executor& executor, StreamedModel& model) {
  SLUICE_RETURN_IF_ERROR(executor.Resize(MinimumArena(model)));
  SLUICE_ASSIGN_OR_RETURN(const ModelProfile profile, executor.Profile(model, /*rounds=*/1));
  return CheckSelfTest(model.package().path(), profile.answer, ThisComputingCode());
}

}  // namespace

absl::StatusOr<CompiledModel> CompileModel(const Config& config, const ModelConfig& model) {
  SLUICE_ASSIGN_OR_RETURN(const std::unique_ptr<PackageCache> cache, OpenCache(config));
  SLUICE_ASSIGN_OR_RETURN(const ComputeParts parts, StartComputeParts(config));
  MemoryLedger ledger(Bytes::Max());
  CompiledModel compiled;
  LoadContext context = OfflineContext(parts, ledger, *cache);
  context.keep_going = [&] {  // Asked only between extents that are packed.
    compiled.packed = true;
    return absl::OkStatus();
  };
  SLUICE_ASSIGN_OR_RETURN(std::unique_ptr<LoadedModel> loaded, LoadModel(model, context));
  compiled.package = loaded->streamed->package().path();
  compiled.file_size = loaded->streamed->package().file_size();
  compiled.weight_error = loaded->streamed->package().weight_error();
  absl::Status tested;
  parts.team->Run([&] {
    tested = RunSelfTest(*parts.executor, *loaded->streamed);
    loaded.reset();
  });
  SLUICE_RETURN_IF_ERROR(tested);
  return compiled;
}

}  // namespace sluice
