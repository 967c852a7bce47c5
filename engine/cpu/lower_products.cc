// Matrix products: with constant weights (fully connected layers), and of two computed tensors.
//
// One row streams its weights through a kernel of our own; several rows go to oneDNN's matmul. The
// weights of a large layer are cut along their output columns.

#include <algorithm>
#include <utility>

#include "absl/strings/str_format.h"
#include "base/check.h"
#include "base/status_macros.h"
#include "engine/cpu/constant_part.h"
#include "engine/cpu/cpu_steps.h"
#include "engine/cpu/node_lowering.h"
#include "engine/cpu/post_ops.h"
#include "model/matrix_view.h"

namespace sluice {
namespace {

using MatmulDesc = dnnl::matmul::primitive_desc;

// Columns of a slice are a multiple of this: two blocks of MultiplyRow, one of oneDNN's.
constexpr std::int64_t kSliceColumns = 64;

struct Product {
  const FullyConnected& operation;
  std::int64_t rows, inputs, outputs;
  const Value& weights;
  const Value* bias;
  const Value* scale;
};

struct Columns {
  std::int64_t first, count;
};

std::vector<Columns> Cut(const Product& product, Bytes max_slice) {
  const auto inputs = static_cast<std::uint64_t>(std::max<std::int64_t>(product.inputs, 1));
  const auto fitting = static_cast<std::int64_t>(max_slice.count() / (inputs * sizeof(float)));
  const std::int64_t most = std::max(fitting / kSliceColumns * kSliceColumns, kSliceColumns);
  if (product.outputs <= most) return {{0, product.outputs}};
  const std::int64_t slices = (product.outputs + most - 1) / most;
  const std::int64_t blocks = (product.outputs + kSliceColumns - 1) / kSliceColumns;
  const std::int64_t even = (blocks + slices - 1) / slices * kSliceColumns;
  std::vector<Columns> cut;
  for (std::int64_t done = 0; done < product.outputs; done += even) {
    cut.push_back({done, std::min(even, product.outputs - done)});
  }
  return cut;
}

// `columns` of the weights, with the inputs placed by `input_place` and the outputs by
// `output_place`.
WeightPart WeightsOf(const Product& product, Columns columns, Bytes size,
                     const Placement& input_place, const Placement& output_place) {
  const Axis inputs{.factors = {{product.inputs, input_place, 0}}, .count = product.inputs};
  const Axis outputs{.factors = {{columns.count, output_place, 1}},
                     .first = columns.first,
                     .count = columns.count};
  WeightPart part{.source = product.weights.constant,
                  .size = size,
                  .scale = product.scale == nullptr ? nullptr : product.scale->constant,
                  .scale_first = columns.first};
  if (product.operation.transposed_b) {
    part.axes = {outputs, inputs};
    part.row_length = product.inputs;
  } else {
    part.axes = {inputs, outputs};
    part.row_length = product.outputs;
  }
  return part;
}

std::string SliceName(const Node& node, const Product& product, Columns columns) {
  if (columns.count == product.outputs) return StepName(node);
  return StepName(node) +
         absl::StrFormat(" [%d..%d)", columns.first, columns.first + columns.count);
}

std::uint64_t SliceMacs(const Product& product, Columns columns) {
  return static_cast<std::uint64_t>(product.rows) * static_cast<std::uint64_t>(product.inputs) *
         static_cast<std::uint64_t>(columns.count);
}

// One row: weights [columns / 16, inputs, 16].
void AddRowStep(Lowering& lowering, const Node& node, const Product& product, Columns columns,
                BufferIndex x, BufferIndex y) {
  StepDraft step{.name = SliceName(node, product, columns),
                 .kernel = "row product fp32",
                 .macs = SliceMacs(product, columns)};
  const std::int64_t blocks = (columns.count + kColumnBlock - 1) / kColumnBlock;
  const Bytes size =
      Bytes::Of(static_cast<std::uint64_t>(blocks * kColumnBlock * product.inputs) * sizeof(float));
  const Placement input_place{.outer_stride = kColumnBlock};
  const Placement output_place{.outer_stride = product.inputs * kColumnBlock,
                               .inner = {{kColumnBlock, 1}}};
  const Operand source = lowering.Use(step, x);
  const Operand weights =
      lowering.AddWeights(step, WeightsOf(product, columns, size, input_place, output_place));
  Operand bias;
  if (product.bias != nullptr) {
    bias = lowering.AddWeights(step, VectorPart(*product.bias, columns.first, columns.count));
  }
  const Bytes shift = Bytes::Of(static_cast<std::uint64_t>(columns.first) * sizeof(float));
  const Operand result = lowering.Use(step, y).Shifted(shift);
  step.run = std::make_unique<RowProductStep>(RowProduct{product.inputs, columns.count}, source,
                                              weights, bias, result);
  lowering.AddStep(std::move(step));
}

absl::StatusOr<MatmulDesc> DescribeMatmul(const dnnl::memory::desc& a, const dnnl::memory::desc& b,
                                          const dnnl::memory::desc& bias,
                                          const dnnl::memory::desc& result,
                                          const dnnl::primitive_attr& attributes) {
  return TryDnnl(
      [&] { return MatmulDesc(dnnl::matmul::desc(a, b, bias, result), attributes, DnnlEngine()); });
}

// Several rows. Emits one slice after another, all writing their columns of one result.
class MatmulSteps {
 public:
  MatmulSteps(Lowering& lowering, const Node& node, const Product& product, BufferIndex x)
      : lowering_(lowering), node_(node), product_(product), x_(x) {}

