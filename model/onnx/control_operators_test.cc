// If, Loop and Scan: what is taken, unrolled, selected, and refused.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <initializer_list>
#include <string>
#include <vector>

#include "model/onnx/model_builder.h"

namespace sluice {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Key;

using Names = std::vector<std::string>;

// A graph that is an attribute.
struct Body {
  onnx::GraphProto& graph;

  void In(const std::string& name) { graph.add_input()->set_name(name); }
  void Out(const std::string& name) { graph.add_output()->set_name(name); }
  NodeBuilder Node(const std::string& op, const Names& inputs, const Names& outputs) {
    onnx::NodeProto& node = *graph.add_node();
    node.set_op_type(op);
    for (const std::string& input : inputs) node.add_input(input);
    for (const std::string& output : outputs) node.add_output(output);
    return NodeBuilder(node);
  }
};

void AddTruth(ModelBuilder& b, const std::string& name, bool truth) {
  b.Tensor(name, {}, onnx::TensorProto::BOOL).add_int32_data(truth ? 1 : 0);
}

std::vector<std::int64_t> ConstantOutput(const absl::StatusOr<ImportedModel>& model,
                                         std::size_t output) {
  EXPECT_TRUE(model.ok()) << model.status();
  if (!model.ok()) return {};
  const Value& value = model->graph.value(model->graph.outputs.at(output));
  EXPECT_NE(value.constant, nullptr) << value.name << " is computed";
  if (value.constant == nullptr) return {};
  const absl::StatusOr<std::vector<std::int64_t>> elements = ReadIntegers(value);
  EXPECT_TRUE(elements.ok()) << elements.status();
  return elements.value_or(std::vector<std::int64_t>());
}

template <typename Op>
std::int64_t Count(const Graph& graph) {
  return std::ranges::count_if(
      graph.nodes, [](const Node& node) { return std::holds_alternative<Op>(node.operation); });
}

// y = condition ? -x : relu(x).
struct Branches {
  Branches() : b(16) {
    b.Input("x", {2, 3});
    NodeBuilder node = b.Node("If", {"condition"}, {"y"});
    Body on{node.Graph("then_branch")};
    on.Node("Neg", {"x"}, {"negative"});
    on.Out("negative");
    Body off{node.Graph("else_branch")};
    off.Node("Relu", {"x"}, {"positive"});
    off.Out("positive");
    b.Output("y");
  }
  onnx::NodeProto& then_node() {
    return *b.graph().mutable_node(0)->mutable_attribute(0)->mutable_g()->mutable_node(0);
  }
  ModelBuilder b;
};

TEST(ControlOperatorsTest, IfTakesTheBranchThatIsKnown) {
  for (const bool truth : {true, false}) {
    Branches model;
    AddTruth(model.b, "condition", truth);
    const absl::StatusOr<ImportedModel> imported = model.b.Import();
    ASSERT_TRUE(imported.ok()) << imported.status();
    ASSERT_EQ(imported->graph.nodes.size(), 1U);
    EXPECT_EQ(std::get<Unary>(imported->graph.nodes[0].operation).kind,
              truth ? Unary::Kind::kNegate : Unary::Kind::kRelu);
    EXPECT_EQ(imported->graph.value(imported->graph.outputs[0]).name, "y");
  }
}

TEST(ControlOperatorsTest, IfSelectsWhereTheConditionIsComputed) {
  Branches model;
  model.b.Input("condition", {1}, onnx::TensorProto::BOOL);
  const absl::StatusOr<ImportedModel> imported = model.b.Import();
  ASSERT_TRUE(imported.ok()) << imported.status();
  EXPECT_EQ(Count<Unary>(imported->graph), 2);
  EXPECT_EQ(Count<Select>(imported->graph), 1);
  EXPECT_EQ(OutputShape(imported->graph), (Shape{2, 3}));
}

TEST(ControlOperatorsTest, IfWithBranchesOfTwoShapesNeedsToKnowWhich) {
  ModelBuilder b(16);
  b.Input("x", {2, 3});
  b.Input("c", {}, onnx::TensorProto::BOOL);
  NodeBuilder node = b.Node("If", {"c"}, {"y"});
  Body on{node.Graph("then_branch")};
  on.Node("Transpose", {"x"}, {"turned"});
  on.Out("turned");
  Body off{node.Graph("else_branch")};
  off.Node("Relu", {"x"}, {"positive"});
  off.Out("positive");
  b.Output("y");
  const absl::Status computed = b.Import().status();
  EXPECT_EQ(computed.code(), absl::StatusCode::kUnimplemented);
  EXPECT_THAT(std::string(computed.message()), HasSubstr("FP32 [3,2] and FP32 [2,3]"));
  const absl::StatusOr<ImportedModel> known = b.Import({.values = {{"c", {std::byte{1}}}}});
  ASSERT_TRUE(known.ok()) << known.status();
  EXPECT_EQ(OutputShape(known->graph), (Shape{3, 2}));
  EXPECT_THAT(known->specialised, ElementsAre(Key("c")));
}

TEST(ControlOperatorsTest, BranchesSeeTheGraphAroundThem) {
  ModelBuilder b(16);
  b.Input("x", {2});
  AddTruth(b, "yes", true);
  b.Floats("w", {2}, {1, 2});
  b.Node("Abs", {"x"}, {"positive"});
  NodeBuilder outer = b.Node("If", {"yes"}, {"y"});
  Body middle{outer.Graph("then_branch")};
  NodeBuilder inner = middle.Node("If", {"yes"}, {"z"});
  Body innermost{inner.Graph("then_branch")};
  innermost.Node("Mul", {"positive", "w"}, {"product"});
  innermost.Out("product");
  middle.Out("z");
  b.Output("y");
  const absl::StatusOr<ImportedModel> imported = b.Import();
  ASSERT_TRUE(imported.ok()) << imported.status();
  EXPECT_EQ(imported->graph.nodes.size(), 2U);
}

TEST(ControlOperatorsTest, WhatIsUnknownInATakenBranchIsListedWithTheRest) {
  Branches model;
  AddTruth(model.b, "condition", true);
  model.then_node().set_op_type("Fantasy");
  model.b.Node("Dream", {"x"}, {"other"});
  model.b.Output("other");
  const absl::Status status = model.b.Import().status();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnimplemented);
  EXPECT_THAT(std::string(status.message()), HasSubstr("Fantasy-16"));
  EXPECT_THAT(std::string(status.message()), HasSubstr("Dream-16"));
}

