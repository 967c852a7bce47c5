// Element-wise operations and the tails of other nodes, in whichever layout their inputs have.

#include <algorithm>
#include <utility>

#include "absl/strings/str_format.h"
#include "base/status_macros.h"
#include "engine/cpu/constant_part.h"
#include "engine/cpu/cpu_steps.h"
#include "engine/cpu/node_lowering.h"
#include "engine/cpu/post_ops.h"

namespace sluice {
namespace {

// Element-wise steps see a tensor as one row, filling included.
struct Row {
  std::int64_t count = 0;
  BufferIndex from{}, to{};
};

std::int64_t StoredElements(const Shape& shape, Layout layout) {
  return static_cast<std::int64_t>(
      ElementCount(layout == Layout::kBlocked ? FullBlocks(shape) : shape));
}

absl::StatusOr<std::shared_ptr<DnnlKernel>> MakeEltwise(const dnnl::memory::desc& data,
                                                        const PostOp& op) {
  SLUICE_ASSIGN_OR_RETURN(const dnnl::eltwise_forward::primitive_desc desc, TryDnnl([&] {
                            return dnnl::eltwise_forward::primitive_desc(
                                dnnl::eltwise_forward::desc(dnnl::prop_kind::forward_inference,
                                                            op.algorithm, data, op.alpha, op.beta),
                                Attributes({}), DnnlEngine());
                          }));
  return MakeDnnlKernel<dnnl::eltwise_forward>(desc, {{DNNL_ARG_SRC, data}, {DNNL_ARG_DST, data}});
}

absl::Status AddEltwise(Lowering& lowering, const std::string& name, const Row& row,
                        const PostOp& op) {
  const dnnl::memory::desc data = Describe({row.count}, Layout::kPlain);
  SLUICE_ASSIGN_OR_RETURN(const std::shared_ptr<DnnlKernel> kernel,
                          lowering.SharedKernel("eltwise " + KeyOf(data) + KeyOf(std::span(&op, 1)),
                                                [&] { return MakeEltwise(data, op); }));
  StepDraft step{.name = name, .kernel = "eltwise " + kernel->impl()};
  const Operand source = lowering.Use(step, row.from);
  const Operand result = lowering.Use(step, row.to);
  lowering.AddDnnlStep(std::move(step), kernel, {source, result});
  return absl::OkStatus();
}

absl::Status AddRowMajorUnary(Lowering& lowering, const std::string& name, const Row& row,
                              const Unary& unary) {
  Graph flat;
  const ValueId x = flat.Add({"x", DataType::kFloat32, {row.count}, nullptr});
  const ValueId y = flat.Add({"y", DataType::kFloat32, {row.count}, nullptr});
  const Node node{name, "", unary, {x}, y};
  SLUICE_ASSIGN_OR_RETURN(Kernel kernel, MakeKernel(flat, node));
  if (row.from == row.to && !kernel.in_place_0) {
    return absl::UnimplementedError(kernel.name + " does not run in place");
  }
  StepDraft step{.name = name, .kernel = kernel.name};
  const Operand source = lowering.Use(step, row.from);
  const Operand scratch = lowering.UseScratch(step, kernel.scratch);
  const Operand result = lowering.Use(step, row.to);
  step.run =
      std::make_unique<RowMajorStep>(std::move(kernel), std::vector{source}, result, scratch);
  lowering.AddStep(std::move(step));
  return absl::OkStatus();
}

// Requires: zero stays zero when the row has filling in it.
absl::Status AddUnary(Lowering& lowering, const std::string& name, Row row, const Unary& unary) {
  const std::vector<PostOp> chain = EltwiseChain(unary);
  if (chain.empty()) return AddRowMajorUnary(lowering, name, row, unary);
  for (const PostOp& op : chain) {
    SLUICE_RETURN_IF_ERROR(AddEltwise(lowering, name, row, op));
    row.from = row.to;
  }
  return absl::OkStatus();
}

// True when steps on whole blocks would leave something else than zero in the filling.
bool SpoilsFilling(const Shape& shape, const Unary& unary) {
  return shape[1] % ChannelBlock() != 0 && !PreservesZero(unary);
}

absl::StatusOr<std::shared_ptr<DnnlKernel>> BinaryKernel(Lowering& lowering,
                                                         dnnl::algorithm algorithm,
                                                         const dnnl::memory::desc& a,
                                                         const dnnl::memory::desc& b,
                                                         std::span<const PostOp> post_ops) {
  const std::string key =
      absl::StrFormat("binary %d %s %s", static_cast<int>(algorithm), KeyOf(a), KeyOf(b)) +
      KeyOf(post_ops);
  return lowering.SharedKernel(key, [&]() -> absl::StatusOr<std::shared_ptr<DnnlKernel>> {
    SLUICE_ASSIGN_OR_RETURN(const dnnl::binary::primitive_desc desc, TryDnnl([&] {
                              return dnnl::binary::primitive_desc(
                                  dnnl::binary::desc(algorithm, a, b, a), Attributes(post_ops),
                                  DnnlEngine());
                            }));
    if (!IsFast(desc.impl_info_str())) return absl::UnimplementedError("no fast binary");
    std::vector<DnnlKernel::Argument> arguments = {
        {DNNL_ARG_SRC_0, a}, {DNNL_ARG_SRC_1, b}, {DNNL_ARG_DST, a}};
    for (const DnnlKernel::Argument& argument : PostOpArguments(post_ops)) {
      arguments.push_back(argument);
    }
    return MakeDnnlKernel<dnnl::binary>(desc, std::move(arguments));
  });
}

dnnl::memory::desc DescribeWhole(const Shape& shape, Layout layout) {
  return Describe(layout == Layout::kBlocked ? FullBlocks(shape) : shape, layout);
}

// One operation of a tail: an addition or multiplication of a constant for each channel or of a
// value, or a function.
struct Link {
  dnnl::algorithm algorithm = dnnl::algorithm::undef;  // Of a binary one.
  const Value* channels = nullptr;
  std::optional<ValueId> added = {};
  const Unary* unary = nullptr;
};

// Emits a tail, as few steps as oneDNN's post-ops allow.
class TailSteps {
 public:
  TailSteps(Lowering& lowering, const Node& node, const Tail& tail)
      : lowering_(lowering),
        node_(node),
        tail_(tail),
        data_(DescribeWhole(tail.shape, tail.layout)),
        source_(tail.source.value_or(tail.buffer)) {
    if (tail.scale != nullptr) {
      links_.push_back({.algorithm = dnnl::algorithm::binary_mul, .channels = tail.scale});
    }
    if (tail.shift != nullptr) {
      links_.push_back({.algorithm = dnnl::algorithm::binary_add, .channels = tail.shift});
    }
    for (const Epilogue& epilogue : tail.epilogues) {
      if (epilogue.kind == Epilogue::Kind::kUnary) {
        links_.push_back({.unary = &epilogue.unary});
      } else {
        links_.push_back(
            {.algorithm = dnnl::algorithm::binary_add, .added = *node.inputs[epilogue.input]});
      }
    }
  }

