#include "model/graph.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cstring>

#include "model/shape_rule.h"

namespace sluice {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::vector<std::byte> Zeros(const Shape& shape) {
  return std::vector<std::byte>(TensorBytes(DataType::kFloat32, shape).count());
}

ValueId Input(Graph& graph, Shape shape) {
  const ValueId id = graph.Add({.name = "x", .shape = std::move(shape), .constant = nullptr});
  graph.inputs.push_back(id);
  return id;
}

ValueId Weights(Graph& graph, Shape shape) {
  std::vector<std::byte> zeros = Zeros(shape);
  return graph.Add(
      {.name = "w", .shape = std::move(shape), .constant = InlineConstant(std::move(zeros))});
}

ValueId Compute(Graph& graph, Operation operation, std::vector<std::optional<ValueId>> inputs,
                Shape shape) {
  const ValueId y = graph.Add({.name = "y", .shape = std::move(shape), .constant = nullptr});
  graph.nodes.push_back({.name = "n",
                         .source_op = "Test",
                         .operation = std::move(operation),
                         .inputs = std::move(inputs),
                         .output = y});
  graph.outputs = {y};
  return y;
}

Convolution Window(std::vector<std::int64_t> kernel, std::vector<std::int64_t> strides,
                   const std::vector<std::int64_t>& pads) {
  const std::size_t spatial = kernel.size();
  return {.kernel = std::move(kernel),
          .strides = std::move(strides),
          .dilations = std::vector<std::int64_t>(spatial, 1),
          .pads_begin = pads,
          .pads_end = pads,
          .epilogues = {}};
}

std::string Message(const absl::Status& status) { return std::string(status.message()); }

TEST(DataTypeTest, NamesRoundTripThroughTheProtocol) {
  for (int i = 0; i <= static_cast<int>(DataType::kBool); ++i) {
    const auto type = static_cast<DataType>(i);
    EXPECT_EQ(DataTypeFromProtocolName(ProtocolName(type)), type);
  }
  EXPECT_EQ(DataTypeFromProtocolName("FP8"), std::nullopt);
}

TEST(DataTypeTest, ElementCountSaturatesAndZeroWins) {
  const std::int64_t huge = std::int64_t{1} << 40;
  EXPECT_EQ(ElementCount(Shape{huge, huge}), Bytes::Max().count());
  EXPECT_EQ(ElementCount(Shape{huge, huge, 0}), 0u);
  EXPECT_EQ(ElementCount(Shape{}), 1u);
  EXPECT_EQ(TensorBytes(DataType::kFloat32, Shape{huge, huge}), Bytes::Max());
  EXPECT_EQ(FormatShape(Shape{1, 3, 224, 224}), "[1,3,224,224]");
  EXPECT_EQ(FormatShape(Shape{}), "[]");
}

TEST(ConstantTest, FilledConstantRepeatsItsElementFromAnyOffset) {
  const std::vector<std::byte> element = {std::byte{1}, std::byte{2}, std::byte{3}, std::byte{4}};
  const auto filled = FilledConstant(element, std::uint64_t{1} << 40);
  EXPECT_EQ(filled->size(), Bytes::Of(std::uint64_t{1} << 42));
  std::array<std::byte, 6> window;
  ASSERT_TRUE(filled->Read(Bytes::Of((std::uint64_t{1} << 41) + 3), window).ok());
  EXPECT_THAT(window, ElementsAre(std::byte{4}, std::byte{1}, std::byte{2}, std::byte{3},
                                  std::byte{4}, std::byte{1}));
  EXPECT_TRUE(filled->in_memory().empty());
}

TEST(GraphTest, ValidatesAConvolutionAndCountsItsWork) {
  Graph graph;
  const ValueId x = Input(graph, {1, 8, 10, 10});
  const ValueId w = Weights(graph, {16, 4, 3, 3});
  Convolution op = Window({3, 3}, {2, 2}, {1, 1});
  op.groups = 2;
  Compute(graph, op, {x, w}, {1, 16, 5, 5});
  ASSERT_TRUE(Validate(graph).ok()) << Validate(graph);
  EXPECT_EQ(MacCount(graph, graph.nodes[0]), 16u * 25 * 4 * 9);
  EXPECT_EQ(WeightBytes(graph), Bytes::Of(16 * 4 * 9 * 4));
}

TEST(GraphTest, RefusesAnOutputShapeThatDoesNotFollow) {
  Graph graph;
  const ValueId x = Input(graph, {1, 3, 8, 8});
  const ValueId w = Weights(graph, {4, 3, 3, 3});
  Compute(graph, Window({3, 3}, {1, 1}, {1, 1}), {x, w}, {1, 4, 8, 9});
  const absl::Status status = Validate(graph);
  EXPECT_EQ(status.code(), absl::StatusCode::kInternal);
  EXPECT_THAT(Message(status), HasSubstr("output has shape [1,4,8,9], want [1,4,8,8]"));
}

TEST(GraphTest, RefusesComputedWeightsAndValuesUsedTooEarly) {
  Graph graph;
  const ValueId x = Input(graph, {2, 8});
  const ValueId w = Input(graph, {8, 4});
  Compute(graph, FullyConnected{}, {x, w}, {2, 4});
  EXPECT_THAT(Message(Validate(graph)), HasSubstr("want a constant"));

  Graph backwards;
  const ValueId z = backwards.Add({.name = "later", .shape = {2}, .constant = nullptr});
  Compute(backwards, Unary{}, {z}, {2});
  EXPECT_THAT(Message(Validate(backwards)), HasSubstr("used before it is computed"));
}

TEST(GraphTest, RefusesAnEpilogueThatAddsAnotherShape) {
  Graph graph;
  const ValueId x = Input(graph, {2, 8});
  const ValueId r = Input(graph, {1, 4});
  const ValueId w = Weights(graph, {8, 4});
  FullyConnected op;
  op.epilogues = {{.kind = Epilogue::Kind::kAdd, .unary = {}, .input = 4}};
  Compute(graph, op, {x, w, std::nullopt, std::nullopt, r}, {2, 4});
  EXPECT_THAT(Message(Validate(graph)), HasSubstr("an epilogue adds [1,4] to [2,4]"));
  graph.value(r).shape = {2, 4};
  EXPECT_TRUE(Validate(graph).ok()) << Validate(graph);
}

TEST(GraphTest, RefusesAConstantWhoseBytesDoNotMatchItsShape) {
  Graph graph;
  const ValueId x = Input(graph, {4});
  const ValueId c = Weights(graph, {4});
  graph.value(c).shape = {5};
  Compute(graph, Binary{}, {x, c}, {4});
  EXPECT_THAT(Message(Validate(graph)), HasSubstr("has 16 bytes, want 20"));
}

TEST(ShapeRuleTest, TransposedConvolutionInvertsTheWindow) {
  Graph graph;
  const ValueId x = Input(graph, {1, 6, 5, 5});
  const ValueId w = Weights(graph, {6, 2, 3, 3});
  Convolution op = Window({3, 3}, {2, 2}, {1, 1});
  op.transposed = true;
  op.groups = 3;
  op.pads_end = {0, 0};  // output_padding of 1.
  Compute(graph, op, {x, w}, {1, 6, 10, 10});
  EXPECT_TRUE(Validate(graph).ok()) << Validate(graph);
}

TEST(ShapeRuleTest, SlicesMustStayInside) {
  Graph graph;
  const ValueId x = Input(graph, {10});
  Compute(graph, Slice{.starts = {9}, .steps = {-3}}, {x}, {4});
  EXPECT_TRUE(Validate(graph).ok()) << Validate(graph);
  graph.value(graph.outputs[0]).shape = {5};
  EXPECT_THAT(Message(Validate(graph)), HasSubstr("leaves the input"));
}

TEST(ShapeRuleTest, WindowCountHandlesExtremes) {
  EXPECT_EQ(WindowCount({.size = 5, .kernel = 3, .stride = 2, .pad_begin = 1, .pad_end = 1}), 3);
  EXPECT_EQ(WindowCount({.size = 2, .kernel = 3}), std::nullopt);
  EXPECT_EQ(WindowCount({.size = std::int64_t{1} << 62,
                         .kernel = std::int64_t{1} << 62,
                         .dilation = std::int64_t{1} << 62}),
            std::nullopt);
}

TEST(ShapeRuleTest, BroadcastsLikeNumpy) {
  EXPECT_EQ(BroadcastShape(Shape{3, 1, 5}, Shape{4, 1}), (Shape{3, 4, 5}));
  EXPECT_EQ(BroadcastShape(Shape{}, Shape{2}), (Shape{2}));
  EXPECT_EQ(BroadcastShape(Shape{3}, Shape{4}), std::nullopt);
}

}  // namespace
}  // namespace sluice
