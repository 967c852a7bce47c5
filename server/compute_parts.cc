#include "server/compute_parts.h"

#include "base/status_macros.h"
#include "server/compute_threads.h"
#include "server/warm_up.h"

namespace sluice {
absl::StatusOr<ComputeParts> StartComputeParts(const Config& config) {
  TuneAllocator();
  const int threads = ComputeThreads(config).threads;
  ComputeParts parts{.team = std::make_unique<ComputeTeam>(threads),
                     .backend = CpuBackend(threads),
                     .executor = nullptr};
  SLUICE_RETURN_IF_ERROR(WarmUp(*parts.backend, *parts.team));
  SLUICE_ASSIGN_OR_RETURN(parts.executor, Executor::Open({.io_uring = config.io_uring}));
  ReturnFreedMemory();
  return parts;
}

}  // namespace sluice