TEST(ControlOperatorsTest, WhatIsUnknownInABranchThatIsNotTakenDoesNoHarm) {
  Branches model;
  AddTruth(model.b, "condition", false);
  model.then_node().set_op_type("Fantasy");
  EXPECT_TRUE(model.b.Import().ok());
}

// sum += iteration; gathers every sum. Goes on while `condition` of the body, made from
// "iteration" and "goes_on", says so.
struct Summing {
  Summing() : b(16) {
    b.Tensor("zero", {}, onnx::TensorProto::INT64).add_int64_data(0);
    NodeBuilder node = b.Node("Loop", {"trips", "start", "zero"}, {"sum", "sums"});
    Body body{node.Graph("body")};
    for (const char* name : {"iteration", "goes_on", "before"}) body.In(name);
    body.Node("Add", {"before", "iteration"}, {"after"});
    body.Node("Identity", {"goes_on"}, {"condition"});
    body.Node("Identity", {"after"}, {"gathered"});
    for (const char* name : {"condition", "after", "gathered"}) body.Out(name);
    b.Output("sum");
    b.Output("sums");
  }
  onnx::GraphProto& body() { return *b.graph().mutable_node(0)->mutable_attribute(0)->mutable_g(); }
  void Trips(std::int64_t trips) { b.Ints("trips", {trips}); }
  void NoTrips() { b.graph().mutable_node(0)->set_input(0, ""); }
  void NoStart() { b.graph().mutable_node(0)->set_input(1, ""); }
  // The loop ends after the iteration `last`.
  void EndAfter(std::int64_t last) {
    b.Tensor("last", {}, onnx::TensorProto::INT64).add_int64_data(last);
    onnx::NodeProto& node = *body().mutable_node(1);
    node.set_op_type("Less");
    node.set_input(0, "iteration");
    node.add_input("last");
  }
  ModelBuilder b;
};

TEST(ControlOperatorsTest, LoopIsUnrolled) {
  Summing model;
  model.Trips(5);
  model.NoStart();
  const absl::StatusOr<ImportedModel> imported = model.b.Import();
  EXPECT_THAT(ConstantOutput(imported, 0), ElementsAre(10));
  EXPECT_THAT(ConstantOutput(imported, 1), ElementsAre(0, 1, 3, 6, 10));
}

TEST(ControlOperatorsTest, LoopEndsWhenItsConditionDoes) {
  Summing model;
  model.NoTrips();
  AddTruth(model.b, "start", true);
  model.EndAfter(2);
  const absl::StatusOr<ImportedModel> imported = model.b.Import();
  EXPECT_THAT(ConstantOutput(imported, 0), ElementsAre(3));
  EXPECT_THAT(ConstantOutput(imported, 1), ElementsAre(0, 1, 3));
}

TEST(ControlOperatorsTest, LoopThatDoesNotRunGivesItsStatesAndNothingElse) {
  Summing model;
  model.Trips(5);
  AddTruth(model.b, "start", false);
  const absl::StatusOr<ImportedModel> imported = model.b.Import();
  EXPECT_THAT(ConstantOutput(imported, 0), ElementsAre(0));
  ASSERT_TRUE(imported.ok());
  EXPECT_EQ(imported->graph.value(imported->graph.outputs[1]).shape, (Shape{0}));
}

TEST(ControlOperatorsTest, LoopWithoutEndIsRefused) {
  Summing model;
  model.NoTrips();
  model.NoStart();
  const absl::Status status = model.b.Import().status();
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(status.message()), HasSubstr("unrolled"));
}