  absl::Status Add() {
    for (std::size_t i = 0; i < links_.size();) {
      if (links_[i].unary != nullptr) {
        const Row row{StoredElements(tail_.shape, tail_.layout), source_, tail_.buffer};
        SLUICE_RETURN_IF_ERROR(AddUnary(lowering_, StepName(node_), row, *links_[i].unary));
        ++i;
      } else {
        std::size_t used = 1;
        if (tail_.layout == Layout::kPlain) {
          SLUICE_RETURN_IF_ERROR(AddPlainBinary(links_[i]));
        } else {
          SLUICE_ASSIGN_OR_RETURN(used, AddBinary(i));
        }
        i += used;
      }
      source_ = tail_.buffer;
    }
    return absl::OkStatus();
  }

 private:
  dnnl::memory::desc OperandDesc(const Link& link) const {
    if (link.channels == nullptr) return data_;
    Shape shape(tail_.shape.size(), 1);
    shape[1] = tail_.shape[1];
    return DescribeWhole(shape, tail_.layout);
  }

  absl::StatusOr<Operand> OperandOf(StepDraft& step, const Link& link) {
    if (link.added) return lowering_.Input(step, *link.added, tail_.layout);
    Shape shape(tail_.shape.size(), 1);
    shape[1] = tail_.shape[1];
    return lowering_.AddWeights(step, TensorPart(*link.channels, shape, OperandDesc(link)));
  }

