// Pools, on blocked channels.

#include <algorithm>
#include <utility>

#include "absl/strings/str_format.h"
#include "base/status_macros.h"
#include "engine/cpu/cpu_steps.h"
#include "engine/cpu/node_lowering.h"
#include "engine/cpu/post_ops.h"

namespace sluice {
namespace {

using PoolDesc = dnnl::pooling_v2_forward::primitive_desc;

bool IsGlobalMean(const Pool& pool, const Shape& source) {
  if (pool.kind != Pool::Kind::kAverage) return false;
  const auto zero = [](std::int64_t pad) { return pad == 0; };
  return std::ranges::equal(pool.kernel, std::span(source).subspan(2)) &&
         std::ranges::all_of(pool.pads_begin, zero) && std::ranges::all_of(pool.pads_end, zero) &&
         std::ranges::all_of(pool.dilations, [](std::int64_t d) { return d == 1; });
}

absl::Status LowerGlobalMean(Lowering& lowering, const Node& node) {
  const Shape& shape = lowering.value(*node.inputs[0]).shape;
  SLUICE_ASSIGN_OR_RETURN(const BufferIndex x, lowering.Read(*node.inputs[0], Layout::kBlocked));
  const std::int64_t block = ChannelBlock();
  const BlockedMean mean{shape[0] * ((shape[1] + block - 1) / block),
                         static_cast<std::int64_t>(ElementCount(std::span(shape).subspan(2))),
                         block};
  StepDraft step{.name = StepName(node),
                 .kernel = absl::StrFormat("mean %s", std::string(Name(Layout::kBlocked)))};
  const Operand source = lowering.Use(step, x);
  const Operand result = lowering.Use(step, lowering.Write(node.output, Layout::kBlocked));
  step.run = std::make_unique<BlockedMeanStep>(mean, source, result);
  lowering.AddStep(std::move(step));
  return absl::OkStatus();
}

absl::StatusOr<PoolDesc> DescribePool(const Pool& pool, const dnnl::memory::desc& source,
                                      const dnnl::memory::desc& result) {
  dnnl::memory::dims dilations = pool.dilations;
  for (std::int64_t& dilation : dilations) dilation -= 1;
  const dnnl::algorithm algorithm = pool.kind == Pool::Kind::kMax ? dnnl::algorithm::pooling_max
                                    : pool.count_include_pad
                                        ? dnnl::algorithm::pooling_avg_include_padding
                                        : dnnl::algorithm::pooling_avg_exclude_padding;
  return TryDnnl([&] {
    const dnnl::pooling_v2_forward::desc desc(dnnl::prop_kind::forward_inference, algorithm, source,
                                              result, pool.strides, pool.kernel, dilations,
                                              pool.pads_begin, pool.pads_end);
    return PoolDesc(desc, Attributes({}), DnnlEngine());
  });
}

}  // namespace

absl::Status LowerOperation(Lowering& lowering, const Node& node, const Pool& operation) {
  const Value& source = lowering.value(*node.inputs[0]);
  const Value& result = lowering.value(node.output);
  if (!CanBlock(source.type, source.shape) || ElementCount(result.shape) == 0) {
    return LowerRowMajor(lowering, node);
  }
  if (IsGlobalMean(operation, source.shape)) return LowerGlobalMean(lowering, node);
  const dnnl::memory::desc source_desc = Describe(source.shape, Layout::kBlocked);
  const dnnl::memory::desc result_desc = Describe(result.shape, Layout::kBlocked);
  const absl::StatusOr<PoolDesc> desc = DescribePool(operation, source_desc, result_desc);
  if (!desc.ok()) return LowerRowMajor(lowering, node);
  const std::string key = absl::StrFormat(
      "pool %d%d %s %s k%s s%s d%s p%s", static_cast<int>(operation.kind),
      static_cast<int>(operation.count_include_pad), KeyOf(source_desc), KeyOf(result_desc),
      FormatShape(operation.kernel), FormatShape(operation.strides),
      FormatShape(operation.dilations), FormatShape(operation.pads_begin));
  SLUICE_ASSIGN_OR_RETURN(const std::shared_ptr<DnnlKernel> kernel, lowering.SharedKernel(key, [&] {
    return MakeDnnlKernel<dnnl::pooling_v2_forward>(
        *desc, {{DNNL_ARG_SRC, source_desc}, {DNNL_ARG_DST, result_desc}});
  }));
  SLUICE_ASSIGN_OR_RETURN(const BufferIndex x, lowering.Read(*node.inputs[0], Layout::kBlocked));
  StepDraft step{
      .name = StepName(node),
      .kernel = absl::StrFormat("pool %s %s", kernel->impl(), std::string(Name(Layout::kBlocked)))};
  const Operand from = lowering.Use(step, x);
  const Operand to = lowering.Use(step, lowering.Write(node.output, Layout::kBlocked));
  lowering.AddDnnlStep(std::move(step), kernel, {from, to});
  return absl::OkStatus();
}

}  // namespace sluice
