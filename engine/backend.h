// engine/backend.h
//
// A way to compute: lowers graphs to programs.

#ifndef SLUICE_ENGINE_BACKEND_H_
#define SLUICE_ENGINE_BACKEND_H_

#include <memory>
#include <string_view>

#include "absl/status/statusor.h"
#include "base/bytes.h"
#include "engine/compute_team.h"
#include "engine/program.h"
#include "model/graph.h"

namespace sluice {

struct LowerOptions {
  // A step whose weights are larger is cut into slices of its output channels or columns, where
  // that is possible; the cut is the same whatever the budget, so answers are too.
  Bytes max_slice = 4_MiB;
  // Weights of consecutive small steps share an extent up to this size.
  Bytes min_extent = 512_KiB;
};

// Threads: Lower runs on the calling thread, which must be the compute team's.
class Backend {
 public:
  virtual ~Backend() = default;
  virtual std::string_view name() const = 0;
  // Fails: UNIMPLEMENTED, with the whole list of nodes that have no kernel and why.
  virtual absl::StatusOr<std::unique_ptr<Program>> Lower(const Graph& graph,
                                                         const LowerOptions& options) = 0;
};

// oneDNN, and our own vectorised kernels for what it lacks. `threads` is the size of the team that
// the program will run on.
std::unique_ptr<Backend> CpuBackend(int threads);

// The plain definition of each operation: slow, for tests.
std::unique_ptr<Backend> ReferenceBackend();

}  // namespace sluice

#endif  // SLUICE_ENGINE_BACKEND_H_
