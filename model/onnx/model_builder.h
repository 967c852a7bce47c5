// model/onnx/model_builder.h
//
// Tiny ONNX models for tests.

#ifndef SLUICE_MODEL_ONNX_MODEL_BUILDER_H_
#define SLUICE_MODEL_ONNX_MODEL_BUILDER_H_

#include <gtest/gtest.h>
#include <onnx/onnx_pb.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <initializer_list>
#include <string>
#include <vector>

#include "model/graph.h"
#include "model/host_tensor.h"
#include "model/onnx/onnx_importer.h"

namespace sluice {

// A folder that goes with the test.
class TemporaryFolder {
 public:
  TemporaryFolder() {
    static int count = 0;
    path_ = std::filesystem::path(testing::TempDir()) /
            ("sluice_onnx_" + std::to_string(::getpid()) + "_" + std::to_string(count++));
    std::filesystem::create_directories(path_);
  }
  ~TemporaryFolder() { std::filesystem::remove_all(path_); }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  const std::filesystem::path& path() const { return path_; }
  std::filesystem::path Write(const std::string& name, const std::string& bytes) const {
    std::ofstream(path_ / name, std::ios::binary) << bytes;
    return path_ / name;
  }

 private:
  std::filesystem::path path_;
};

// A node whose attributes are set in a chain.
class NodeBuilder {
 public:
  explicit NodeBuilder(onnx::NodeProto& node) : node_(node) {}
  NodeBuilder& Int(const std::string& name, std::int64_t value) {
    onnx::AttributeProto& attribute = New(name, onnx::AttributeProto::INT);
    attribute.set_i(value);
    return *this;
  }
  NodeBuilder& Float(const std::string& name, float value) {
    New(name, onnx::AttributeProto::FLOAT).set_f(value);
    return *this;
  }
  NodeBuilder& String(const std::string& name, const std::string& value) {
    New(name, onnx::AttributeProto::STRING).set_s(value);
    return *this;
  }
  NodeBuilder& Ints(const std::string& name, const std::vector<std::int64_t>& values) {
    onnx::AttributeProto& attribute = New(name, onnx::AttributeProto::INTS);
    for (const std::int64_t value : values) attribute.add_ints(value);
    return *this;
  }
  NodeBuilder& Floats(const std::string& name, const std::vector<float>& values) {
    onnx::AttributeProto& attribute = New(name, onnx::AttributeProto::FLOATS);
    for (const float value : values) attribute.add_floats(value);
    return *this;
  }
  onnx::TensorProto& Tensor(const std::string& name) {
    return *New(name, onnx::AttributeProto::TENSOR).mutable_t();
  }
  onnx::GraphProto& Graph(const std::string& name) {
    return *New(name, onnx::AttributeProto::GRAPH).mutable_g();
  }
  onnx::NodeProto& proto() { return node_; }

 private:
  onnx::AttributeProto& New(const std::string& name, onnx::AttributeProto::AttributeType type) {
    onnx::AttributeProto& attribute = *node_.add_attribute();
    attribute.set_name(name);
    attribute.set_type(type);
    return attribute;
  }
  onnx::NodeProto& node_;
};

class ModelBuilder {
 public:
  explicit ModelBuilder(std::int64_t opset) {
    model.set_ir_version(8);
    model.set_producer_name("tests");
    onnx::OperatorSetIdProto& import = *model.add_opset_import();
    import.set_domain("");
    import.set_version(opset);
    graph().set_name("g");
  }
  onnx::GraphProto& graph() { return *model.mutable_graph(); }

  // A dimension below 0 is symbolic, without a name.
  onnx::ValueInfoProto& Input(const std::string& name, const Shape& shape,
                              int type = onnx::TensorProto::FLOAT) {
    onnx::ValueInfoProto& input = *graph().add_input();
    input.set_name(name);
    auto& tensor = *input.mutable_type()->mutable_tensor_type();
    tensor.set_elem_type(type);
    tensor.mutable_shape();
    for (const std::int64_t dim : shape) {
      auto& added = *tensor.mutable_shape()->add_dim();
      if (dim >= 0) added.set_dim_value(dim);
    }
    return input;
  }
  void NameDim(onnx::ValueInfoProto& input, int axis, const std::string& name) {
    input.mutable_type()->mutable_tensor_type()->mutable_shape()->mutable_dim(axis)->set_dim_param(
        name);
  }
  void Output(const std::string& name) { graph().add_output()->set_name(name); }

