#include "model/onnx/onnx_mutator.h"

#include <algorithm>
#include <array>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "model/onnx/onnx_node.h"

namespace sluice {
namespace {

using onnx::AttributeProto;
using onnx::TensorProto;

constexpr int kMaxDepth = 4;
constexpr int kMaxNodes = 64;

const std::vector<std::string>& OperatorNames() {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> all;
    for (const OnnxOperator& op : KnownOperators()) all.emplace_back(op.name);
    return all;
  }();
  return names;
}

// Names that operators look for; a wrong one in a wrong place is what is wanted.
constexpr std::array<const char*, 48> kAttributes = {"axis",
                                                     "axes",
                                                     "perm",
                                                     "kernel_shape",
                                                     "strides",
                                                     "dilations",
                                                     "pads",
                                                     "auto_pad",
                                                     "group",
                                                     "keepdims",
                                                     "to",
                                                     "alpha",
                                                     "beta",
                                                     "mode",
                                                     "epsilon",
                                                     "value",
                                                     "transA",
                                                     "transB",
                                                     "ceil_mode",
                                                     "count_include_pad",
                                                     "blocksize",
                                                     "broadcast",
                                                     "split",
                                                     "starts",
                                                     "ends",
                                                     "sizes",
                                                     "scales",
                                                     "allowzero",
                                                     "batch_dims",
                                                     "largest",
                                                     "sorted",
                                                     "equation",
                                                     "direction",
                                                     "hidden_size",
                                                     "activations",
                                                     "layout",
                                                     "num_outputs",
                                                     "reduction",
                                                     "exclusive",
                                                     "reverse",
                                                     "then_branch",
                                                     "else_branch",
                                                     "body",
                                                     "num_scan_inputs",
                                                     "output_shape",
                                                     "noop_with_empty_axes",
                                                     "select_last_index",
                                                     "fmod"};

constexpr std::array<const char*, 12> kStrings = {
    "SAME_UPPER", "SAME_LOWER", "VALID",   "NOTSET",    "reflect",       "edge",
    "cubic",      "linear",     "nearest", "ij,jk->ik", "bidirectional", "add"};

}  // namespace

std::int64_t OnnxMutator::Integer() {
  constexpr std::array<std::int64_t, 14> kInteresting = {0,
                                                         1,
                                                         -1,
                                                         2,
                                                         3,
                                                         4,
                                                         16,
                                                         255,
                                                         -2,
                                                         1 << 20,
                                                         std::int64_t{1} << 31,
                                                         std::int64_t{1} << 40,
                                                         std::numeric_limits<std::int64_t>::max(),
                                                         std::numeric_limits<std::int64_t>::min()};
  return Below(4) == 0 ? kInteresting[Below(kInteresting.size())]
                       : static_cast<std::int64_t>(Below(8)) - 2;
}

float OnnxMutator::Number() {
  constexpr std::array<float, 8> kInteresting = {0,
                                                 1,
                                                 -1,
                                                 0.5f,
                                                 1e-30f,
                                                 1e30f,
                                                 std::numeric_limits<float>::infinity(),
                                                 std::numeric_limits<float>::quiet_NaN()};
  return kInteresting[Below(kInteresting.size())];
}

std::string OnnxMutator::AnyName(const onnx::GraphProto& graph) {
  std::vector<std::string> names = {"", "nowhere"};
  for (const onnx::NodeProto& node : graph.node()) {
    names.insert(names.end(), node.output().begin(), node.output().end());
  }
  for (const TensorProto& tensor : graph.initializer()) names.push_back(tensor.name());
  for (const onnx::ValueInfoProto& input : graph.input()) names.push_back(input.name());
  return names[Below(names.size())];
}

void OnnxMutator::Mutate(onnx::ModelProto& model) {
  for (std::size_t changes = 1 + Below(4); changes > 0; --changes) {
    if (Below(16) == 0 && model.opset_import_size() > 0) {
      model.mutable_opset_import(0)->set_version(1 + static_cast<std::int64_t>(Below(22)));
    } else {
      MutateGraph(*model.mutable_graph(), 0);
    }
  }
}

void OnnxMutator::MutateGraph(onnx::GraphProto& graph, int depth) {
  switch (Below(8)) {
    case 0:
      if (graph.node_size() < kMaxNodes) AddNode(graph);
      return;
    case 1:
      if (graph.node_size() > 1)
        graph.mutable_node()->DeleteSubrange(
            static_cast<int>(Below(static_cast<std::size_t>(graph.node_size()))), 1);
      return;
    case 2:
      if (graph.initializer_size() > 0)
        MutateTensor(*graph.mutable_initializer(
            static_cast<int>(Below(static_cast<std::size_t>(graph.initializer_size())))));
      return;
    case 3:
      if (graph.input_size() > 0)
        MutatePort(*graph.mutable_input(
            static_cast<int>(Below(static_cast<std::size_t>(graph.input_size())))));
      return;
    case 4:
      if (graph.output_size() > 0)
        graph
            .mutable_output(static_cast<int>(Below(static_cast<std::size_t>(graph.output_size()))))
            ->set_name(AnyName(graph));
      return;
    default:
      if (graph.node_size() > 0) {
        const auto which = static_cast<int>(Below(static_cast<std::size_t>(graph.node_size())));
        MutateNode(*graph.mutable_node(which), graph, depth);
      }
  }
}

