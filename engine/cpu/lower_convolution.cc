// Convolutions, plain and transposed.
//
// Channels are blocked wherever oneDNN has a direct convolution for that; the first layer of a
// network reads its few channels plain. Winograd is never chosen. A layer with large weights is cut
// along its output channels: each slice is a convolution of its own that writes its contiguous part
// of the destination.

#include <algorithm>
#include <utility>

#include "absl/strings/str_format.h"
#include "base/check.h"
#include "base/status_macros.h"
#include "engine/cpu/constant_part.h"
#include "engine/cpu/cpu_steps.h"
#include "engine/cpu/node_lowering.h"
#include "engine/cpu/post_ops.h"

namespace sluice {
namespace {

constexpr std::size_t kData = 0, kWeights = 1, kBias = 2, kScale = 3;

const Value* OptionalInput(const Lowering& lowering, const Node& node, std::size_t input) {
  if (input >= node.inputs.size() || !node.inputs[input]) return nullptr;
  return &lowering.value(*node.inputs[input]);
}

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

dnnl::memory::dims WeightDims(const Layer& layer, const Geometry& geometry) {
  dnnl::memory::dims dims;
  if (layer.groups() > 1) dims.push_back(layer.groups());
  dims.push_back(geometry.result[1] / layer.groups());
  dims.push_back(geometry.source[1] / layer.groups());
  dims.insert(dims.end(), layer.operation.kernel.begin(), layer.operation.kernel.end());
  return dims;
}

dnnl::memory::dims ZeroBased(const std::vector<std::int64_t>& dilations) {
  dnnl::memory::dims dims = dilations;
  for (std::int64_t& dilation : dims) dilation -= 1;
  return dims;
}

using ForwardDesc = dnnl::convolution_forward::primitive_desc;
using TransposedDesc = dnnl::deconvolution_forward::primitive_desc;

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

std::string GeometryKey(const Layer& layer, const Geometry& geometry) {
  const Convolution& op = layer.operation;
  return absl::StrFormat("%s %s%d %s%d g%d k%s s%s d%s p%s b%d", op.transposed ? "deconv" : "conv",
                         FormatShape(geometry.source), static_cast<int>(geometry.source_layout),
                         FormatShape(geometry.result), static_cast<int>(geometry.result_layout),
                         op.groups, FormatShape(op.kernel), FormatShape(op.strides),
                         FormatShape(op.dilations), FormatShape(op.pads_begin),
                         static_cast<int>(geometry.bias));
}

// Weights of output channels [first, first + count), placed as the primitive wants them.
WeightPart WeightsOf(const Layer& layer, const dnnl::memory::desc& desc, std::int64_t first,
                     std::int64_t count) {
  const std::int64_t groups = layer.groups();
  const bool transposed = layer.operation.transposed;
  const std::int64_t results = layer.result_channels() / groups;
  const std::int64_t sources = layer.source_channels() / groups;
  const std::size_t grouped = groups > 1 ? 1 : 0;
  const Placement result_place = PlacementOf(desc, grouped);
  const Placement source_place = PlacementOf(desc, grouped + 1);

  Axis rows, columns;
  if (groups > 1) {
    rows.factors.push_back({groups, PlacementOf(desc, 0), results});
  }
  if (transposed) {
    rows.factors.push_back({sources, source_place, 0});
    columns.factors.push_back({results, result_place, 1});
  } else {
    rows.factors.push_back({groups > 1 ? results : count, result_place, 1});
    columns.factors.push_back({sources, source_place, 0});
  }
  for (std::size_t d = 0; d < layer.operation.kernel.size(); ++d) {
    columns.factors.push_back({layer.operation.kernel[d], PlacementOf(desc, grouped + 2 + d), 0});
  }
  for (Axis* axis : {&rows, &columns}) {
    for (const Factor& factor : axis->factors) axis->count *= factor.count;
  }
  rows.first = first;
  const std::int64_t row_length = columns.count;
  return {.source = layer.weights.constant,
          .size = Bytes::Of(desc.get_size()),
          .axes = {std::move(rows), std::move(columns)},
          .row_length = row_length,
          .scale = layer.scale == nullptr ? nullptr : layer.scale->constant,
          .scale_first = first};
}

// The layouts, tail and cut that a node is computed with.
struct Choice {
  Geometry geometry = {};  // Of one slice's images; all channels.
  std::vector<PostOp> post_ops = {};
  bool sum = false;    // The first epilogue adds to what the destination holds.
  bool fused = false;  // The epilogues are the primitive's.
};

// Of fewer channels than a block, most kernels want plain ones.
std::vector<std::pair<Layout, Layout>> LayoutCandidates(const Layer& layer, bool lies_blocked) {
  constexpr Layout kPlain = Layout::kPlain, kBlocked = Layout::kBlocked;
  if (!CanBlock(DataType::kFloat32, layer.source)) return {{kPlain, kPlain}};
  if (layer.groups() > 1 || layer.source_channels() >= ChannelBlock()) {
    return {{kBlocked, kBlocked}, {kPlain, kPlain}};
  }
  if (lies_blocked) return {{kBlocked, kBlocked}, {kPlain, kBlocked}, {kPlain, kPlain}};
  return {{kPlain, kBlocked}, {kBlocked, kBlocked}, {kPlain, kPlain}};
}

bool MaySum(const Lowering& lowering, const Node& node, const Layer& layer, Layout layout) {
  const std::vector<Epilogue>& epilogues = layer.operation.epilogues;
  if (epilogues.empty() || epilogues[0].kind != Epilogue::Kind::kAdd) return false;
  return lowering.MayOverwrite(*node.inputs[epilogues[0].input], layout);
}

absl::StatusOr<Choice> Choose(const Lowering& lowering, const Node& node, const Layer& layer) {
  std::optional<Choice> slow;
  absl::Status refusal = absl::UnimplementedError("no convolution of this kind in oneDNN");
  const bool lies_blocked = lowering.Has(*node.inputs[kData], Layout::kBlocked);
  for (const auto& [source, result] : LayoutCandidates(layer, lies_blocked)) {
    Choice choice{.geometry = {layer.source, layer.result, source, result, layer.bias != nullptr}};
    choice.sum = MaySum(lowering, node, layer, result);
    const auto fused =
        PostOpsOf(layer.operation.epilogues, Describe(layer.result, result), choice.sum);
    if (fused) {
      choice.post_ops = *fused;
      choice.fused = true;
      const auto desc =
          DescribePrimitive<dnnl::convolution_forward>(layer, choice.geometry, choice.post_ops);
      if (desc.ok() && IsFast(desc->impl_info_str())) return choice;
    }
    choice.post_ops.clear();
    choice.fused = choice.sum = false;
    const auto bare =
        DescribePrimitive<dnnl::convolution_forward>(layer, choice.geometry, choice.post_ops);
    if (!bare.ok()) {
      refusal = bare.status();
    } else if (IsFast(bare->impl_info_str())) {
      return choice;
    } else if (!slow) {
      slow = choice;
    }
  }
  if (slow) return *slow;
  return refusal;
}

// Output channels of each slice, multiples of the block but for the last.
std::vector<std::int64_t> Cut(const Layer& layer, Bytes packed, Bytes max_slice) {
  const std::int64_t block = ChannelBlock();
  const std::int64_t blocks = (layer.result_channels() + block - 1) / block;
  if (layer.groups() > 1 || packed <= max_slice || blocks == 1) return {layer.result_channels()};
  const std::int64_t most =
      std::max<std::int64_t>(1, static_cast<std::int64_t>(max_slice.count()) * blocks /
                                    static_cast<std::int64_t>(packed.count()));
  const std::int64_t slices = (blocks + most - 1) / most;
  const std::int64_t even = (blocks + slices - 1) / slices * block;
  std::vector<std::int64_t> cut;
  for (std::int64_t done = 0; done < layer.result_channels(); done += even) {
    cut.push_back(std::min(even, layer.result_channels() - done));
  }
  return cut;
}

// Emits the steps of one convolution, slice after slice.
class ConvolutionSteps {
 public:
  ConvolutionSteps(Lowering& lowering, const Node& node, const Layer& layer, Choice choice)
      : lowering_(lowering), node_(node), layer_(layer), choice_(std::move(choice)) {}

