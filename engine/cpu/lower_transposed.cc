// Transposed convolutions.

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/str_format.h"
#include "base/status_macros.h"
#include "engine/cpu/convolution_layer.h"
#include "engine/cpu/cpu_steps.h"
#include "engine/cpu/node_lowering.h"
#include "engine/kernels/kernel.h"

namespace sluice {
namespace {

constexpr std::size_t kData = 0;

using TransposedDesc = dnnl::deconvolution_forward::primitive_desc;

// A transposed convolution whose windows lie side by side, with so few output channels that blocks
// of them would be mostly filling.
bool WritesDisjointWindows(const Layer& layer) {
  const Convolution& op = layer.operation;
  const auto all_are = [](const std::vector<std::int64_t>& values, std::int64_t wanted) {
    return std::ranges::all_of(values, [wanted](std::int64_t value) { return value == wanted; });
  };
  return op.kernel == op.strides && all_are(op.pads_begin, 0) && all_are(op.pads_end, 0) &&
         all_are(op.dilations, 1) && layer.groups() == 1 && layer.scale == nullptr &&
         CanBlock(DataType::kFloat32, layer.source) &&
         layer.result_channels() * 2 <= ChannelBlock();
}

// The weights [C, M, kernel...] as those of `windows` output channels, in that order.
WeightPart WindowWeights(const Layer& layer, const dnnl::memory::desc& desc, std::int64_t windows) {
  const Axis rows{.factors = {{layer.source_channels(), PlacementOf(desc, 1), 0}},
                  .count = layer.source_channels()};
  const Axis columns{.factors = {{windows, PlacementOf(desc, 0), 0}}, .count = windows};
  return {.source = layer.weights.constant,
          .size = Bytes::Of(desc.get_size()),
          .axes = {rows, columns},
          .row_length = windows};
}

// [N, M, kernel..., sizes...] to [N, M, size, kernel, size, kernel, ...].
absl::Status AddInterleave(Lowering& lowering, const Node& node, const Layer& layer,
                           BufferIndex from, BufferIndex to) {
  const auto& kernel = layer.operation.kernel;
  const auto rank = static_cast<std::int64_t>(kernel.size());
  Shape windows = {layer.source[0], layer.result_channels()}, result = windows;
  windows.insert(windows.end(), kernel.begin(), kernel.end());
  windows.insert(windows.end(), layer.source.begin() + 2, layer.source.end());
  Transpose interleave{.perm = {0, 1}};
  for (std::int64_t d = 0; d < rank; ++d) {
    for (const std::int64_t dimension : {2 + rank + d, 2 + d}) {
      interleave.perm.push_back(dimension);
      result.push_back(windows[static_cast<std::size_t>(dimension)]);
    }
  }
  Graph flat;
  const ValueId x = flat.Add({"x", DataType::kFloat32, windows, nullptr});
  const ValueId y = flat.Add({"y", DataType::kFloat32, result, nullptr});
  SLUICE_ASSIGN_OR_RETURN(Kernel move,
                          MakeKernel(flat, {StepName(node), "", std::move(interleave), {x}, y}));
  StepDraft step{.name = StepName(node) + " interleave", .kernel = move.name};
  const Operand source = lowering.Use(step, from);
  const Operand scratch = lowering.UseScratch(step, move.scratch);
  const Operand target = lowering.Use(step, to);
  step.run = std::make_unique<RowMajorStep>(std::move(move), std::vector{source}, target, scratch);
  lowering.AddStep(std::move(step));
  return absl::OkStatus();
}

// As a convolution of one pixel that gives each output channel of each place in the window as a
// channel, which are then moved to their places:
//   [N, C, H, W]  ->  [N, M * kh * kw, H, W]  ->  [N, M, H, kh, W, kw]
absl::Status LowerWindows(Lowering& lowering, const Node& node, const Layer& layer) {
  const auto& kernel = layer.operation.kernel;
  const std::size_t rank = kernel.size();
  Shape windows = layer.source;
  windows[1] = layer.result_channels() * static_cast<std::int64_t>(ElementCount(kernel));
  Convolution pixel;
  pixel.kernel = pixel.strides = pixel.dilations = Shape(rank, 1);
  pixel.pads_begin = pixel.pads_end = Shape(rank, 0);
  const Layer flat{pixel, layer.source, windows, layer.weights, nullptr, nullptr};
  const Geometry geometry{.source = layer.source, .result = windows};
  SLUICE_ASSIGN_OR_RETURN(const ForwardDesc desc,
                          DescribePrimitive<dnnl::convolution_forward>(flat, geometry, {}));
  SLUICE_ASSIGN_OR_RETURN(const std::shared_ptr<DnnlKernel> convolve,
                          lowering.SharedKernel(GeometryKey(flat, geometry), [&] {
                            return MakeConvolution<dnnl::convolution_forward>(desc, geometry, {});
                          }));
  SLUICE_ASSIGN_OR_RETURN(const BufferIndex source,
                          lowering.Read(*node.inputs[kData], Layout::kBlocked));
  const auto new_buffer = [&](const Shape& shape, Layout layout) {
    const Value value{StepName(node) + " windows", DataType::kFloat32, shape, nullptr};
    return lowering.NewBuffer(value.name, StorageBytes(value, layout));
  };
  const BufferIndex blocked = new_buffer(windows, Layout::kBlocked);
  StepDraft step{.name = StepName(node),
                 .kernel = absl::StrFormat("conv %s windows", convolve->impl()),
                 .macs = MacCount(lowering.graph(), node)};
  std::vector<Operand> operands = {
      lowering.Use(step, source),
      lowering.AddWeights(step, WindowWeights(layer, desc.weights_desc(), windows[1])),
      lowering.Use(step, blocked)};
  lowering.AddDnnlStep(std::move(step), convolve, std::move(operands));
  const BufferIndex plain = new_buffer(windows, Layout::kPlain);
  SLUICE_RETURN_IF_ERROR(
      lowering.AddReorder(StepName(node) + " to plain", {windows, Layout::kPlain, blocked, plain}));
  const BufferIndex result = lowering.Write(node.output, Layout::kPlain);
  SLUICE_RETURN_IF_ERROR(AddInterleave(lowering, node, layer, plain, result));
  return AddTail(lowering, node,
                 {.shape = layer.result,
                  .layout = Layout::kPlain,
                  .buffer = result,
                  .shift = layer.bias,
                  .epilogues = layer.operation.epilogues});
}

}  // namespace

// oneDNN adds a bias and a tail to a transposed convolution outside of its fast kernels, so they
// are steps of their own.
absl::Status LowerTransposed(Lowering& lowering, const Node& node, const Layer& layer) {
  if (WritesDisjointWindows(layer)) return LowerWindows(lowering, node, layer);
  std::optional<TransposedDesc> desc;
  Geometry geometry{.source = layer.source, .result = layer.result};
  absl::Status refusal = absl::OkStatus();
  for (const Layout layout : {Layout::kBlocked, Layout::kPlain}) {
    if (layout == Layout::kBlocked && !CanBlock(DataType::kFloat32, layer.source)) continue;
    if (desc && IsFast(desc->impl_info_str())) break;
    Geometry candidate = geometry;
    candidate.source_layout = candidate.result_layout = layout;
    auto described = DescribePrimitive<dnnl::deconvolution_forward>(layer, candidate, {});
    if (!described.ok()) {
      refusal = described.status();
    } else if (!desc || IsFast(described->impl_info_str())) {
      desc = *described;
      geometry = candidate;
    }
  }
  if (!desc) return refusal;
  SLUICE_ASSIGN_OR_RETURN(const std::shared_ptr<DnnlKernel> kernel,
                          lowering.SharedKernel(GeometryKey(layer, geometry), [&] {
                            return MakeConvolution<dnnl::deconvolution_forward>(*desc, geometry,
                                                                                {});
                          }));
  SLUICE_ASSIGN_OR_RETURN(const BufferIndex source,
                          lowering.Read(*node.inputs[kData], geometry.source_layout));
  const BufferIndex result = lowering.Write(node.output, geometry.result_layout);
  StepDraft step{.name = StepName(node),
                 .kernel = absl::StrFormat("deconv %s %s", kernel->impl(),
                                           std::string(Name(geometry.result_layout))),
                 .macs = MacCount(lowering.graph(), node)};
  std::vector<Operand> operands = {
      lowering.Use(step, source),
      lowering.AddWeights(step, WeightsOf(layer, desc->weights_desc(), {0, layer.result_channels()},
                                          {0, layer.source_channels()})),
      lowering.Use(step, result)};
  lowering.AddDnnlStep(std::move(step), kernel, std::move(operands));
  return AddTail(lowering, node,
                 {.shape = layer.result,
                  .layout = geometry.result_layout,
                  .buffer = result,
                  .shift = layer.bias,
                  .epilogues = layer.operation.epilogues});
}

}  // namespace sluice