  // Fails: UNIMPLEMENTED when the epilogues have no equivalent; nothing was added then.
  absl::Status Add(std::span<const Columns> cut) {
    const std::vector<Epilogue>& epilogues = product_.operation.epilogues;
    fused_ = PostOpsOf(epilogues, Result({0, product_.outputs}), false);
    if (fused_) {
      for (const Epilogue& epilogue : epilogues) {
        if (epilogue.kind != Epilogue::Kind::kAdd) continue;
        SLUICE_ASSIGN_OR_RETURN(const BufferIndex added,
                                lowering_.Read(*node_.inputs[epilogue.input], Layout::kPlain));
        added_.push_back(added);
      }
    }
    y_ = lowering_.Write(node_.output, Layout::kPlain);
    for (const Columns columns : cut) SLUICE_RETURN_IF_ERROR(AddSlice(columns));
    if (fused_ || epilogues.empty()) return absl::OkStatus();
    return AddTail(
        lowering_, node_,
        {.shape = {product_.rows, product_.outputs}, .buffer = y_, .epilogues = epilogues});
  }

 private:
  dnnl::memory::desc Result(Columns columns) const {
    return {{product_.rows, columns.count},
            dnnl::memory::data_type::f32,
            dnnl::memory::dims{product_.outputs, 1}};
  }

  dnnl::memory::desc Weights(Columns columns) const {
    using Tag = dnnl::memory::format_tag;
    // A strided result needs plain weights; a whole one lets oneDNN choose blocks.
    const bool whole = columns.count == product_.outputs;
    return {
        {product_.inputs, columns.count}, dnnl::memory::data_type::f32, whole ? Tag::any : Tag::ab};
  }