  absl::Status Add() {
    SLUICE_ASSIGN_OR_RETURN(
        const ForwardDesc whole,
        DescribePrimitive<dnnl::convolution_forward>(layer_, choice_.geometry, choice_.post_ops));
    const std::vector<std::int64_t> cut =
        Cut(layer_, Bytes::Of(whole.weights_desc().get_size()), lowering_.options().max_slice);
    SLUICE_RETURN_IF_ERROR(ReadOperands());
    sliced_ = cut.size() > 1;
    std::int64_t first = 0;
    for (const std::int64_t count : cut) {
      SLUICE_RETURN_IF_ERROR(AddSlice(first, count));
      first += count;
    }
    if (choice_.fused || layer_.operation.epilogues.empty()) return absl::OkStatus();
    return AddTail(lowering_, node_,
                   {.shape = layer_.result,
                    .layout = choice_.geometry.result_layout,
                    .buffer = result_,
                    .epilogues = layer_.operation.epilogues});
  }

 private:
  absl::Status ReadOperands() {
    const Geometry& geometry = choice_.geometry;
    SLUICE_ASSIGN_OR_RETURN(source_, lowering_.Read(*node_.inputs[kData], geometry.source_layout));
    std::optional<BufferIndex> summed;
    if (choice_.fused) {
      for (const Epilogue& epilogue : layer_.operation.epilogues) {
        if (epilogue.kind != Epilogue::Kind::kAdd) continue;
        SLUICE_ASSIGN_OR_RETURN(
            const BufferIndex added,
            lowering_.Read(*node_.inputs[epilogue.input], geometry.result_layout));
        if (choice_.sum && !summed) {
          summed = added;
        } else {
          added_.push_back(added);
        }
      }
    }
    if (summed) {
      lowering_.WriteInto(node_.output, geometry.result_layout, *summed);
      result_ = *summed;
    } else {
      result_ = lowering_.Write(node_.output, geometry.result_layout);
    }
    return absl::OkStatus();
  }

