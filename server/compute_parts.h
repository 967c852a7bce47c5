// server/compute_parts.h
//
// What computes, before there is a model: the team, the backend, the executor. The daemon and the
// program's verbs begin with the same ones, so that what a verb promises is what the daemon finds.

#ifndef SLUICE_SERVER_COMPUTE_PARTS_H_
#define SLUICE_SERVER_COMPUTE_PARTS_H_

#include <memory>

#include "absl/status/statusor.h"
#include "engine/backend.h"
#include "engine/compute_team.h"
#include "server/config.h"
#include "streamer/executor.h"

namespace sluice {

struct ComputeParts {
  std::unique_ptr<ComputeTeam> team;
  std::unique_ptr<Backend> backend;
  std::unique_ptr<Executor> executor;
};

// Tunes the allocator, starts the parts and warms them up. Call before other threads exist.
// Fails: as WarmUp and Executor::Open.
absl::StatusOr<ComputeParts> StartComputeParts(const Config& config);

}  // namespace sluice

#endif  // SLUICE_SERVER_COMPUTE_PARTS_H_