  absl::Status AddSlice(Columns columns) {
    std::vector<PostOp> post_ops = fused_.value_or(std::vector<PostOp>());
    for (PostOp& op : post_ops) {
      if (op.kind == PostOp::Kind::kBinary) op.operand = Result(columns);
    }
    const dnnl::memory::desc bias = product_.bias == nullptr
                                        ? dnnl::memory::desc()
                                        : Describe({1, columns.count}, Layout::kPlain);
    const dnnl::memory::desc source = Describe({product_.rows, product_.inputs}, Layout::kPlain);
    SLUICE_ASSIGN_OR_RETURN(
        const MatmulDesc desc,
        DescribeMatmul(source, Weights(columns), bias, Result(columns), Attributes(post_ops)));
    std::vector<DnnlKernel::Argument> arguments = {{DNNL_ARG_SRC, desc.src_desc()},
                                                   {DNNL_ARG_WEIGHTS, desc.weights_desc()},
                                                   {DNNL_ARG_DST, desc.dst_desc()}};
    if (product_.bias != nullptr) arguments.push_back({DNNL_ARG_BIAS, bias});
    for (const DnnlKernel::Argument& argument : PostOpArguments(post_ops)) {
      arguments.push_back(argument);
    }
    const std::string key =
        absl::StrFormat("matmul %s %s %s bias%d", KeyOf(source), KeyOf(desc.weights_desc()),
                        KeyOf(desc.dst_desc()), static_cast<int>(product_.bias != nullptr)) +
        KeyOf(post_ops);
    SLUICE_ASSIGN_OR_RETURN(const std::shared_ptr<DnnlKernel> kernel,
                            lowering_.SharedKernel(key, [&] {
                              return MakeDnnlKernel<dnnl::matmul>(desc, std::move(arguments));
                            }));
    AddOperands(columns, desc.weights_desc(), kernel);
    return absl::OkStatus();
  }

  void AddOperands(Columns columns, const dnnl::memory::desc& weights,
                   const std::shared_ptr<DnnlKernel>& kernel) {
    StepDraft step{.name = SliceName(node_, product_, columns),
                   .kernel = absl::StrFormat("matmul %s", kernel->impl()),
                   .macs = SliceMacs(product_, columns)};
    const Bytes shift = Bytes::Of(static_cast<std::uint64_t>(columns.first) * sizeof(float));
    std::vector<Operand> operands = {
        lowering_.Use(step, x_),
        lowering_.AddWeights(step, WeightsOf(product_, columns, Bytes::Of(weights.get_size()),
                                             PlacementOf(weights, 0), PlacementOf(weights, 1))),
        lowering_.Use(step, y_).Shifted(shift)};
    if (product_.bias != nullptr) {
      operands.push_back(
          lowering_.AddWeights(step, VectorPart(*product_.bias, columns.first, columns.count)));
    }
    for (const BufferIndex added : added_) {
      operands.push_back(lowering_.Use(step, added).Shifted(shift));
    }
    lowering_.AddDnnlStep(std::move(step), kernel, std::move(operands));
  }