  // Slices of several images would write strided parts, so each image is a run of its own.
  absl::Status AddSlice(std::int64_t first, std::int64_t count) {
    Geometry geometry = choice_.geometry;
    const std::int64_t images = sliced_ ? geometry.source[0] : 1;
    if (sliced_) {
      geometry.source[0] = geometry.result[0] = 1;
      geometry.result[1] = count;
    }
    std::vector<PostOp> post_ops = choice_.post_ops;
    for (PostOp& op : post_ops) {
      if (op.kind == PostOp::Kind::kBinary) {
        op.operand = Describe(geometry.result, geometry.result_layout);
      }
    }
    SLUICE_ASSIGN_OR_RETURN(const ForwardDesc desc, DescribePrimitive<dnnl::convolution_forward>(
                                                        layer_, geometry, post_ops));
    SLUICE_ASSIGN_OR_RETURN(
        const std::shared_ptr<DnnlKernel> kernel,
        lowering_.SharedKernel(GeometryKey(layer_, geometry) + KeyOf(post_ops), [&] {
          return MakeConvolution<dnnl::convolution_forward>(desc, geometry, post_ops);
        }));
    StepDraft step{.name = StepName(node_)};
    if (sliced_) step.name += absl::StrFormat(" [%d..%d)", first, first + count);
    step.kernel =
        absl::StrFormat("conv %s %s->%s", kernel->impl(), std::string(Name(geometry.source_layout)),
                        std::string(Name(geometry.result_layout)));
    step.macs = MacCount(lowering_.graph(), node_) * static_cast<std::uint64_t>(count) /
                static_cast<std::uint64_t>(layer_.result_channels());
    AddOperands(std::move(step), kernel, desc.weights_desc(), first, count, images);
    return absl::OkStatus();
  }

