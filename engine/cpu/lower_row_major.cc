// Moves, and everything that kernels of our own compute.

#include <algorithm>
#include <utility>

#include "absl/strings/str_format.h"
#include "base/status_macros.h"
#include "engine/cpu/blocked_view.h"
#include "engine/cpu/cpu_steps.h"
#include "engine/cpu/node_lowering.h"

namespace sluice {
namespace {

// Whether more bytes of the inputs lie blocked than plain.
bool MostlyBlocked(const Lowering& lowering, const Node& node) {
  Bytes blocked, plain;
  for (const std::optional<ValueId>& input : node.inputs) {
    if (!input || lowering.value(*input).constant != nullptr) continue;
    const Bytes size = StorageBytes(lowering.value(*input), Layout::kPlain);
    (lowering.Has(*input, Layout::kBlocked) ? blocked : plain) += size;
  }
  return blocked > plain;
}

// The input whose buffer the kernel may write its output to.
std::optional<std::size_t> InPlaceInput(const Lowering& lowering, const Node& node,
                                        const Kernel& kernel, std::span<const Layout> layouts,
                                        Layout result_layout) {
  const Bytes size = StorageBytes(lowering.value(node.output), result_layout);
  for (const std::size_t i : {std::size_t{0}, std::size_t{1}}) {
    if (!(i == 0 ? kernel.in_place_0 : kernel.in_place_1) || i >= node.inputs.size()) continue;
    if (!node.inputs[i] || size == Bytes()) continue;
    const ValueId input = *node.inputs[i];
    if (lowering.MayOverwrite(input, layouts[i]) &&
        StorageBytes(lowering.value(input), layouts[i]) == size) {
      return i;
    }
  }
  return std::nullopt;
}

absl::Status AddKernel(Lowering& lowering, const Node& node, Kernel kernel,
                       std::span<const Layout> layouts, Layout result_layout) {
  StepDraft step{.name = StepName(node), .kernel = kernel.name};
  if (result_layout == Layout::kBlocked) step.kernel += " " + std::string(Name(result_layout));
  const auto in_place = InPlaceInput(lowering, node, kernel, layouts, result_layout);
  std::vector<Operand> inputs;
  for (std::size_t i = 0; i < node.inputs.size(); ++i) {
    inputs.emplace_back();
    if (!node.inputs[i]) continue;
    SLUICE_ASSIGN_OR_RETURN(inputs.back(), lowering.Input(step, *node.inputs[i], layouts[i]));
  }
  const Operand scratch = lowering.UseScratch(step, kernel.scratch);
  Operand output;
  if (in_place) {
    output = inputs[*in_place];
    SLUICE_ASSIGN_OR_RETURN(const BufferIndex written,
                            lowering.Read(*node.inputs[*in_place], layouts[*in_place]));
    lowering.WriteInto(node.output, result_layout, written);
  } else {
    output = lowering.Use(step, lowering.Write(node.output, result_layout));
  }
  step.run = std::make_unique<RowMajorStep>(std::move(kernel), std::move(inputs), output, scratch);
  lowering.AddStep(std::move(step));
  return absl::OkStatus();
}

// Puts what does not lie there already into the places of one buffer.
absl::Status JoinInPlace(Lowering& lowering, const Node& node) {
  StepDraft step{.name = StepName(node),
                 .kernel = absl::StrFormat("join %s", std::string(Name(Layout::kBlocked)))};
  std::vector<JoinStep::Part> parts;
  Bytes at;
  for (const std::optional<ValueId>& input : node.inputs) {
    SLUICE_ASSIGN_OR_RETURN(const BufferIndex from, lowering.Read(*input, Layout::kBlocked));
    const Bytes size = StorageBytes(lowering.value(*input), Layout::kBlocked);
    if (!lowering.LiesIn(from, node.output, at)) {
      parts.push_back({lowering.Use(step, from), size, at});
    }
    at += size;
  }
  const BufferIndex joined = lowering.Write(node.output, Layout::kBlocked);
  if (parts.empty()) return absl::OkStatus();
  step.run = std::make_unique<JoinStep>(std::move(parts), lowering.Use(step, joined), 1, at);
  lowering.AddStep(std::move(step));
  return absl::OkStatus();
}

}  // namespace

absl::Status LowerRowMajor(Lowering& lowering, const Node& node) {
  if (MostlyBlocked(lowering, node)) {
    if (const auto view = ViewInBlocks(lowering.graph(), node)) {
      absl::StatusOr<Kernel> kernel = MakeKernel(view->graph, view->node);
      if (kernel.ok()) {
        return AddKernel(lowering, node, *std::move(kernel), view->inputs, Layout::kBlocked);
      }
    }
  }
  SLUICE_ASSIGN_OR_RETURN(Kernel kernel, MakeKernel(lowering.graph(), node));
  const std::vector<Layout> plain(node.inputs.size(), Layout::kPlain);
  return AddKernel(lowering, node, std::move(kernel), plain, Layout::kPlain);
}

absl::Status LowerOperation(Lowering& lowering, const Node& node, const Concat&) {
  if (lowering.ElidedConcat(node.output) != nullptr) return absl::OkStatus();
  if (!JoinsBlocks(lowering.graph(), node) || !MostlyBlocked(lowering, node)) {
    return LowerRowMajor(lowering, node);
  }
  if (lowering.IsJoined(node.output)) return JoinInPlace(lowering, node);
  return AddJoin(lowering, node);
}

absl::Status AddJoin(Lowering& lowering, const Node& concat) {
  StepDraft step{.name = StepName(concat),
                 .kernel = absl::StrFormat("join %s", std::string(Name(Layout::kBlocked)))};
  const Value& result = lowering.value(concat.output);
  std::vector<JoinStep::Part> parts;
  Bytes image;
  for (const std::optional<ValueId>& input : concat.inputs) {
    SLUICE_ASSIGN_OR_RETURN(const Operand from, lowering.Input(step, *input, Layout::kBlocked));
    const Bytes all = StorageBytes(lowering.value(*input), Layout::kBlocked);
    const Bytes size = Bytes::Of(all.count() / static_cast<std::uint64_t>(result.shape[0]));
    parts.push_back({from, size, image});
    image += size;
  }
  const Operand to = lowering.Use(step, lowering.Write(concat.output, Layout::kBlocked));
  step.run = std::make_unique<JoinStep>(std::move(parts), to, result.shape[0], image);
  lowering.AddStep(std::move(step));
  return absl::OkStatus();
}

absl::Status LowerOperation(Lowering& lowering, const Node& node, const Reshape&) {
  SLUICE_ASSIGN_OR_RETURN(const BufferIndex buffer, lowering.Read(*node.inputs[0], Layout::kPlain));
  lowering.WriteInto(node.output, Layout::kPlain, buffer);
  return absl::OkStatus();
}

}  // namespace sluice