TEST(ControlOperatorsTest, LoopWhoseEndIsComputedGathersNothing) {
  Summing model;
  model.Trips(3);
  model.b.Input("start", {}, onnx::TensorProto::BOOL);
  const absl::Status status = model.b.Import().status();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnimplemented);
  EXPECT_THAT(std::string(status.message()), HasSubstr("gathers outputs"));
}

// Halves x while its sum is above 1.
TEST(ControlOperatorsTest, LoopWhoseEndIsComputedKeepsTheStateOfItsEnd) {
  ModelBuilder b(16);
  b.Input("x", {1});
  b.Floats("half", {1}, {0.5f});
  b.Floats("one", {1}, {1});
  b.Node("Greater", {"x", "one"}, {"start"});
  NodeBuilder node = b.Node("Loop", {"trips", "start", "x"}, {"y"});
  Body body{node.Graph("body")};
  for (const char* name : {"iteration", "goes_on", "before"}) body.In(name);
  body.Node("Mul", {"before", "half"}, {"after"});
  body.Node("Greater", {"after", "one"}, {"condition"});
  for (const char* name : {"condition", "after"}) body.Out(name);
  b.Output("y");
  onnx::TensorProto& trips = b.Ints("trips", {3});
  const absl::StatusOr<ImportedModel> imported = b.Import();
  ASSERT_TRUE(imported.ok()) << imported.status();
  EXPECT_EQ(Count<Select>(imported->graph), 3);
  trips.set_int64_data(0, 1025);
  const absl::Status status = b.Import().status();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnimplemented);
  EXPECT_THAT(std::string(status.message()), HasSubstr("at most 1024"));
}

TEST(ControlOperatorsTest, ScanGoesBackwardsAndGathersAlongAnyDimension) {
  ModelBuilder b(16);
  onnx::TensorProto& x = b.Tensor("x", {3, 2}, onnx::TensorProto::INT64);
  for (int i = 1; i <= 6; ++i) x.add_int64_data(i);
  b.Ints("start", {10, 20});
  NodeBuilder node = b.Node("Scan", {"start", "x"}, {"sum", "sums"});
  node.Int("num_scan_inputs", 1).Ints("scan_input_directions", {1}).Ints("scan_output_axes", {1});
  Body body{node.Graph("body")};
  for (const char* name : {"before", "row"}) body.In(name);
  body.Node("Add", {"before", "row"}, {"after"});
  body.Node("Identity", {"after"}, {"gathered"});
  for (const char* name : {"after", "gathered"}) body.Out(name);
  b.Output("sum");
  b.Output("sums");
  const absl::StatusOr<ImportedModel> imported = b.Import();
  EXPECT_THAT(ConstantOutput(imported, 0), ElementsAre(19, 32));
  EXPECT_THAT(ConstantOutput(imported, 1), ElementsAre(15, 18, 19, 26, 30, 32));
  ASSERT_TRUE(imported.ok());
  EXPECT_EQ(imported->graph.value(imported->graph.outputs[1]).shape, (Shape{2, 3}));
}

TEST(ControlOperatorsTest, WrongGraphsAreErrors) {
  const auto message = [](const absl::StatusOr<ImportedModel>& imported) {
    EXPECT_EQ(imported.status().code(), absl::StatusCode::kInvalidArgument);
    return std::string(imported.status().message());
  };
  Summing no_body;
  no_body.Trips(1);
  no_body.NoStart();
  no_body.b.graph().mutable_node(0)->mutable_attribute(0)->set_name("bodies");
  EXPECT_THAT(message(no_body.b.Import()), HasSubstr("\"body\" holds no graph"));
  Summing inputs;
  inputs.Trips(1);
  inputs.NoStart();
  inputs.body().mutable_input()->RemoveLast();
  EXPECT_THAT(message(inputs.b.Import()), HasSubstr("has 2 inputs, want 3"));
  Summing outputs;
  outputs.Trips(1);
  outputs.NoStart();
  outputs.body().mutable_output()->RemoveLast();
  EXPECT_THAT(message(outputs.b.Import()), HasSubstr("has 2 outputs, its graph gives 1"));
  Summing condition;
  condition.Trips(1);
  condition.NoStart();
  condition.body().mutable_output(0)->set_name("after");
  EXPECT_THAT(message(condition.b.Import()), HasSubstr("want one BOOL"));
}

TEST(ControlOperatorsTest, GraphsInGraphsHaveALimit) {
  ModelBuilder b(16);
  b.Input("x", {1});
  AddTruth(b, "yes", true);
  onnx::GraphProto* graph = &b.graph();
  for (int depth = 0; depth < 40; ++depth) {
    NodeBuilder node = Body{*graph}.Node("If", {"yes"}, {depth == 0 ? "y" : "z"});
    graph = &node.Graph("then_branch");
    graph->add_output()->set_name("z");
  }
  Body{*graph}.Node("Relu", {"x"}, {"z"});
  b.Output("y");
  const absl::Status status = b.Import().status();
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(status.message()), HasSubstr("deeper than 32"));
}

}  // namespace
}  // namespace sluice
