#include <omp.h>

#include "engine/backend.h"
#include "engine/cpu/lowering.h"

namespace sluice {
namespace {

class CpuBackendImpl final : public Backend {
 public:
  explicit CpuBackendImpl(int threads) : threads_(threads) {}

  std::string_view name() const override { return "cpu"; }

  absl::StatusOr<std::unique_ptr<Program>> Lower(const Graph& graph,
                                                 const LowerOptions& options) override {
    // oneDNN splits work at creation, and would keep primitives of unloaded models.
    omp_set_num_threads(threads_);
    dnnl::set_primitive_cache_capacity(0);
    return Lowering(graph, options).Lower(threads_);
  }

 private:
  const int threads_;
};

}  // namespace

std::unique_ptr<Backend> CpuBackend(int threads) {
  return std::make_unique<CpuBackendImpl>(threads);
}

}  // namespace sluice