  // Post-ops for the links behind `first`; fewer than all when one has no equivalent.
  std::vector<PostOp> Following(std::size_t first, std::size_t& used) const {
    std::vector<PostOp> ops;
    for (used = 1; first + used < links_.size(); ++used) {
      const Link& link = links_[first + used];
      if (link.unary != nullptr) {
        const std::vector<PostOp> chain = EltwiseChain(*link.unary);
        if (chain.empty()) break;
        ops.insert(ops.end(), chain.begin(), chain.end());
      } else {
        ops.push_back({.kind = PostOp::Kind::kBinary,
                       .algorithm = link.algorithm,
                       .operand = OperandDesc(link)});
      }
    }
    return ops;
  }

  // By a kernel of our own: on plain tensors oneDNN's broadcasting is slow, and wrong (2.6) for
  // some shapes of one pixel.
  absl::Status AddPlainBinary(const Link& link) {
    Graph graph;
    Shape channels(tail_.shape.size(), 1);
    channels[1] = tail_.shape[1];
    const Shape& second = link.channels != nullptr ? channels : tail_.shape;
    const ValueId x = graph.Add({"x", DataType::kFloat32, tail_.shape, nullptr});
    const ValueId c = graph.Add({"c", DataType::kFloat32, second, nullptr});
    const ValueId y = graph.Add({"y", DataType::kFloat32, tail_.shape, nullptr});
    const auto kind = link.algorithm == dnnl::algorithm::binary_mul ? Binary::Kind::kMultiply
                                                                    : Binary::Kind::kAdd;
    SLUICE_ASSIGN_OR_RETURN(Kernel kernel,
                            MakeKernel(graph, Node{node_.name, "", Binary{kind}, {x, c}, y}));
    if (source_ == tail_.buffer && !kernel.in_place_0) {
      return absl::UnimplementedError(kernel.name + " does not run in place");
    }
    StepDraft step{.name = StepName(node_), .kernel = kernel.name};
    std::vector<Operand> inputs = {lowering_.Use(step, source_)};
    SLUICE_ASSIGN_OR_RETURN(const Operand operand, OperandOf(step, link));
    inputs.push_back(operand);
    const Operand scratch = lowering_.UseScratch(step, kernel.scratch);
    const Operand result = lowering_.Use(step, tail_.buffer);
    step.run =
        std::make_unique<RowMajorStep>(std::move(kernel), std::move(inputs), result, scratch);
    lowering_.AddStep(std::move(step));
    return absl::OkStatus();
  }

  // Returns how many links the step does.
  absl::StatusOr<std::size_t> AddBinary(std::size_t first) {
    const Link& link = links_[first];
    std::size_t used = 1;
    const std::vector<PostOp> following = Following(first, used);
    absl::StatusOr<std::shared_ptr<DnnlKernel>> kernel =
        BinaryKernel(lowering_, link.algorithm, data_, OperandDesc(link), following);
    if (!kernel.ok()) {
      used = 1;
      kernel = BinaryKernel(lowering_, link.algorithm, data_, OperandDesc(link), {});
    }
    if (!kernel.ok()) return kernel.status();
    StepDraft step{.name = StepName(node_),
                   .kernel = absl::StrFormat("binary %s %s", (*kernel)->impl(),
                                             std::string(Name(tail_.layout)))};
    std::vector<Operand> operands;
    operands.push_back(lowering_.Use(step, source_));
    SLUICE_ASSIGN_OR_RETURN(const Operand second, OperandOf(step, link));
    operands.push_back(second);
    operands.push_back(lowering_.Use(step, tail_.buffer));
    for (std::size_t i = first + 1; i < first + used; ++i) {
      if (links_[i].unary != nullptr) continue;
      SLUICE_ASSIGN_OR_RETURN(const Operand more, OperandOf(step, links_[i]));
      operands.push_back(more);
    }
    lowering_.AddDnnlStep(std::move(step), *kernel, std::move(operands));
    return used;
  }