  Lowering& lowering_;
  const Node& node_;
  const Product& product_;
  const BufferIndex x_;
  BufferIndex y_{};
  std::optional<std::vector<PostOp>> fused_;
  std::vector<BufferIndex> added_;
};

const Value* OptionalInput(const Lowering& lowering, const Node& node, std::size_t input) {
  if (input >= node.inputs.size() || !node.inputs[input]) return nullptr;
  return &lowering.value(*node.inputs[input]);
}

// A matrix or its view with `rank` dimensions.
dnnl::memory::desc MatrixDesc(MatrixView view, std::size_t rank) {
  // Where there is one batch only, its stride says nothing.
  const std::size_t missing = rank - view.shape.size();
  view.shape.insert(view.shape.begin(), missing, 1);
  view.strides.insert(view.strides.begin(), missing, 0);
  std::int64_t whole = 1;
  for (std::size_t d = rank; d-- > 0;) {
    if (view.shape[d] == 1 && d + 2 < rank) view.strides[d] = whole;
    whole = std::max(whole, view.strides[d] * view.shape[d]);
  }
  return {view.shape, dnnl::memory::data_type::f32, view.strides};
}

}  // namespace

absl::Status LowerOperation(Lowering& lowering, const Node& node, const FullyConnected& operation) {
  const Value& a = lowering.value(*node.inputs[0]);
  const Value& weights = lowering.value(*node.inputs[1]);
  if (a.type != DataType::kFloat32 || ElementCount(a.shape) == 0 ||
      ElementCount(weights.shape) == 0) {
    return LowerRowMajor(lowering, node);
  }
  const std::int64_t inputs = a.shape.back();
  const Product product{operation,
                        static_cast<std::int64_t>(ElementCount(a.shape)) / inputs,
                        inputs,
                        lowering.value(node.output).shape.back(),
                        weights,
                        OptionalInput(lowering, node, 2),
                        OptionalInput(lowering, node, 3)};
  const std::vector<Columns> cut = Cut(product, lowering.options().max_slice);
  SLUICE_ASSIGN_OR_RETURN(const BufferIndex x, lowering.Read(*node.inputs[0], Layout::kPlain));
  if (product.rows > 1) return MatmulSteps(lowering, node, product, x).Add(cut);
  const BufferIndex y = lowering.Write(node.output, Layout::kPlain);
  for (const Columns columns : cut) AddRowStep(lowering, node, product, columns, x, y);
  return AddTail(lowering, node,
                 {.shape = {1, product.outputs}, .buffer = y, .epilogues = operation.epilogues});
}

absl::Status LowerOperation(Lowering& lowering, const Node& node, const MatMul& operation) {
  const Value& result = lowering.value(node.output);
  const Shape& a_shape = lowering.value(*node.inputs[0]).shape;
  const Shape& b_shape = lowering.value(*node.inputs[1]).shape;
  if (result.type != DataType::kFloat32 || ElementCount(result.shape) == 0 ||
      ElementCount(a_shape) == 0 || result.shape.size() > DNNL_MAX_NDIMS) {
    return LowerRowMajor(lowering, node);
  }
  const std::size_t rank = std::max(a_shape.size(), b_shape.size());
  const dnnl::memory::desc a = MatrixDesc(ViewA(operation, a_shape), rank);
  const dnnl::memory::desc b = MatrixDesc(ViewB(operation, b_shape), rank);
  const dnnl::memory::desc y = MatrixDesc(ViewProduct(operation, result.shape), rank);
  dnnl::primitive_attr attributes = Attributes({});
  if (operation.alpha != 1) attributes.set_output_scales(0, {operation.alpha});
  SLUICE_ASSIGN_OR_RETURN(const MatmulDesc desc,
                          DescribeMatmul(a, b, dnnl::memory::desc(), y, attributes));
  if (!IsFast(desc.impl_info_str())) return LowerRowMajor(lowering, node);
  SLUICE_ASSIGN_OR_RETURN(
      const std::shared_ptr<DnnlKernel> kernel,
      lowering.SharedKernel(absl::StrFormat("matmul %s %s %s alpha %a", KeyOf(a), KeyOf(b),
                                            KeyOf(y), operation.alpha),
                            [&] {
                              return MakeDnnlKernel<dnnl::matmul>(
                                  desc,
                                  {{DNNL_ARG_SRC, a}, {DNNL_ARG_WEIGHTS, b}, {DNNL_ARG_DST, y}});
                            }));
  StepDraft step{.name = StepName(node),
                 .kernel = absl::StrFormat("matmul %s", kernel->impl()),
                 .macs = MacCount(lowering.graph(), node)};
  SLUICE_ASSIGN_OR_RETURN(const Operand left,
                          lowering.Input(step, *node.inputs[0], Layout::kPlain));
  SLUICE_ASSIGN_OR_RETURN(const Operand right,
                          lowering.Input(step, *node.inputs[1], Layout::kPlain));
  const Operand written = lowering.Use(step, lowering.Write(node.output, Layout::kPlain));
  lowering.AddDnnlStep(std::move(step), kernel, {left, right, written});
  return absl::OkStatus();
}

}  // namespace sluice
