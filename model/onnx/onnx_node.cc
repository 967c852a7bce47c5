#include "model/onnx/onnx_node.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_format.h"
#include "base/status_macros.h"
#include "model/dynamic_dim.h"
#include "model/host_tensor.h"
#include "model/shape_rule.h"

namespace sluice {

using onnx::AttributeProto;

OnnxNode::OnnxNode(Context context, int index, std::int64_t opset,
                   std::vector<std::optional<ValueId>> inputs)
    : context_(context),
      index_(index),
      proto_(context.file.proto.node(index)),
      opset_(opset),
      inputs_(std::move(inputs)) {}

const AttributeProto* OnnxNode::Find(std::string_view name) const {
  for (const AttributeProto& attribute : proto_.attribute()) {
    if (attribute.name() == name) return &attribute;
  }
  return nullptr;
}

const AttributeProto* OnnxNode::Typed(std::string_view name, AttributeProto::AttributeType type) {
  const AttributeProto* attribute = Find(name);
  // Files from before the format's version 3 do not say the type.
  if (attribute != nullptr && attribute->type() != type &&
      attribute->type() != AttributeProto::UNDEFINED && attribute_error_.ok()) {
    attribute_error_ = absl::InvalidArgumentError(
        absl::StrFormat("attribute \"%s\" has type %d, want %d", name,
                        static_cast<int>(attribute->type()), static_cast<int>(type)));
  }
  return attribute;
}

std::int64_t OnnxNode::Int(std::string_view name, std::int64_t otherwise) {
  const AttributeProto* attribute = Typed(name, AttributeProto::INT);
  return attribute == nullptr ? otherwise : attribute->i();
}

float OnnxNode::Float(std::string_view name, float otherwise) {
  const AttributeProto* attribute = Typed(name, AttributeProto::FLOAT);
  return attribute == nullptr ? otherwise : attribute->f();
}

std::string OnnxNode::String(std::string_view name, std::string_view otherwise) {
  const AttributeProto* attribute = Typed(name, AttributeProto::STRING);
  return attribute == nullptr ? std::string(otherwise) : attribute->s();
}

std::vector<std::int64_t> OnnxNode::Ints(std::string_view name) {
  const AttributeProto* attribute = Typed(name, AttributeProto::INTS);
  if (attribute == nullptr) return {};
  return {attribute->ints().begin(), attribute->ints().end()};
}

std::vector<float> OnnxNode::Floats(std::string_view name) {
  const AttributeProto* attribute = Typed(name, AttributeProto::FLOATS);
  if (attribute == nullptr) return {};
  return {attribute->floats().begin(), attribute->floats().end()};
}

std::vector<std::string> OnnxNode::Strings(std::string_view name) {
  const AttributeProto* attribute = Typed(name, AttributeProto::STRINGS);
  if (attribute == nullptr) return {};
  return {attribute->strings().begin(), attribute->strings().end()};
}

absl::StatusOr<Value> OnnxNode::Tensor(std::string_view name) {
  const AttributeProto* attribute = Typed(name, AttributeProto::TENSOR);
  SLUICE_RETURN_IF_ERROR(attribute_error_);
  int slot = 0;
  while (slot < proto_.attribute_size() && &proto_.attribute(slot) != attribute) ++slot;
  const auto found = context_.file.attributes.find({index_, slot});
  const TensorContents contents =
      found == context_.file.attributes.end() ? TensorContents{} : found->second;
  SLUICE_ASSIGN_OR_RETURN(Value value, context_.tensors.Read(attribute->t(), contents));
  Widen(value);
  return value;
}

absl::Status OnnxNode::NeedConstant(std::size_t i) const {
  if (IsConstant(i)) return absl::OkStatus();
  const std::string from = context_.known.DependsOn(context_.graph, *inputs_[i]);
  return absl::UnimplementedError(absl::StrFormat(
      "input %d (\"%s\") is computed from %s, only a constant is supported", i, at(i).name, from));
}

absl::StatusOr<Value> OnnxNode::KnownInput(std::size_t i) const {
  if (IsConstant(i)) return at(i);
  Value value = at(i);
  SLUICE_ASSIGN_OR_RETURN(value.constant, context_.known.Evaluate(context_.graph, *inputs_[i]));
  if (value.constant != nullptr) return value;
  return NeedConstant(i);
}

absl::StatusOr<std::vector<std::int64_t>> OnnxNode::Integers(std::size_t i) const {
  SLUICE_ASSIGN_OR_RETURN(const Value value, KnownInput(i));
  return ReadIntegers(value);
}

absl::StatusOr<std::optional<bool>> OnnxNode::Truth(ValueId id) const {
  const Value& value = context_.graph.value(id);
  if (value.type != DataType::kBool || ElementCount(value.shape) != 1) {
    return absl::InvalidArgumentError(absl::StrFormat(
        "a condition is %s %s, want one BOOL", ProtocolName(value.type), FormatShape(value.shape)));
  }
  SLUICE_ASSIGN_OR_RETURN(const std::shared_ptr<const Constant> known,
                          context_.known.Evaluate(context_.graph, id));
  if (known == nullptr) return std::nullopt;
  std::byte truth{};
  SLUICE_RETURN_IF_ERROR(known->Read(Bytes(), {&truth, 1}));
  return truth != std::byte{0};
}

absl::StatusOr<std::vector<float>> OnnxNode::Numbers(std::size_t i) const {
  SLUICE_ASSIGN_OR_RETURN(const Value value, KnownInput(i));
  return ReadFloats(value);
}

absl::StatusOr<std::optional<std::vector<std::int64_t>>> OnnxNode::IntsOrInput(
    std::string_view name, std::size_t i, std::int64_t since) {
  if (opset_ >= since) {
    if (!input(i)) return std::nullopt;
    SLUICE_ASSIGN_OR_RETURN(std::vector<std::int64_t> integers, Integers(i));
    return integers;
  }
  if (!Has(name)) return std::nullopt;
  std::vector<std::int64_t> integers = Ints(name);
  SLUICE_RETURN_IF_ERROR(attribute_error_);
  return integers;
}

MaybeValue OnnxNode::Emit(Operation operation, std::vector<std::optional<ValueId>> inputs,
                          const std::optional<Shape>& shape, std::optional<DataType> type) {
  SLUICE_RETURN_IF_ERROR(attribute_error_);
  Graph& graph = context_.graph;
  std::vector<const Value*> values;
  values.reserve(inputs.size());
  for (const std::optional<ValueId>& input : inputs) {
    values.push_back(input ? &graph.value(*input) : nullptr);
  }
  SLUICE_ASSIGN_OR_RETURN(const std::optional<Shape> follows, OutputShape(operation, values));
  Value output;
  output.name = absl::StrFormat("%s#%d", proto_.output_size() > 0 ? proto_.output(0) : "",
                                graph.values.size());
  output.type = type.value_or(values[0]->type);
  // Nothing but a conversion makes 16-bit floats.
  if (IsShortFloat(output.type) && !std::holds_alternative<Cast>(operation)) {
    output.type = DataType::kFloat32;
  }
  output.shape = follows ? *follows : shape.value_or(Shape{});
  SLUICE_ASSIGN_OR_RETURN(output.dynamic, DynamicDimOf(operation, values, output.shape));
  const Bytes size = TensorBytes(output.type, output.shape);
  if (size > context_.max_tensor) {
    return absl::ResourceExhaustedError(absl::StrFormat(
        "its output of shape %s takes %s, the limit is %s", FormatShape(output.shape),
        FormatBytes(size), FormatBytes(context_.max_tensor)));
  }
  Node node{.name = proto_.name(),
            .source_op = proto_.op_type(),
            .operation = std::move(operation),
            .inputs = std::move(inputs)};
  node.output = graph.Add(std::move(output));
  SLUICE_RETURN_IF_ERROR(CheckShapes(graph, node));
  SLUICE_ASSIGN_OR_RETURN(std::shared_ptr<const Constant> folded, Fold(graph, node));
  if (folded != nullptr) {
    graph.value(node.output).constant = std::move(folded);
    return node.output;
  }
  graph.nodes.push_back(std::move(node));
  return graph.nodes.back().output;
}

ValueId OnnxNode::AddConstant(DataType type, Shape shape,
                              std::shared_ptr<const Constant> constant) {
  Value value{.name = absl::StrFormat("%s#%d", proto_.name(), graph().values.size()),
              .type = type,
              .shape = std::move(shape),
              .constant = std::move(constant)};
  Widen(value);
  return graph().Add(std::move(value));
}

ValueId OnnxNode::AddFloats(DataType type, Shape shape, std::span<const float> elements) {
  return AddConstant(type, std::move(shape), InlineConstant(PackFloats(type, elements)));
}

ValueId OnnxNode::AddIntegers(std::vector<std::int64_t> elements) {
  return AddConstant(DataType::kInt64, {std::ssize(elements)},
                     InlineConstant(PackIntegers(DataType::kInt64, elements)));
}

absl::Status OnnxNode::BookGenerated(Bytes size) {
  context_.generated += size;
  if (context_.generated <= context_.max_tensor) return absl::OkStatus();
  return absl::ResourceExhaustedError(
      absl::StrFormat("the constants that the graph generates take %s so far, the limit is %s",
                      FormatBytes(context_.generated), FormatBytes(context_.max_tensor)));
}

std::optional<ValueId> OnnxNode::extra_output(std::size_t i) const {
  const auto found = extra_outputs_.find(i);
  if (found == extra_outputs_.end()) return std::nullopt;
  return found->second;
}

const Node* OnnxNode::Producer(ValueId id) const {
  const auto& nodes = context_.graph.nodes;
  const auto found = std::find_if(nodes.rbegin(), nodes.rend(),
                                  [&](const Node& node) { return node.output == id; });
  return found == nodes.rend() ? nullptr : &*found;
}

absl::StatusOr<std::int64_t> NormalAxis(std::int64_t axis, std::size_t rank) {
  const auto dims = static_cast<std::int64_t>(rank);
  if (axis < -dims || axis >= dims) {
    return absl::InvalidArgumentError(
        absl::StrFormat("axis %d is out of range for %d dimensions", axis, dims));
  }
  return axis < 0 ? axis + dims : axis;
}

absl::StatusOr<std::vector<std::int64_t>> NormalAxes(std::span<const std::int64_t> axes,
                                                     std::size_t rank) {
  std::vector<std::int64_t> normal;
  for (const std::int64_t axis : axes) {
    SLUICE_ASSIGN_OR_RETURN(const std::int64_t one, NormalAxis(axis, rank));
    normal.push_back(one);
  }
  std::ranges::sort(normal);
  if (std::ranges::adjacent_find(normal) != normal.end()) {
    return absl::InvalidArgumentError(
        absl::StrFormat("axes %s name one dimension twice", FormatShape(normal)));
  }
  return normal;
}

}  // namespace sluice