  Lowering& lowering_;
  const Node& node_;
  const Tail& tail_;
  const dnnl::memory::desc data_;
  BufferIndex source_;  // Of the next step.
  std::vector<Link> links_;
};

Shape AlignRank(const Shape& shape, std::size_t rank) {
  Shape aligned(rank - shape.size(), 1);
  aligned.insert(aligned.end(), shape.begin(), shape.end());
  return aligned;
}

// Where oneDNN's binary finds operand b of a result of shape `result`; nothing when it cannot be
// had in that layout.
std::optional<Layout> LayoutOfSecond(const Value& b, const Shape& aligned, const Shape& result) {
  if (aligned[1] == 1 && aligned != result) return Layout::kPlain;
  if (b.constant != nullptr || b.shape.size() == result.size()) return Layout::kBlocked;
  return std::nullopt;
}

// Whether f(0, b) is zero in the filling, where b is zero when it has filling too.
bool KeepsFillingZero(Binary::Kind kind, bool filled_b) {
  if (kind == Binary::Kind::kMultiply) return true;
  return filled_b && kind != Binary::Kind::kDivide && kind != Binary::Kind::kPower;
}

// Adds the step and returns true, or adds nothing.
absl::StatusOr<bool> TryBlockedBinary(Lowering& lowering, const Node& node,
                                      const Binary& operation) {
  const Value& result = lowering.value(node.output);
  const auto algorithm = BinaryAlgorithm(operation.kind);
  if (!algorithm || !CanBlock(result.type, result.shape)) return false;
  ValueId a = *node.inputs[0], b = *node.inputs[1];
  if (!lowering.Has(a, Layout::kBlocked) && !lowering.Has(b, Layout::kBlocked)) return false;
  if (lowering.value(a).shape != result.shape || lowering.value(a).constant != nullptr) {
    if (operation.kind == Binary::Kind::kSubtract || operation.kind == Binary::Kind::kDivide) {
      return false;
    }
    std::swap(a, b);
  }
  const Value& second = lowering.value(b);
  if (lowering.value(a).shape != result.shape || lowering.value(a).constant != nullptr) {
    return false;
  }
  const Shape aligned = AlignRank(second.shape, result.shape.size());
  const auto layout = LayoutOfSecond(second, aligned, result.shape);
  if (!layout) return false;
  if (result.shape[1] % ChannelBlock() != 0 &&
      !KeepsFillingZero(operation.kind, /*filled_b=*/*layout == Layout::kBlocked)) {
    return false;
  }
  const dnnl::memory::desc a_desc = DescribeWhole(result.shape, Layout::kBlocked);
  const dnnl::memory::desc b_desc = DescribeWhole(aligned, *layout);
  const auto kernel = BinaryKernel(lowering, *algorithm, a_desc, b_desc, {});
  if (!kernel.ok()) return false;

  const bool in_place = lowering.MayOverwrite(a, Layout::kBlocked);
  StepDraft step{.name = StepName(node),
                 .kernel = absl::StrFormat("binary %s %s", (*kernel)->impl(),
                                           std::string(Name(Layout::kBlocked)))};
  SLUICE_ASSIGN_OR_RETURN(const BufferIndex x, lowering.Read(a, Layout::kBlocked));
  const Operand first = lowering.Use(step, x);
  Operand other;
  if (second.constant != nullptr) {
    other = lowering.AddWeights(step, TensorPart(second, aligned, b_desc));
  } else {
    SLUICE_ASSIGN_OR_RETURN(other, lowering.Input(step, b, *layout));
  }
  Operand written = first;
  if (in_place) {
    lowering.WriteInto(node.output, Layout::kBlocked, x);
  } else {
    written = lowering.Use(step, lowering.Write(node.output, Layout::kBlocked));
  }
  lowering.AddDnnlStep(std::move(step), *kernel, {first, other, written});
  return true;
}

}  // namespace

absl::Status AddTail(Lowering& lowering, const Node& node, const Tail& tail) {
  const bool spoils =
      tail.layout == Layout::kBlocked &&
      std::ranges::any_of(tail.epilogues, [&](const Epilogue& epilogue) {
        return epilogue.kind == Epilogue::Kind::kUnary && SpoilsFilling(tail.shape, epilogue.unary);
      });
  if (!spoils) return TailSteps(lowering, node, tail).Add();
  // Without filling, then: the rest of the tail runs on the plain tensor.
  Tail plain = tail;
  plain.layout = Layout::kPlain;
  lowering.Forget(node.output, Layout::kBlocked);
  plain.source.reset();
  plain.buffer = lowering.Write(node.output, Layout::kPlain);
  SLUICE_RETURN_IF_ERROR(lowering.AddReorder(
      StepName(node) + " to plain",
      {tail.shape, Layout::kPlain, tail.source.value_or(tail.buffer), plain.buffer}));
  return TailSteps(lowering, node, plain).Add();
}

absl::Status LowerOperation(Lowering& lowering, const Node& node, const Unary& operation) {
  const ValueId input = *node.inputs[0];
  const Value& x = lowering.value(input);
  if (x.type != DataType::kFloat32 || x.constant != nullptr || ElementCount(x.shape) == 0) {
    return LowerRowMajor(lowering, node);
  }
  const bool blocked = lowering.Has(input, Layout::kBlocked) && !SpoilsFilling(x.shape, operation);
  const Layout layout = blocked ? Layout::kBlocked : Layout::kPlain;
  const bool in_place = lowering.MayOverwrite(input, layout);
  SLUICE_ASSIGN_OR_RETURN(const BufferIndex from, lowering.Read(input, layout));
  if (in_place) lowering.WriteInto(node.output, layout, from);
  const BufferIndex to = in_place ? from : lowering.Write(node.output, layout);
  return AddUnary(lowering, StepName(node), {StoredElements(x.shape, layout), from, to}, operation);
}

absl::Status LowerOperation(Lowering& lowering, const Node& node, const Binary& operation) {
  SLUICE_ASSIGN_OR_RETURN(const bool done, TryBlockedBinary(lowering, node, operation));
  return done ? absl::OkStatus() : LowerRowMajor(lowering, node);
}

absl::Status LowerOperation(Lowering& lowering, const Node& node, const ChannelAffine& operation) {
  const ValueId input = *node.inputs[0];
  const Value& x = lowering.value(input);
  if (x.type != DataType::kFloat32 || ElementCount(x.shape) == 0) {
    return LowerRowMajor(lowering, node);
  }
  const Layout layout = lowering.Has(input, Layout::kBlocked) ? Layout::kBlocked : Layout::kPlain;
  const bool in_place = lowering.MayOverwrite(input, layout);
  SLUICE_ASSIGN_OR_RETURN(const BufferIndex from, lowering.Read(input, layout));
  if (in_place) lowering.WriteInto(node.output, layout, from);
  const BufferIndex to = in_place ? from : lowering.Write(node.output, layout);
  return AddTail(lowering, node,
                 {.shape = x.shape,
                  .layout = layout,
                  .source = from,
                  .buffer = to,
                  .scale = &lowering.value(*node.inputs[1]),
                  .shift = &lowering.value(*node.inputs[2]),
                  .epilogues = operation.epilogues});
}

}  // namespace sluice
