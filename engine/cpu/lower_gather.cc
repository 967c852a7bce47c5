// Gathers: rows of a large constant table, such as word embeddings, come slice by slice, so that
// any budget works; everything else is a kernel on whole tensors.

#include <algorithm>
#include <utility>

#include "absl/strings/str_format.h"
#include "base/status_macros.h"
#include "engine/cpu/cpu_steps.h"
#include "engine/cpu/node_lowering.h"
#include "engine/kernels/gather_rows.h"

namespace sluice {
namespace {

absl::Status AddSlice(Lowering& lowering, const Node& node, const GatherRows& part, BufferIndex y) {
  const Value& table = lowering.value(*node.inputs[0]);
  Kernel kernel = MakeGatherRows(part);
  StepDraft step{
      .name = StepName(node) + absl::StrFormat(" [%d..%d)", part.first, part.first + part.count),
      .kernel = kernel.name};
  const Operand rows = lowering.AddWeights(
      step, {.source = table.constant,
             .size = Bytes::Of(static_cast<std::uint64_t>(part.count) * part.row_bytes),
             .source_first = Bytes::Of(static_cast<std::uint64_t>(part.first) * part.row_bytes)});
  SLUICE_ASSIGN_OR_RETURN(const Operand indices,
                          lowering.Input(step, *node.inputs[1], Layout::kPlain));
  const Operand result = lowering.Use(step, y);
  step.run = std::make_unique<RowMajorStep>(std::move(kernel), std::vector<Operand>{rows, indices},
                                            result, Operand());
  lowering.AddStep(std::move(step));
  return absl::OkStatus();
}

}  // namespace

absl::Status LowerOperation(Lowering& lowering, const Node& node, const Gather& operation) {
  const Value& table = lowering.value(*node.inputs[0]);
  const Value& indices = lowering.value(*node.inputs[1]);
  const Bytes slice = lowering.options().max_slice, size = TensorBytes(table.type, table.shape);
  if (table.constant == nullptr || operation.axis != 0 || size <= slice || table.shape[0] < 2 ||
      ElementCount(indices.shape) == 0) {
    return LowerRowMajor(lowering, node);
  }
  GatherRows part{.table_rows = table.shape[0],
                  .row_bytes = size.count() / static_cast<std::uint64_t>(table.shape[0]),
                  .indices = ElementCount(indices.shape),
                  .wide = indices.type == DataType::kInt64};
  const auto most =
      static_cast<std::int64_t>(std::max<std::uint64_t>(1, slice.count() / part.row_bytes));
  const std::int64_t slices = (part.table_rows + most - 1) / most;
  const std::int64_t even = (part.table_rows + slices - 1) / slices;
  const BufferIndex y = lowering.Write(node.output, Layout::kPlain);
  for (part.first = 0; part.first < part.table_rows; part.first += even) {
    part.count = std::min(even, part.table_rows - part.first);
    SLUICE_RETURN_IF_ERROR(AddSlice(lowering, node, part, y));
  }
  return absl::OkStatus();
}

}  // namespace sluice
