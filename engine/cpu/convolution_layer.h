// engine/cpu/convolution_layer.h
//
// What plain and transposed convolutions share: a node's shapes and weights, and oneDNN's
// primitives for some of its images and channels.

#ifndef SLUICE_ENGINE_CPU_CONVOLUTION_LAYER_H_
#define SLUICE_ENGINE_CPU_CONVOLUTION_LAYER_H_

#include <cstdint>
#include <memory>
#include <oneapi/dnnl/dnnl.hpp>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/cpu/dnnl_kernel.h"
#include "engine/cpu/layout.h"
#include "engine/cpu/lowering.h"
#include "engine/cpu/post_ops.h"
#include "engine/cpu/weight_part.h"
#include "model/operation.h"

namespace sluice {

// A convolution of some images and output channels, in given layouts.
struct Geometry {
  Shape source = {}, result = {};
  Layout source_layout = Layout::kBlocked, result_layout = Layout::kBlocked;
  bool bias = false;
};

// What all slices of a node have in common.
struct Layer {
  const Convolution& operation;
  Shape source, result;
  const Value& weights;
  const Value* bias;
  const Value* scale;

  std::int64_t groups() const { return operation.groups; }
  std::int64_t source_channels() const { return source[1]; }
  std::int64_t result_channels() const { return result[1]; }
};

// Channels [first, first + count).
struct Channels {
  std::int64_t first = 0, count = 0;
};

dnnl::memory::dims WeightDims(const Layer& layer, const Geometry& geometry);

// oneDNN counts dilations from zero.
dnnl::memory::dims ZeroBased(const std::vector<std::int64_t>& dilations);

using ForwardDesc = dnnl::convolution_forward::primitive_desc;

template <typename Primitive>
absl::StatusOr<typename Primitive::primitive_desc> DescribePrimitive(
    const Layer& layer, const Geometry& geometry, std::span<const PostOp> post_ops) {
  return TryDnnl([&] {
    constexpr auto kAlgorithm = std::is_same_v<Primitive, dnnl::convolution_forward>
                                    ? dnnl::algorithm::convolution_direct
                                    : dnnl::algorithm::deconvolution_direct;
    const dnnl::memory::desc source = Describe(geometry.source, geometry.source_layout);
    const dnnl::memory::desc result = Describe(geometry.result, geometry.result_layout);
    const dnnl::memory::desc weights(WeightDims(layer, geometry), dnnl::memory::data_type::f32,
                                     dnnl::memory::format_tag::any);
    const dnnl::memory::desc bias =
        geometry.bias ? Describe({geometry.result[1]}, Layout::kPlain) : dnnl::memory::desc();
    const Convolution& op = layer.operation;
    const typename Primitive::desc desc(dnnl::prop_kind::forward_inference, kAlgorithm, source,
                                        weights, bias, result, op.strides, ZeroBased(op.dilations),
                                        op.pads_begin, op.pads_end);
    return typename Primitive::primitive_desc(desc, Attributes(post_ops), DnnlEngine());
  });
}

template <typename Primitive>
absl::StatusOr<std::shared_ptr<DnnlKernel>> MakeConvolution(
    const typename Primitive::primitive_desc& desc, const Geometry& geometry,
    std::span<const PostOp> post_ops) {
  std::vector<DnnlKernel::Argument> arguments = {{DNNL_ARG_SRC, desc.src_desc()},
                                                 {DNNL_ARG_WEIGHTS, desc.weights_desc()},
                                                 {DNNL_ARG_DST, desc.dst_desc()}};
  if (geometry.bias) arguments.push_back({DNNL_ARG_BIAS, desc.bias_desc()});
  for (const DnnlKernel::Argument& argument : PostOpArguments(post_ops)) {
    arguments.push_back(argument);
  }
  return MakeDnnlKernel<Primitive>(desc, std::move(arguments));
}

// Names everything that a primitive depends on beside its post-ops.
std::string GeometryKey(const Layer& layer, const Geometry& geometry);

// Weights of some output channels, placed as the primitive wants them: all that they have for the
// source, or, of one group, for some of its channels.
WeightPart WeightsOf(const Layer& layer, const dnnl::memory::desc& desc, const Channels& result,
                     const Channels& source);

absl::Status LowerTransposed(Lowering& lowering, const Node& node, const Layer& layer);

}  // namespace sluice

#endif  // SLUICE_ENGINE_CPU_CONVOLUTION_LAYER_H_
