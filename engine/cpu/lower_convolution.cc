// Convolutions.
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
#include "engine/cpu/convolution_layer.h"
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
  const ValueId data = *node.inputs[kData];
  const bool lies_blocked =
      lowering.Has(data, Layout::kBlocked) || lowering.ElidedConcat(data) != nullptr;
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

// Emits the steps of one convolution: slice after slice, and in each, part after part of a source
// that is a concat which was elided. All parts but the first add to what is there already; the last
// one brings bias and tail.
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
    SLUICE_RETURN_IF_ERROR(ReadSource());
    SLUICE_RETURN_IF_ERROR(ReadOperands());
    sliced_ = cut.size() > 1;
    Channels slice;
    for (const std::int64_t count : cut) {
      slice.count = count;
      for (std::size_t p = 0; p < parts_.size(); ++p) SLUICE_RETURN_IF_ERROR(AddPart(slice, p));
      slice.first += count;
    }
    if (choice_.fused || layer_.operation.epilogues.empty()) return absl::OkStatus();
    return AddTail(lowering_, node_,
                   {.shape = layer_.result,
                    .layout = choice_.geometry.result_layout,
                    .buffer = result_,
                    .epilogues = layer_.operation.epilogues});
  }

 private:
  // Channels of the source that lie in a buffer of their own.
  struct SourcePart {
    ValueId value{};
    Channels channels = {};
    BufferIndex buffer{};
  };

  absl::Status ReadSource() {
    const ValueId source = *node_.inputs[kData];
    const Layout layout = choice_.geometry.source_layout;
    if (const Node* concat = lowering_.ElidedConcat(source);
        concat != nullptr && layout == Layout::kBlocked && !lowering_.Has(source, layout)) {
      std::int64_t first = 0;
      for (const std::optional<ValueId>& part : concat->inputs) {
        const std::int64_t channels = lowering_.value(*part).shape[1];
        parts_.push_back({*part, {first, channels}});
        first += channels;
      }
      if (!PartsAreFast()) parts_.clear();
    }
    if (parts_.empty()) parts_.push_back({source, {0, layer_.source_channels()}});
    for (SourcePart& part : parts_) {
      SLUICE_ASSIGN_OR_RETURN(part.buffer, lowering_.Read(part.value, layout));
    }
    return absl::OkStatus();
  }

  bool PartsAreFast() const {
    for (std::size_t p = 0; p < parts_.size(); ++p) {
      const Geometry geometry = GeometryOf({0, layer_.result_channels()}, p);
      const auto desc = DescribePrimitive<dnnl::convolution_forward>(layer_, geometry,
                                                                     PostOpsOfPart(geometry, p));
      if (!desc.ok() || !IsFast(desc->impl_info_str())) return false;
    }
    return true;
  }

  absl::Status ReadOperands() {
    const Geometry& geometry = choice_.geometry;
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

  bool IsLast(std::size_t part) const { return part + 1 == parts_.size(); }

  // Slices of several images would write strided parts, so each image is a run of its own.
  Geometry GeometryOf(const Channels& slice, std::size_t part) const {
    Geometry geometry = choice_.geometry;
    if (sliced_) geometry.source[0] = geometry.result[0] = 1;
    geometry.source[1] = parts_[part].channels.count;
    geometry.result[1] = slice.count;
    geometry.bias = geometry.bias && IsLast(part);
    return geometry;
  }

  std::vector<PostOp> PostOpsOfPart(const Geometry& geometry, std::size_t part) const {
    std::vector<PostOp> post_ops;
    if (part > 0 || choice_.sum) post_ops.push_back({.kind = PostOp::Kind::kSum});
    if (!IsLast(part)) return post_ops;
    for (const PostOp& op : choice_.post_ops) {
      if (op.kind == PostOp::Kind::kSum) continue;
      post_ops.push_back(op);
      if (op.kind == PostOp::Kind::kBinary) {
        post_ops.back().operand = Describe(geometry.result, geometry.result_layout);
      }
    }
    return post_ops;
  }

  absl::Status AddPart(const Channels& slice, std::size_t part) {
    const Geometry geometry = GeometryOf(slice, part);
    const std::vector<PostOp> post_ops = PostOpsOfPart(geometry, part);
    SLUICE_ASSIGN_OR_RETURN(const ForwardDesc desc, DescribePrimitive<dnnl::convolution_forward>(
                                                        layer_, geometry, post_ops));
    SLUICE_ASSIGN_OR_RETURN(
        const std::shared_ptr<DnnlKernel> kernel,
        lowering_.SharedKernel(GeometryKey(layer_, geometry) + KeyOf(post_ops), [&] {
          return MakeConvolution<dnnl::convolution_forward>(desc, geometry, post_ops);
        }));
    StepDraft step{.name = StepName(node_)};
    const Channels& source = parts_[part].channels;
    if (sliced_) step.name += absl::StrFormat(" [%d..%d)", slice.first, slice.first + slice.count);
    if (parts_.size() > 1) {
      step.name += absl::StrFormat(" of [%d..%d)", source.first, source.first + source.count);
    }
    step.kernel =
        absl::StrFormat("conv %s %s->%s", kernel->impl(), std::string(Name(geometry.source_layout)),
                        std::string(Name(geometry.result_layout)));
    step.macs = MacCount(lowering_.graph(), node_) * static_cast<std::uint64_t>(slice.count) /
                static_cast<std::uint64_t>(layer_.result_channels()) *
                static_cast<std::uint64_t>(source.count) /
                static_cast<std::uint64_t>(layer_.source_channels());
    AddOperands(std::move(step), kernel, desc.weights_desc(), slice, part);
    return absl::OkStatus();
  }

  void AddOperands(StepDraft step, const std::shared_ptr<DnnlKernel>& kernel,
                   const dnnl::memory::desc& weights, const Channels& slice, std::size_t part) {
    const Bytes pixels = Bytes::Of(ElementCount(std::span(layer_.result).subspan(2)) * 4);
    const Bytes shift = pixels * static_cast<std::uint64_t>(slice.first);
    const auto divisor = static_cast<std::uint64_t>(layer_.source[0]);
    const auto image_bytes = [&](ValueId id, Layout layout) {
      return Bytes::Of(StorageBytes(lowering_.value(id), layout).count() / divisor);
    };
    const SourcePart& source = parts_[part];
    const Bytes source_image = image_bytes(source.value, choice_.geometry.source_layout);
    const Bytes result_image = image_bytes(node_.output, choice_.geometry.result_layout);

    std::vector<Operand> operands = {
        lowering_.Use(step, source.buffer),
        lowering_.AddWeights(step, WeightsOf(layer_, weights, slice, source.channels)),
        lowering_.Use(step, result_).Shifted(shift)};
    std::vector<Bytes> strides = {source_image, Bytes(), result_image};
    if (layer_.bias != nullptr && IsLast(part)) {
      operands.push_back(
          lowering_.AddWeights(step, VectorPart(*layer_.bias, slice.first, slice.count)));
      strides.emplace_back();
    }
    if (IsLast(part)) {
      for (const BufferIndex added : added_) {
        operands.push_back(lowering_.Use(step, added).Shifted(shift));
        strides.push_back(result_image);
      }
    }
    const std::int64_t images = sliced_ ? layer_.source[0] : 1;
    lowering_.AddDnnlStep(std::move(step), kernel, std::move(operands), images, std::move(strides));
  }

  Lowering& lowering_;
  const Node& node_;
  const Layer& layer_;
  const Choice choice_;
  bool sliced_ = false;
  std::vector<SourcePart> parts_;  // One, but for an elided concat.
  BufferIndex result_{};
  std::vector<BufferIndex> added_;  // Operands of binary post-ops.
};

}  // namespace

absl::Status LowerOperation(Lowering& lowering, const Node& node, const Convolution& operation) {
  const Value& source = lowering.value(*node.inputs[kData]);
  const Value& weights = lowering.value(*node.inputs[kWeights]);
  const Value* bias = OptionalInput(lowering, node, kBias);
  const bool computed =
      weights.constant == nullptr || (bias != nullptr && bias->constant == nullptr);
  // The library lays weights out when the model is packed, and only single precision is its own.
  if (source.type != DataType::kFloat32 || computed || source.shape.size() > 5 ||
      ElementCount(lowering.value(node.output).shape) == 0) {
    return LowerRowMajor(lowering, node);
  }
  const Layer layer{operation, source.shape, lowering.value(node.output).shape,
                    weights,   bias,         OptionalInput(lowering, node, kScale)};
  if (operation.transposed) return LowerTransposed(lowering, node, layer);
  SLUICE_ASSIGN_OR_RETURN(Choice choice, Choose(lowering, node, layer));
  return ConvolutionSteps(lowering, node, layer, std::move(choice)).Add();
}

}  // namespace sluice