  void AddOperands(StepDraft step, const std::shared_ptr<DnnlKernel>& kernel,
                   const dnnl::memory::desc& weights, std::int64_t first, std::int64_t count,
                   std::int64_t images) {
    const Bytes pixels = Bytes::Of(ElementCount(std::span(layer_.result).subspan(2)) * 4);
    const Bytes shift = pixels * static_cast<std::uint64_t>(first);
    const auto divisor = static_cast<std::uint64_t>(layer_.source[0]);
    const auto image_bytes = [&](ValueId id, Layout layout) {
      return Bytes::Of(StorageBytes(lowering_.value(id), layout).count() / divisor);
    };
    const Bytes source_image = image_bytes(*node_.inputs[kData], choice_.geometry.source_layout);
    const Bytes result_image = image_bytes(node_.output, choice_.geometry.result_layout);

    std::vector<Operand> operands = {
        lowering_.Use(step, source_),
        lowering_.AddWeights(step, WeightsOf(layer_, weights, first, count)),
        lowering_.Use(step, result_).Shifted(shift)};
    std::vector<Bytes> strides = {source_image, Bytes(), result_image};
    if (layer_.bias != nullptr) {
      operands.push_back(lowering_.AddWeights(step, VectorPart(*layer_.bias, first, count)));
      strides.emplace_back();
    }
    for (const BufferIndex added : added_) {
      operands.push_back(lowering_.Use(step, added).Shifted(shift));
      strides.push_back(result_image);
    }
    lowering_.AddDnnlStep(std::move(step), kernel, std::move(operands), images, std::move(strides));
  }

  Lowering& lowering_;
  const Node& node_;
  const Layer& layer_;
  const Choice choice_;
  bool sliced_ = false;
  BufferIndex source_{}, result_{};
  std::vector<BufferIndex> added_;  // Operands of binary post-ops.
};

// oneDNN adds a bias and a tail to a transposed convolution outside of its fast kernels, so they
// are steps of their own.
absl::Status LowerTransposed(Lowering& lowering, const Node& node, const Layer& layer) {
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
      lowering.AddWeights(step, WeightsOf(layer, desc->weights_desc(), 0, layer.result_channels())),
      lowering.Use(step, result)};
  lowering.AddDnnlStep(std::move(step), kernel, std::move(operands));
  return AddTail(lowering, node,
                 {.shape = layer.result,
                  .layout = geometry.result_layout,
                  .buffer = result,
                  .shift = layer.bias,
                  .epilogues = layer.operation.epilogues});
}

}  // namespace

absl::Status LowerOperation(Lowering& lowering, const Node& node, const Convolution& operation) {
  const Value& source = lowering.value(*node.inputs[kData]);
  const Value& weights = lowering.value(*node.inputs[kWeights]);
  if (source.type != DataType::kFloat32) {
    return absl::UnimplementedError(
        absl::StrFormat("convolution of %s, have FP32", std::string(ProtocolName(source.type))));
  }
  if (weights.constant == nullptr) {
    return absl::UnimplementedError("convolution with computed weights");
  }
  const Layer layer{operation,
                    source.shape,
                    lowering.value(node.output).shape,
                    weights,
                    OptionalInput(lowering, node, kBias),
                    OptionalInput(lowering, node, kScale)};
  if (operation.transposed) return LowerTransposed(lowering, node, layer);
  SLUICE_ASSIGN_OR_RETURN(Choice choice, Choose(lowering, node, layer));
  return ConvolutionSteps(lowering, node, layer, std::move(choice)).Add();
}

}  // namespace sluice