void OnnxMutator::AddNode(onnx::GraphProto& graph) {
  const auto nodes = static_cast<std::size_t>(graph.node_size());
  onnx::NodeProto added;
  if (nodes > 0 && Below(2) == 0) added = graph.node(static_cast<int>(Below(nodes)));
  added.set_op_type(OperatorNames()[Below(OperatorNames().size())]);
  if (added.input().empty()) added.add_input(AnyName(graph));
  added.clear_output();
  added.add_output("added" + std::to_string(nodes));
  *graph.add_node() = added;
  if (Below(2) == 0 && graph.output_size() > 0) graph.mutable_output(0)->set_name(added.output(0));
}

void OnnxMutator::MutateNode(onnx::NodeProto& node, onnx::GraphProto& graph, int depth) {
  switch (Below(6)) {
    case 0:
      node.set_op_type(OperatorNames()[Below(OperatorNames().size())]);
      return;
    case 1:
      if (node.input_size() > 0) {
        node.set_input(static_cast<int>(Below(static_cast<std::size_t>(node.input_size()))),
                       AnyName(graph));
      }
      return;
    case 2:
      node.add_input(AnyName(graph));
      return;
    case 3:
      node.add_output("more" + std::to_string(node.output_size()));
      return;
    default:
      MutateAttribute(node, depth);
  }
}

void OnnxMutator::MutateAttribute(onnx::NodeProto& node, int depth) {
  if (node.attribute_size() == 0 || Below(4) == 0) {
    node.add_attribute()->set_name(kAttributes[Below(kAttributes.size())]);
  }
  AttributeProto& attribute = *node.mutable_attribute(
      static_cast<int>(Below(static_cast<std::size_t>(node.attribute_size()))));
  if (attribute.has_g() && depth < kMaxDepth) return MutateGraph(*attribute.mutable_g(), depth + 1);
  if (attribute.has_t() && Below(2) == 0) return MutateTensor(*attribute.mutable_t());
  switch (Below(6)) {
    case 0:
      attribute.set_type(AttributeProto::INT);
      attribute.set_i(Integer());
      return;
    case 1:
      attribute.set_type(AttributeProto::FLOAT);
      attribute.set_f(Number());
      return;
    case 2:
      attribute.set_type(AttributeProto::STRING);
      attribute.set_s(kStrings[Below(kStrings.size())]);
      return;
    case 3:
      attribute.set_type(AttributeProto::FLOATS);
      attribute.add_floats(Number());
      return;
    default:
      attribute.set_type(AttributeProto::INTS);
      if (attribute.ints_size() > 0 && Below(3) != 0) {
        attribute.set_ints(static_cast<int>(Below(static_cast<std::size_t>(attribute.ints_size()))),
                           Integer());
      } else {
        attribute.add_ints(Integer());
      }
  }
}

void OnnxMutator::MutateTensor(TensorProto& tensor) {
  switch (Below(4)) {
    case 0:
      tensor.set_data_type(1 + static_cast<std::int32_t>(Below(16)));
      return;
    case 1:
      tensor.add_dims(Integer());
      return;
    case 2:
      if (tensor.dims_size() > 0) {
        tensor.set_dims(static_cast<int>(Below(static_cast<std::size_t>(tensor.dims_size()))),
                        Integer());
      }
      return;
    default:
      if (tensor.raw_data().size() >= 8) {
        std::string raw = tensor.raw_data();
        const std::int64_t value = Integer();
        raw.replace(Below(raw.size() / 8) * 8, 8, reinterpret_cast<const char*>(&value), 8);
        tensor.set_raw_data(raw);
      } else {
        tensor.add_int64_data(Integer());
      }
  }
}

void OnnxMutator::MutatePort(onnx::ValueInfoProto& port) {
  auto& tensor = *port.mutable_type()->mutable_tensor_type();
  if (Below(3) == 0) {
    tensor.set_elem_type(1 + static_cast<std::int32_t>(Below(16)));
    return;
  }
  auto& shape = *tensor.mutable_shape();
  if (shape.dim_size() == 0 || Below(4) == 0) {
    shape.add_dim()->set_dim_value(Integer());
    return;
  }
  shape.mutable_dim(static_cast<int>(Below(static_cast<std::size_t>(shape.dim_size()))))
      ->set_dim_value(Integer());
}

}  // namespace sluice
