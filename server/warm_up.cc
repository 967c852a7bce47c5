#include "server/warm_up.h"

#include <malloc.h>

#include <algorithm>
#include <cstddef>
#include <utility>
#include <vector>

#include "base/status_macros.h"
#include "model/constant.h"
#include "model/graph.h"
#include "planner/offset_plan.h"
#include "streamer/page_memory.h"

namespace sluice {
namespace {

ValueId AddConstant(Graph& graph, const char* name, Shape shape) {
  const Bytes size = TensorBytes(DataType::kFloat32, shape);
  return graph.Add({.name = name,
                    .type = DataType::kFloat32,
                    .shape = std::move(shape),
                    .constant = InlineConstant(std::vector<std::byte>(size.count()))});
}

ValueId AddTensor(Graph& graph, const char* name, Shape shape) {
  return graph.Add(
      {.name = name, .type = DataType::kFloat32, .shape = std::move(shape), .constant = nullptr});
}

// Convolutions of the common kinds and a matrix product, large enough for every thread of the team.
Graph SmallNetwork() {
  Graph graph;
  graph.name = "warm-up";
  const ValueId input = AddTensor(graph, "x", {1, 32, 32, 32});
  const ValueId weights = AddConstant(graph, "w", {32, 32, 3, 3});
  const ValueId middle = AddTensor(graph, "y", {1, 32, 32, 32});
  const ValueId pooled = AddTensor(graph, "p", {1, 32, 1, 1});
  const ValueId row = AddTensor(graph, "r", {1, 32});
  const ValueId matrix = AddConstant(graph, "m", {32, 16});
  const ValueId output = AddTensor(graph, "z", {1, 16});
  Convolution convolution{.kernel = {3, 3},
                          .strides = {1, 1},
                          .dilations = {1, 1},
                          .pads_begin = {1, 1},
                          .pads_end = {1, 1},
                          .groups = 1,
                          .transposed = false,
                          .epilogues = {}};
  Pool pool{.kind = Pool::Kind::kAverage,
            .kernel = {32, 32},
            .strides = {1, 1},
            .dilations = {1, 1},
            .pads_begin = {0, 0},
            .pads_end = {0, 0}};
  graph.nodes.push_back({.name = "convolution",
                         .source_op = "Conv",
                         .operation = std::move(convolution),
                         .inputs = {input, weights},
                         .output = middle});
  graph.nodes.push_back({.name = "pool",
                         .source_op = "AveragePool",
                         .operation = std::move(pool),
                         .inputs = {middle},
                         .output = pooled});
  graph.nodes.push_back({.name = "row",
                         .source_op = "Reshape",
                         .operation = Reshape{},
                         .inputs = {pooled},
                         .output = row});
  graph.nodes.push_back({.name = "product",
                         .source_op = "MatMul",
                         .operation = FullyConnected{},
                         .inputs = {row, matrix},
                         .output = output});
  graph.inputs = {input};
  graph.outputs = {output};
  return graph;
}

// On the compute team.
absl::Status RunOnce(Backend& backend) {
  const Graph graph = SmallNetwork();
  SLUICE_ASSIGN_OR_RETURN(const std::unique_ptr<Program> program, backend.Lower(graph, {}));
  std::vector<UsageRecord> records;
  for (const BufferInfo& buffer : program->buffers()) {
    records.push_back({.size = buffer.size, .live = buffer.live});
  }
  const OffsetPlan plan = PlanOffsets(records);
  SLUICE_ASSIGN_OR_RETURN(const PageMemory arena, PageMemory::Map(plan.height + kPageSize));
  std::vector<PageMemory> extents;
  for (std::size_t i = 0; i < program->extents().size(); ++i) {
    const Bytes size = program->extents()[i].size;
    SLUICE_ASSIGN_OR_RETURN(PageMemory extent, PageMemory::Map(size));
    SLUICE_RETURN_IF_ERROR(program->Pack(At<ExtentIndex>(i), extent.span().first(size.count())));
    extents.push_back(std::move(extent));
  }
  for (std::size_t i = 0; i < program->steps().size(); ++i) {
    const std::optional<ExtentIndex> extent = program->steps()[i].extent;
    SLUICE_RETURN_IF_ERROR(program->Run(
        At<StepIndex>(i), {.arena = arena.span().data(),
                           .offsets = plan.offsets,
                           .extent = extent ? extents[Index(*extent)].span().data() : nullptr}));
  }
  return absl::OkStatus();
}

}  // namespace

void TuneAllocator() {
  mallopt(M_ARENA_MAX, 2);
  // Setting either also stops the allocator from raising them by itself.
  mallopt(M_MMAP_THRESHOLD, 64 * 1024);
  mallopt(M_TRIM_THRESHOLD, 64 * 1024);
  mallopt(M_TOP_PAD, 16 * 1024);
  // Small blocks join their neighbours when they are freed, not later: what lies at an arena's end
  // goes back to the system only then.
  mallopt(M_MXFAST, 0);
}

void ReturnFreedMemory() { malloc_trim(0); }

absl::Status WarmUp(Backend& backend, ComputeTeam& team) {
  absl::Status status;
  team.Run([&] { status = RunOnce(backend); });
  return status;
}

}  // namespace sluice