  onnx::TensorProto& Floats(const std::string& name, const Shape& shape,
                            const std::vector<float>& elements) {
    onnx::TensorProto& tensor = Tensor(name, shape, onnx::TensorProto::FLOAT);
    tensor.set_raw_data(elements.data(), elements.size() * sizeof(float));
    return tensor;
  }
  // As many elements as the shape wants: 1, 2, 3 and so on.
  onnx::TensorProto& Counting(const std::string& name, const Shape& shape) {
    std::vector<float> elements(ElementCount(shape));
    for (std::size_t i = 0; i < elements.size(); ++i) elements[i] = static_cast<float>(i + 1);
    return Floats(name, shape, elements);
  }
  onnx::TensorProto& Ints(const std::string& name, const std::vector<std::int64_t>& elements) {
    onnx::TensorProto& tensor = Tensor(name, {std::ssize(elements)}, onnx::TensorProto::INT64);
    for (const std::int64_t element : elements) tensor.add_int64_data(element);
    return tensor;
  }
  onnx::TensorProto& Tensor(const std::string& name, const Shape& shape, int type) {
    onnx::TensorProto& tensor = *graph().add_initializer();
    tensor.set_name(name);
    tensor.set_data_type(type);
    for (const std::int64_t dim : shape) tensor.add_dims(dim);
    return tensor;
  }

  NodeBuilder Node(const std::string& op, const std::vector<std::string>& inputs,
                   const std::vector<std::string>& outputs) {
    onnx::NodeProto& node = *graph().add_node();
    node.set_op_type(op);
    node.set_name("node_" + outputs[0]);
    for (const std::string& input : inputs) node.add_input(input);
    for (const std::string& output : outputs) node.add_output(output);
    return NodeBuilder(node);
  }

  absl::StatusOr<ImportedModel> Import(const ImportOptions& options = {}) const {
    return ImportOnnx(folder_.Write("model.onnx", model.SerializeAsString()), options);
  }
  // The graph, or a failed test.
  Graph Imported(const ImportOptions& options = {}) const {
    absl::StatusOr<ImportedModel> imported = Import(options);
    EXPECT_TRUE(imported.ok()) << imported.status();
    return imported.ok() ? std::move(imported->graph) : Graph{};
  }
  const std::filesystem::path& folder() const { return folder_.path(); }

  onnx::ModelProto model;

 private:
  TemporaryFolder folder_;
};

// A model of one node that reads "x" and makes "y".
struct OneNode {
  OneNode(std::int64_t opset, const std::string& op, const Shape& x,
          std::vector<std::string> more = {}, const std::vector<std::string>& outputs = {"y"})
      : builder(opset) {
    builder.Input("x", x);
    more.insert(more.begin(), "x");
    node = new NodeBuilder(builder.Node(op, more, outputs));
    for (const std::string& output : outputs) builder.Output(output);
  }
  ~OneNode() { delete node; }
  OneNode(const OneNode&) = delete;
  OneNode& operator=(const OneNode&) = delete;
  NodeBuilder& operator*() { return *node; }
  NodeBuilder* operator->() { return node; }
  Graph Imported() const { return builder.Imported(); }
  absl::Status Status() const { return builder.Import().status(); }

  ModelBuilder builder;
  NodeBuilder* node;
};

inline std::vector<std::string> OperationNames(const Graph& graph) {
  std::vector<std::string> names;
  for (const Node& node : graph.nodes) names.push_back(Name(node.operation));
  return names;
}

inline Shape OutputShape(const Graph& graph, std::size_t i = 0) {
  return i < graph.outputs.size() ? graph.value(graph.outputs[i]).shape : Shape{-1};
}

template <typename Op>
const Op& OperationAt(const Graph& graph, std::size_t node) {
  return std::get<Op>(graph.nodes.at(node).operation);
}

}  // namespace sluice

#endif  // SLUICE_MODEL_ONNX_MODEL_BUILDER_H_
