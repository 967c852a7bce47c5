// What convolutions, pools, matrix products and batch norms become, by version.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "model/onnx/model_builder.h"

namespace sluice {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::string Message(const absl::Status& status) { return std::string(status.message()); }

TEST(ConvTest, PadsToSameAtEitherEnd) {
  for (const bool upper : {true, false}) {
    OneNode m(11, "Conv", {1, 3, 7, 8}, {"w"});
    m.builder.Counting("w", {2, 3, 2, 3});
    m->String("auto_pad", upper ? "SAME_UPPER" : "SAME_LOWER").Ints("strides", {1, 2});
    const Graph graph = m.Imported();
    const auto& op = OperationAt<Convolution>(graph, 0);
    EXPECT_THAT(op.pads_begin, ElementsAre(upper ? 0 : 1, upper ? 0 : 1));
    EXPECT_THAT(op.pads_end, ElementsAre(upper ? 1 : 0, upper ? 1 : 0));
    EXPECT_EQ(OutputShape(graph), (Shape{1, 2, 7, 4}));
  }
}

TEST(ConvTest, OneDimensionAndGroups) {
  OneNode m(1, "Conv", {1, 4, 9}, {"w", "b"});
  m.builder.Counting("w", {6, 2, 3});
  m.builder.Counting("b", {6});
  m->Int("group", 2).Ints("pads", {1, 0}).Ints("dilations", {2}).Ints("kernel_shape", {3});
  const Graph graph = m.Imported();
  EXPECT_EQ(OutputShape(graph), (Shape{1, 6, 6}));
  EXPECT_EQ(graph.nodes[0].inputs.size(), 3u);
}

TEST(ConvTest, ComputedWeightsAreInputsLikeOthers) {
  OneNode m(11, "Conv", {1, 3, 7, 8}, {"w"});
  m.builder.Input("w", {2, 3, 1, 1});
  const Graph graph = m.Imported();
  EXPECT_THAT(OperationNames(graph), ElementsAre("convolution"));
  EXPECT_EQ(OutputShape(graph), (Shape{1, 2, 7, 8}));
}

TEST(ConvTest, ChannelsThatDoNotAgreeAreAnErrorThatNamesTheNode) {
  OneNode m(11, "Conv", {1, 3, 7, 8}, {"w"});
  m.builder.Counting("w", {2, 4, 1, 1});
  const absl::Status status = m.Status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(Message(status), HasSubstr("node \"node_y\" (Conv-11)"));
  EXPECT_THAT(Message(status), HasSubstr("[2,4,1,1]"));
}

TEST(ConvTransposeTest, OutputPaddingShapeAndSameAgree) {
  const auto build = [](OneNode& m) { m.builder.Counting("w", {4, 2, 3, 3}); };
  {
    OneNode m(11, "ConvTranspose", {1, 4, 5, 5}, {"w"});
    build(m);
    m->Ints("strides", {2, 2}).Ints("pads", {1, 1, 1, 1}).Ints("output_padding", {1, 1});
    EXPECT_EQ(OutputShape(m.Imported()), (Shape{1, 2, 10, 10}));
  }
  {
    OneNode m(11, "ConvTranspose", {1, 4, 5, 5}, {"w"});
    build(m);
    m->Ints("strides", {2, 2}).Ints("output_shape", {10, 12});
    const Graph graph = m.Imported();
    EXPECT_EQ(OutputShape(graph), (Shape{1, 2, 10, 12}));
    // 11 - 10 = 1 goes to the front unless SAME_UPPER; 12 needs one more than there is.
    EXPECT_THAT(OperationAt<Convolution>(graph, 0).pads_begin, ElementsAre(1, 0));
    EXPECT_THAT(OperationAt<Convolution>(graph, 0).pads_end, ElementsAre(0, -1));
  }
  {
    OneNode m(11, "ConvTranspose", {1, 4, 5, 5}, {"w"});
    build(m);
    m->Ints("strides", {2, 2}).String("auto_pad", "SAME_UPPER");
    const Graph graph = m.Imported();
    EXPECT_EQ(OutputShape(graph), (Shape{1, 2, 10, 10}));
    EXPECT_THAT(OperationAt<Convolution>(graph, 0).pads_begin, ElementsAre(0, 0));
  }
}

TEST(PoolTest, CeilModeAddsAWindowOnlyIfItBeginsInside) {
  OneNode m(10, "MaxPool", {1, 1, 6, 5});
  m->Ints("kernel_shape", {3, 2}).Ints("strides", {2, 3}).Int("ceil_mode", 1);
  const Graph graph = m.Imported();
  EXPECT_EQ(OutputShape(graph), (Shape{1, 1, 3, 2}));
  EXPECT_THAT(OperationAt<Pool>(graph, 0).pads_end, ElementsAre(1, 0));
}

TEST(PoolTest, PadsThatCountAreElementsWhenCeilModeHangsOver) {
  OneNode m(10, "AveragePool", {1, 1, 6, 6});
  m->Ints("kernel_shape", {3, 3}).Ints("strides", {2, 2}).Ints("pads", {1, 1, 0, 0});
  m->Int("ceil_mode", 1).Int("count_include_pad", 1);
  const Graph exact = m.Imported();
  EXPECT_THAT(OperationNames(exact), ElementsAre("average pool"));
  EXPECT_TRUE(OperationAt<Pool>(exact, 0).count_include_pad);

  OneNode over(10, "AveragePool", {1, 1, 7, 7});
  over->Ints("kernel_shape", {3, 3}).Ints("strides", {2, 2}).Ints("pads", {1, 1, 0, 0});
  over->Int("ceil_mode", 1).Int("count_include_pad", 1);
  const Graph graph = over.Imported();
  EXPECT_THAT(OperationNames(graph), ElementsAre("pad", "average pool"));
  EXPECT_FALSE(OperationAt<Pool>(graph, 1).count_include_pad);
  EXPECT_THAT(OperationAt<Pool>(graph, 1).pads_end, ElementsAre(1, 1));
}

TEST(PoolTest, GlobalPoolsHaveKernelsOfTheInputsSize) {
  OneNode m(1, "GlobalAveragePool", {2, 3, 5, 4});
  const Graph graph = m.Imported();
  EXPECT_EQ(OutputShape(graph), (Shape{2, 3, 1, 1}));
  EXPECT_THAT(OperationAt<Pool>(graph, 0).kernel, ElementsAre(5, 4));
}

TEST(PoolTest, IndicesOfAMaximumAreANodeOfTheirOwn) {
  OneNode m(10, "MaxPool", {1, 1, 6, 6}, {}, {"y", "indices"});
  m->Ints("kernel_shape", {2, 2}).Int("storage_order", 1);
  const Graph graph = m.Imported();
  EXPECT_THAT(OperationNames(graph), ElementsAre("max pool", "max pool indices"));
  EXPECT_TRUE(OperationAt<PoolIndices>(graph, 1).column_major);
  EXPECT_EQ(graph.value(graph.nodes[1].output).type, DataType::kInt64);
}

TEST(GemmTest, ConstantOperandBecomesFullyConnectedWithFactorsInScaleAndBias) {
  OneNode m(11, "Gemm", {2, 3}, {"b", "c"});
  m.builder.Counting("b", {4, 3});
  m.builder.Floats("c", {1}, {3});
  m->Float("alpha", 0.5f).Float("beta", 2).Int("transB", 1);
  const Graph graph = m.Imported();
  ASSERT_THAT(OperationNames(graph), ElementsAre("fully connected"));
  EXPECT_TRUE(OperationAt<FullyConnected>(graph, 0).transposed_b);
  const auto& inputs = graph.nodes[0].inputs;
  EXPECT_THAT(*ReadFloats(graph.value(*inputs[2])), ElementsAre(6, 6, 6, 6));
  EXPECT_THAT(*ReadFloats(graph.value(*inputs[3])), ElementsAre(0.5f, 0.5f, 0.5f, 0.5f));
}

TEST(GemmTest, ComputedOperandsMultiplyAndAMatrixAdds) {
  OneNode m(11, "Gemm", {3, 2}, {"b", "c"});
  m.builder.Input("b", {3, 4});
  m.builder.Counting("c", {2, 4});
  m->Float("beta", 2).Int("transA", 1);
  const Graph graph = m.Imported();
  EXPECT_THAT(OperationNames(graph), ElementsAre("matmul", "add"));
  EXPECT_TRUE(OperationAt<MatMul>(graph, 0).transposed_a);
}

TEST(MatMulTest, VectorsAndBatches) {
  OneNode vector(9, "MatMul", {5, 3}, {"b"});
  vector.builder.Counting("b", {3});
  EXPECT_EQ(OutputShape(vector.Imported()), (Shape{5}));

  OneNode left(9, "MatMul", {3}, {"b"});
  left.builder.Input("b", {7, 3, 4});
  EXPECT_EQ(OutputShape(left.Imported()), (Shape{7, 4}));

  OneNode rows(9, "MatMul", {2, 5, 3}, {"b"});
  rows.builder.Counting("b", {3, 4});
  const Graph graph = rows.Imported();
  EXPECT_THAT(OperationNames(graph), ElementsAre("fully connected"));
  EXPECT_EQ(OutputShape(graph), (Shape{2, 5, 4}));
}

TEST(MatMulTest, ALargeTransposedConstantIsReadTheOtherWay) {
  ModelBuilder b(13);
  b.Input("x", {1, 200});
  b.Counting("w", {300, 200});
  b.Node("Transpose", {"w"}, {"t"}).Ints("perm", {1, 0});
  b.Node("MatMul", {"x", "t"}, {"y"});
  b.Output("y");
  const Graph graph = b.Imported();
  ASSERT_THAT(OperationNames(graph), ElementsAre("fully connected"));
  EXPECT_TRUE(OperationAt<FullyConnected>(graph, 0).transposed_b);
}

TEST(BatchNormTest, BecomesScaleAndShift) {
  OneNode m(9, "BatchNormalization", {1, 2, 3, 3}, {"s", "b", "m", "v"});
  m.builder.Floats("s", {2}, {1, 2});
  m.builder.Floats("b", {2}, {10, 20});
  m.builder.Floats("m", {2}, {1, 2});
  m.builder.Floats("v", {2}, {3, 15});
  m->Float("epsilon", 1);
  const Graph graph = m.Imported();
  ASSERT_THAT(OperationNames(graph), ElementsAre("channel affine"));
  EXPECT_THAT(*ReadFloats(graph.value(*graph.nodes[0].inputs[1])), ElementsAre(0.5f, 0.5f));
  EXPECT_THAT(*ReadFloats(graph.value(*graph.nodes[0].inputs[2])), ElementsAre(9.5f, 19));
}

}  // namespace
}  // namespace sluice
