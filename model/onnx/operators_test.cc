// What each operator becomes, by version.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "model/onnx/model_builder.h"

namespace sluice {
namespace {

using testing::ElementsAre;
using testing::FloatEq;
using testing::HasSubstr;

std::string Message(const absl::Status& status) { return std::string(status.message()); }

TEST(ClipTest, BoundsComeFromAttributesOrInputs) {
  OneNode old(6, "Clip", {4});
  old->Float("min", -1).Float("max", 6);
  EXPECT_EQ(OperationAt<Unary>(old.Imported(), 0), (Unary{Unary::Kind::kClip, -1, 6}));

  OneNode now(11, "Clip", {4}, {"", "high"});
  now.builder.Floats("high", {}, {6});
  EXPECT_EQ(OperationAt<Unary>(now.Imported(), 0),
            (Unary{Unary::Kind::kClip, -std::numeric_limits<float>::infinity(), 6}));

  OneNode relu(11, "Clip", {4}, {"low"});
  relu.builder.Floats("low", {}, {0});
  EXPECT_EQ(OperationAt<Unary>(relu.Imported(), 0).kind, Unary::Kind::kRelu);
}

TEST(ActivationTest, DefaultsAreTheFormats) {
  OneNode leaky(6, "LeakyRelu", {4});
  EXPECT_THAT(OperationAt<Unary>(leaky.Imported(), 0).alpha, FloatEq(0.01f));
  OneNode hard(6, "HardSigmoid", {4});
  EXPECT_EQ(OperationAt<Unary>(hard.Imported(), 0), (Unary{Unary::Kind::kHardSigmoid, 0.2f, 0.5f}));
  OneNode swish(14, "HardSwish", {4});
  EXPECT_EQ(OperationAt<Unary>(swish.Imported(), 0).kind, Unary::Kind::kHardSwish);
}

TEST(BinaryTest, BeforeOpset7TheAxisSaysWhereTheOperandLies) {
  OneNode m(6, "Add", {2, 3, 4, 5}, {"b"});
  m.builder.Counting("b", {3, 4});
  m->Int("broadcast", 1).Int("axis", 1);
  const Graph graph = m.Imported();
  EXPECT_EQ(graph.value(*graph.nodes[0].inputs[1]).shape, (Shape{3, 4, 1}));

  OneNode strict(6, "Add", {2, 3}, {"b"});
  strict.builder.Counting("b", {3});
  EXPECT_THAT(Message(strict.Status()), HasSubstr("broadcast is not set"));
}

TEST(BinaryTest, SumsOfSeveralAndMeans) {
  OneNode m(8, "Mean", {2, 3}, {"b", "c"});
  m.builder.Input("b", {3});
  m.builder.Input("c", {2, 1});
  const Graph graph = m.Imported();
  EXPECT_THAT(OperationNames(graph), ElementsAre("add", "add", "linear"));
  EXPECT_THAT(OperationAt<Unary>(graph, 2).alpha, FloatEq(1.0f / 3));
}

TEST(BinaryTest, SquaresAndRootsAreNoPowers) {
  for (const float exponent : {2.0f, 0.5f, 3.0f}) {
    OneNode m(13, "Pow", {4}, {"e"});
    m.builder.Floats("e", {}, {exponent});
    EXPECT_THAT(OperationNames(m.Imported()), ElementsAre(exponent == 2      ? "multiply"
                                                          : exponent == 0.5f ? "sqrt"
                                                                             : "power"));
  }
}

TEST(SoftmaxTest, BeforeOpset13EverythingFromTheAxisOnIsOneDimension) {
  OneNode old(11, "Softmax", {2, 3, 4});
  EXPECT_THAT(OperationNames(old.Imported()), ElementsAre("reshape", "softmax", "reshape"));
  OneNode last(11, "Softmax", {2, 3, 4});
  last->Int("axis", -1);
  EXPECT_THAT(OperationNames(last.Imported()), ElementsAre("softmax"));
  OneNode ones(11, "Softmax", {2, 3, 1, 1});
  EXPECT_THAT(OperationNames(ones.Imported()), ElementsAre("softmax"));
  OneNode now(13, "LogSoftmax", {2, 3, 4});
  now->Int("axis", 1);
  const Graph graph = now.Imported();
  EXPECT_EQ(OperationAt<Softmax>(graph, 0).axis, 1);
  EXPECT_TRUE(OperationAt<Softmax>(graph, 0).log);
}

TEST(ReduceTest, AxesComeFromAttributesOrInputs) {
  OneNode old(11, "ReduceMean", {2, 3, 4});
  old->Ints("axes", {-1, 1}).Int("keepdims", 0);
  const Graph graph = old.Imported();
  EXPECT_THAT(OperationAt<Reduce>(graph, 0).axes, ElementsAre(1, 2));
  EXPECT_EQ(OutputShape(graph), (Shape{2}));

  OneNode now(13, "ReduceSum", {2, 3, 4}, {"axes"});
  now.builder.Ints("axes", {1});
  EXPECT_EQ(OutputShape(now.Imported()), (Shape{2, 1, 4}));

  OneNode all(18, "ReduceL2", {2, 3, 4});
  EXPECT_EQ(OutputShape(all.Imported()), (Shape{1, 1, 1}));

  OneNode none(18, "ReduceMax", {2, 3, 4});
  none->Int("noop_with_empty_axes", 1);
  EXPECT_THAT(OperationNames(none.Imported()), ElementsAre("reshape"));
}

TEST(ReshapeTest, CopiesInfersAndChecks) {
  OneNode m(5, "Reshape", {2, 3, 4}, {"s"});
  m.builder.Ints("s", {0, -1, 2});
  EXPECT_EQ(OutputShape(m.Imported()), (Shape{2, 6, 2}));
  OneNode old(1, "Reshape", {2, 3, 4});
  old->Ints("shape", {24});
  EXPECT_EQ(OutputShape(old.Imported()), (Shape{24}));
  OneNode wrong(5, "Reshape", {2, 3, 4}, {"s"});
  wrong.builder.Ints("s", {5, -1});
  EXPECT_EQ(wrong.Status().code(), absl::StatusCode::kInvalidArgument);
}

TEST(MovementTest, ShapesFollowTheOperators) {
  const auto shape = [](OneNode& m) { return OutputShape(m.Imported()); };
  OneNode flatten(9, "Flatten", {2, 3, 4});
  flatten->Int("axis", 2);
  EXPECT_EQ(shape(flatten), (Shape{6, 4}));
  OneNode squeeze(11, "Squeeze", {1, 3, 1});
  EXPECT_EQ(shape(squeeze), (Shape{3}));
  OneNode squeeze_some(13, "Squeeze", {1, 3, 1}, {"axes"});
  squeeze_some.builder.Ints("axes", {-1});
  EXPECT_EQ(shape(squeeze_some), (Shape{1, 3}));
  OneNode unsqueeze(11, "Unsqueeze", {3});
  unsqueeze->Ints("axes", {0, -1});
  EXPECT_EQ(shape(unsqueeze), (Shape{1, 3, 1}));
  OneNode transpose(1, "Transpose", {2, 3, 4});
  EXPECT_EQ(shape(transpose), (Shape{4, 3, 2}));
  OneNode tile(13, "Tile", {2, 1}, {"r"});
  tile.builder.Ints("r", {3, 4});
  EXPECT_EQ(shape(tile), (Shape{6, 4}));
  OneNode expand(13, "Expand", {3, 1}, {"s"});
  expand.builder.Ints("s", {2, 1, 4});
  EXPECT_EQ(shape(expand), (Shape{2, 3, 4}));
  OneNode depth(11, "DepthToSpace", {1, 8, 2, 3});
  depth->Int("blocksize", 2);
  EXPECT_EQ(shape(depth), (Shape{1, 2, 4, 6}));
}

TEST(SliceTest, ClampsAndStepsBackwards) {
  OneNode old(9, "Slice", {10, 4});
  old->Ints("starts", {-3, 1}).Ints("ends", {1000, -1});
  const Graph forwards = old.Imported();
  EXPECT_EQ(OutputShape(forwards), (Shape{3, 2}));
  EXPECT_THAT(OperationAt<Slice>(forwards, 0).starts, ElementsAre(7, 1));

  OneNode now(11, "Slice", {10, 4}, {"s", "e", "a", "t"});
  now.builder.Ints("s", {std::numeric_limits<std::int64_t>::max()});
  now.builder.Ints("e", {std::numeric_limits<std::int64_t>::min()});
  now.builder.Ints("a", {0});
  now.builder.Ints("t", {-3});
  const Graph backwards = now.Imported();
  EXPECT_EQ(OutputShape(backwards), (Shape{4, 4}));
  EXPECT_THAT(OperationAt<Slice>(backwards, 0).starts, ElementsAre(9, 0));
}

TEST(SplitTest, PartsAreSlices) {
  OneNode m(13, "Split", {2, 7}, {"s"}, {"a", "b"});
  m.builder.Ints("s", {3, 4});
  m->Int("axis", 1);
  const Graph graph = m.Imported();
  EXPECT_EQ(OutputShape(graph, 0), (Shape{2, 3}));
  EXPECT_EQ(OutputShape(graph, 1), (Shape{2, 4}));
  EXPECT_THAT(OperationAt<Slice>(graph, 1).starts, ElementsAre(0, 3));

  OneNode uneven(18, "Split", {7}, {}, {"a", "b"});
  uneven->Int("num_outputs", 2);
  EXPECT_EQ(OutputShape(uneven.Imported(), 1), (Shape{3}));
  OneNode equal(11, "Split", {7}, {}, {"a", "b"});
  EXPECT_THAT(Message(equal.Status()), HasSubstr("does not split into 2 equal parts"));
}

TEST(PadTest, ReadsEveryFormAndCutsWhatIsNegative) {
  OneNode old(2, "Pad", {2, 3});
  old->Ints("pads", {0, 1, 0, 2}).Float("value", 5).String("mode", "constant");
  const Graph graph = old.Imported();
  EXPECT_EQ(OutputShape(graph), (Shape{2, 6}));
  EXPECT_EQ(OperationAt<Pad>(graph, 0).value, 5);

  OneNode now(18, "Pad", {2, 3}, {"p", "", "a"});
  now.builder.Ints("p", {1, -1});
  now.builder.Ints("a", {-1});
  now->String("mode", "edge");
  const Graph cut = now.Imported();
  EXPECT_THAT(OperationNames(cut), ElementsAre("slice", "pad"));
  EXPECT_EQ(OutputShape(cut), (Shape{2, 3}));

  OneNode other(19, "Pad", {2, 3}, {"p"});
  other.builder.Ints("p", {0, 1, 0, 1});
  other->String("mode", "mirror");
  EXPECT_THAT(Message(other.Status()), HasSubstr("mode is \"mirror\""));
}

TEST(GatherTest, EvenIndicesAreASlice) {
  OneNode one(11, "Gather", {2, 5, 3}, {"i"});
  one.builder.Tensor("i", {}, onnx::TensorProto::INT64).add_int64_data(-1);
  one->Int("axis", 1);
  const Graph graph = one.Imported();
  EXPECT_THAT(OperationNames(graph), ElementsAre("slice", "reshape"));
  EXPECT_EQ(OutputShape(graph), (Shape{2, 3}));
  OneNode uneven(11, "Gather", {5, 3}, {"i"});
  uneven.builder.Ints("i", {0, 1, 3});
  EXPECT_THAT(OperationNames(uneven.Imported()), ElementsAre("gather"));
  OneNode outside(11, "Gather", {5, 3}, {"i"});
  outside.builder.Ints("i", {5});
  EXPECT_EQ(outside.Status().code(), absl::StatusCode::kInvalidArgument);
}

TEST(ResizeTest, EveryVersionSaysSizesAndCoordinatesItsOwnWay) {
  OneNode upsample(9, "Upsample", {1, 2, 3, 4}, {"s"});
  upsample.builder.Floats("s", {4}, {1, 1, 2, 2.5f});
  const Graph nine = upsample.Imported();
  EXPECT_EQ(OutputShape(nine), (Shape{1, 2, 6, 10}));
  EXPECT_EQ(OperationAt<Resize>(nine, 0).coordinates, Resize::Coordinates::kAsymmetric);
  EXPECT_EQ(OperationAt<Resize>(nine, 0).rounding, Resize::Rounding::kFloor);

  OneNode eleven(11, "Resize", {1, 2, 3, 4}, {"", "", "sizes"});
  eleven.builder.Ints("sizes", {1, 2, 5, 4});
  eleven->String("mode", "linear").String("coordinate_transformation_mode", "align_corners");
  const Graph sized = eleven.Imported();
  EXPECT_EQ(OutputShape(sized), (Shape{1, 2, 5, 4}));
  EXPECT_THAT(OperationAt<Resize>(sized, 0).scales, ElementsAre(1, 1, 5.0f / 3, 1));

  OneNode axes(18, "Resize", {1, 2, 4, 8}, {"", "", "sizes"});
  axes.builder.Ints("sizes", {2, 2});
  axes->Ints("axes", {2, 3}).String("keep_aspect_ratio_policy", "not_larger");
  EXPECT_EQ(OutputShape(axes.Imported()), (Shape{1, 2, 1, 2}));

  OneNode crop(11, "Resize", {1, 2, 4, 8}, {"roi", "s"});
  crop.builder.Floats("s", {4}, {1, 1, 2, 2});
  crop.builder.Floats("roi", {3}, {0, 0, 1});
  crop->String("coordinate_transformation_mode", "tf_crop_and_resize");
  EXPECT_THAT(Message(crop.Status()), HasSubstr("got a region of 3 numbers"));
}

TEST(ConstantTest, EveryFormOfConstant) {
  ModelBuilder b(13);
  b.Input("x", {2});
  b.Node("Constant", {}, {"a"}).Float("value_float", 2);
  b.Node("Constant", {}, {"b"}).Floats("value_floats", {1, 2});
  b.Node("Constant", {}, {"i"}).Ints("value_ints", {1, 2});
  onnx::TensorProto& tensor = b.Node("Constant", {}, {"t"}).Tensor("value");
  tensor.set_data_type(onnx::TensorProto::FLOAT);
  tensor.add_dims(2);
  tensor.add_float_data(7);
  tensor.add_float_data(8);
  b.Node("Mul", {"a", "b"}, {"ab"});
  b.Node("Reshape", {"x", "i"}, {"r"});
  b.Node("Add", {"r", "ab"}, {"s"});
  b.Node("Add", {"s", "t"}, {"y"});
  b.Output("y");
  const Graph graph = b.Imported();
  EXPECT_THAT(OperationNames(graph), ElementsAre("reshape", "add", "add"));
  EXPECT_THAT(*ReadFloats(graph.value(*graph.nodes[1].inputs[1])), ElementsAre(2, 4));
}

// What exporters write for x.view(x.size(0), -1).
TEST(ConstantTest, ShapeArithmeticFoldsAway) {
  ModelBuilder b(11);
  b.Input("x", {2, 3, 4});
  b.Node("Shape", {"x"}, {"shape"});
  b.Tensor("zero", {}, onnx::TensorProto::INT64).add_int64_data(0);
  b.Node("Gather", {"shape", "zero"}, {"batch"});
  b.Node("Unsqueeze", {"batch"}, {"first"}).Ints("axes", {0});
  b.Ints("rest", {-1});
  b.Node("Concat", {"first", "rest"}, {"target"}).Int("axis", 0);
  b.Node("Reshape", {"x", "target"}, {"y"});
  b.Output("y");
  const Graph graph = b.Imported();
  EXPECT_THAT(OperationNames(graph), ElementsAre("reshape"));
  EXPECT_EQ(OutputShape(graph), (Shape{2, 12}));
}

// What exporters write for an expand whose shape has a -1.
TEST(ConstantTest, LogicOnShapesFoldsAway) {
  ModelBuilder b(13);
  b.Input("x", {1, 3});
  b.Ints("want", {2, -1});
  b.Ints("minus", {-1});
  b.Ints("have", {1, 3});
  b.Node("Equal", {"want", "minus"}, {"free"});
  b.Node("Where", {"free", "have", "want"}, {"target"});
  b.Node("Expand", {"x", "target"}, {"y"});
  b.Output("y");
  EXPECT_EQ(OutputShape(b.Imported()), (Shape{2, 3}));
}

TEST(ConstantTest, WeightsFromConstantOfShapeAreNeverHeld) {
  OneNode m(9, "Conv", {1, 512, 7, 7}, {"w"});
  m.builder.Ints("shape", {512, 512, 3, 3});
  onnx::GraphProto& graph = m.builder.graph();
  m.builder.Node("ConstantOfShape", {"shape"}, {"w"});
  graph.mutable_node()->SwapElements(0, 1);
  const Graph imported = m.Imported();
  const Value& weights = imported.value(*imported.nodes.at(0).inputs[1]);
  EXPECT_TRUE(weights.constant->in_memory().empty());
  EXPECT_EQ(weights.constant->size(), Bytes::Of(512 * 512 * 9 * 4));
}

TEST(ConstantTest, GeneratedConstantsHaveALimit) {
  OneNode m(9, "Add", {1}, {"w"});
  m.builder.Ints("shape", {1 << 30, 1 << 30});
  m.builder.Node("ConstantOfShape", {"shape"}, {"w"});
  m.builder.graph().mutable_node()->SwapElements(0, 1);
  EXPECT_EQ(m.Status().code(), absl::StatusCode::kResourceExhausted);
}

TEST(IdentityTest, AnOutputThatIsAnInputHasANameOfItsOwn) {
  OneNode m(13, "Identity", {3});
  const Graph graph = m.Imported();
  EXPECT_EQ(graph.value(graph.outputs[0]).name, "y");
  EXPECT_EQ(graph.value(graph.inputs[0]).name, "x");
}

TEST(DropoutTest, ItsMaskIsTrueEverywhere) {
  OneNode m(12, "Dropout", {3}, {}, {"y"});
  m->proto().add_output("mask");
  EXPECT_EQ(OutputShape(m.Imported()), (Shape{3}));
  OneNode used(12, "Dropout", {3}, {}, {"y", "mask"});
  const Graph graph = used.Imported();
  EXPECT_EQ(graph.value(graph.outputs[1]).type, DataType::kBool);
  EXPECT_EQ(OutputShape(graph, 1), (Shape{3}));
}

TEST(LayerNormTest, IsOneOperation) {
  OneNode m(17, "LayerNormalization", {2, 3, 8}, {"g", "b"});
  m.builder.Counting("g", {8});
  m.builder.Counting("b", {8});
  const Graph graph = m.Imported();
  ASSERT_THAT(OperationNames(graph), ElementsAre("normalize"));
  EXPECT_EQ(std::get<Normalize>(graph.nodes[0].operation).axis, 2);
}

TEST(LayerNormTest, AScaleThatBroadcastsOutsideTheRowsStandsBehindIt) {
  OneNode m(17, "LayerNormalization", {2, 3, 8}, {"g"});
  m.builder.Counting("g", {3, 1});
  EXPECT_THAT(OperationNames(m.Imported()), ElementsAre("normalize", "multiply"));
  OneNode wrong(17, "LayerNormalization", {2, 3, 8}, {"g"});
  wrong.builder.Counting("g", {5});
  EXPECT_TRUE(absl::IsInvalidArgument(wrong.Status()));
}

TEST(GroupNormTest, ParametersAreOfGroupsUpToOpset20) {
  for (const std::int64_t opset : {18, 21}) {
    OneNode m(opset, "GroupNormalization", {2, 6, 4}, {"s", "b"});
    m.builder.Counting("s", {opset == 18 ? 2 : 6});
    m.builder.Counting("b", {opset == 18 ? 2 : 6});
    m->Int("num_groups", 2);
    const Graph graph = m.Imported();
    ASSERT_THAT(graph.nodes, testing::Not(testing::IsEmpty()));
    EXPECT_EQ(std::get<Normalize>(graph.nodes.back().operation).groups, 2);
    EXPECT_EQ(graph.value(*graph.nodes.back().inputs[1]).shape, (Shape{6}));
  }
  OneNode wrong(21, "GroupNormalization", {2, 6, 4}, {"s", "b"});
  wrong.builder.Counting("s", {6});
  wrong.builder.Counting("b", {6});
  wrong->Int("num_groups", 4);
  EXPECT_THAT(Message(wrong.Status()), HasSubstr("num_groups is 4, want a divisor of 6"));
}

TEST(ContribTest, OperatorsAreFoundInTheirDomainOnly) {
  OneNode gelu(17, "BiasGelu", {2, 8}, {"b"});
  gelu.builder.Counting("b", {8});
  gelu->proto().set_domain("com.microsoft");
  EXPECT_THAT(OperationNames(gelu.Imported()), ElementsAre("add", "gelu"));
  OneNode standard(17, "BiasGelu", {2, 8}, {"b"});
  standard.builder.Counting("b", {8});
  EXPECT_TRUE(absl::IsUnimplemented(standard.Status()));
}

TEST(ContribTest, WhatIsUnknownThereIsNamedWithItsDomainAndVersion) {
  OneNode m(17, "Unheard", {2, 8});
  m->proto().set_domain("com.microsoft");
  onnx::OperatorSetIdProto& import = *m.builder.model.add_opset_import();
  import.set_domain("com.microsoft");
  import.set_version(1);
  EXPECT_THAT(Message(m.Status()), HasSubstr("com.microsoft.Unheard-1 (1: "));
}

TEST(OpsetTest, CommonOperatorsOfOpset21Load) {
  OneNode mean(21, "ReduceMean", {2, 8}, {"axes"});
  mean.builder.Ints("axes", {-1});
  EXPECT_EQ(OutputShape(mean.Imported()), (Shape{2, 1}));
  OneNode norm(21, "LayerNormalization", {2, 8}, {"s"});
  norm.builder.Counting("s", {8});
  EXPECT_EQ(OutputShape(norm.Imported()), (Shape{2, 8}));
  OneNode gelu(21, "Gelu", {2, 8});
  gelu->String("approximate", "tanh");
  EXPECT_THAT(OperationNames(gelu.Imported()), ElementsAre("gelu tanh"));
}

TEST(ContribTest, AttentionIsTakenApart) {
  OneNode m(17, "Attention", {1, 4, 8}, {"w", "b"});
  m.builder.Counting("w", {8, 24});
  m.builder.Counting("b", {24});
  m->Int("num_heads", 2).Int("unidirectional", 1);
  m->proto().set_domain("com.microsoft");
  const Graph graph = m.Imported();
  EXPECT_EQ(graph.value(graph.outputs[0]).shape, (Shape{1, 4, 8}));
  OneNode wrong(17, "Attention", {1, 4, 8}, {"w", "b"});
  wrong.builder.Counting("w", {8, 24});
  wrong.builder.Counting("b", {24});
  wrong->Int("num_heads", 3);
  wrong->proto().set_domain("com.microsoft");
  EXPECT_THAT(Message(wrong.Status()), HasSubstr("that makes 3 heads"));
}

}  // namespace
}  // namespace sluice
