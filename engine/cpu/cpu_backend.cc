#include <omp.h>

#include <optional>
#include <utility>
#include <vector>

#include "engine/backend.h"
#include "engine/cpu/lowering.h"
#include "engine/cpu/node_order.h"
#include "engine/cpu/subsample.h"
#include "planner/offset_plan.h"

namespace sluice {
namespace {

Bytes ArenaHeight(const Program& program) {
  std::vector<UsageRecord> records;
  for (const BufferInfo& buffer : program.buffers()) records.push_back({buffer.size, buffer.live});
  return PlanOffsets(records).height;
}

class CpuBackendImpl final : public Backend {
 public:
  explicit CpuBackendImpl(int threads) : threads_(threads) {}

  std::string_view name() const override { return "cpu"; }

  // An order of nodes is judged by the plan of its buffers, since reorders, joins and scratch,
  // which only lowering knows, may undo what it saves.
  absl::StatusOr<std::unique_ptr<Program>> Lower(const Graph& given,
                                                 const LowerOptions& options) override {
    const std::optional<Graph> sampled = SubsampleFirst(given);
    const Graph& graph = sampled ? *sampled : given;
    // oneDNN splits work at creation, and would keep primitives of unloaded models.
    omp_set_num_threads(threads_);
    dnnl::set_primitive_cache_capacity(0);
    const Bytes before = AnonymousMemory();
    const auto lower = [&](const Graph& ordered) {
      return Lowering(ordered, options).Lower(threads_, before);
    };
    absl::StatusOr<std::unique_ptr<Program>> program = lower(graph);
    if (!program.ok()) return program;
    const std::optional<Graph> reordered = ReorderNodes(graph);
    if (!reordered) return program;
    // Never two programs at once: their kernels are what takes memory here.
    const Bytes height = ArenaHeight(**program);
    program->reset();
    program = lower(*reordered);
    if (!program.ok() || ArenaHeight(**program) < height) return program;
    program->reset();
    return lower(graph);
  }

 private:
  const int threads_;
};

}  // namespace

std::unique_ptr<Backend> CpuBackend(int threads) {
  return std::make_unique<CpuBackendImpl>(threads);
}

}  // namespace sluice
