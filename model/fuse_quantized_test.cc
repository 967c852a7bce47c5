// Between dequantised and quantised numbers, bytes are computed with.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "model/host_tensor.h"
#include "model/rewrite.h"

namespace sluice {
namespace {

using testing::ElementsAre;
using testing::FloatEq;

class Quantised : public testing::Test {
 protected:
  ValueId Add(const std::string& name, DataType type, Shape shape,
              std::shared_ptr<const Constant> constant = nullptr) {
    return graph_.Add(
        {.name = name, .type = type, .shape = std::move(shape), .constant = std::move(constant)});
  }
  ValueId Floats(Shape shape, const std::vector<float>& elements) {
    return Add("f", DataType::kFloat32, std::move(shape),
               InlineConstant(PackFloats(DataType::kFloat32, elements)));
  }
  ValueId Integers(DataType type, Shape shape, const std::vector<std::int64_t>& elements) {
    return Add("i", type, std::move(shape), InlineConstant(PackIntegers(type, elements)));
  }
  ValueId Node(Operation operation, std::vector<std::optional<ValueId>> inputs, DataType type,
               Shape shape) {
    const std::string name = "v" + std::to_string(graph_.values.size());
    const ValueId y = Add(name, type, std::move(shape));
    graph_.nodes.push_back({.name = name,
                            .source_op = "Test",
                            .operation = std::move(operation),
                            .inputs = std::move(inputs),
                            .output = y});
    return y;
  }
  // Numbers of an input of bytes: 0.5 * (q - zero).
  ValueId Input(const Shape& shape, std::int64_t zero) {
    const ValueId bytes = Add("x", DataType::kUint8, shape);
    graph_.inputs.push_back(bytes);
    return Node(Dequantize{}, {bytes, Floats({}, {0.5f}), Integers(DataType::kUint8, {}, {zero})},
                DataType::kFloat32, shape);
  }
  // Two filters of one tap over two channels, of scales 0.25 and 2.
  ValueId Weights() {
    return Node(Dequantize{0},
                {Integers(DataType::kInt8, {2, 2, 1, 1}, {1, -2, 3, 4}), Floats({2}, {0.25f, 2})},
                DataType::kFloat32, {2, 2, 1, 1});
  }
  ValueId Convolved(ValueId x, std::optional<ValueId> bias) {
    const Convolution op{.kernel = {1, 1},
                         .strides = {1, 1},
                         .dilations = {1, 1},
                         .pads_begin = {0, 0},
                         .pads_end = {0, 0},
                         .epilogues = {}};
    return Node(op, {x, Weights(), bias}, DataType::kFloat32, kImage);
  }
  // To bytes of scale 0.1 and a zero point.
  ValueId Output(ValueId x, std::int64_t zero, float scale = 0.1f) {
    const Shape shape = graph_.value(x).shape;
    return Node(Quantize{}, {x, Floats({}, {scale}), Integers(DataType::kUint8, {}, {zero})},
                DataType::kUint8, shape);
  }
  void Simplified(ValueId output) {
    graph_.outputs = {output};
    ASSERT_TRUE(Validate(graph_).ok()) << Validate(graph_);
    const absl::Status status = Simplify(graph_);
    ASSERT_TRUE(status.ok()) << status;
    ASSERT_TRUE(Validate(graph_).ok()) << Validate(graph_);
  }
  std::vector<std::string> Names() const {
    std::vector<std::string> names;
    for (const sluice::Node& node : graph_.nodes) names.push_back(Name(node.operation));
    return names;
  }
  const Value& Operand(std::size_t node, std::size_t i) const {
    return graph_.value(*graph_.nodes[node].inputs[i]);
  }

  const Shape kImage = {1, 2, 3, 3};
  Graph graph_;
};

TEST_F(Quantised, AConvolutionWithItsTailIsOneOfBytes) {
  const ValueId y = Convolved(Input(kImage, 7), Floats({2}, {1, -3}));
  const ValueId bounded = Node(Unary{.kind = Unary::Kind::kClip, .alpha = 0, .beta = 6}, {y},
                               DataType::kFloat32, kImage);
  Simplified(Output(bounded, 9));
  ASSERT_THAT(Names(), ElementsAre("convolution"));
  ASSERT_EQ(graph_.nodes[0].inputs.size(), 7U);
  EXPECT_EQ(Operand(0, 0).type, DataType::kUint8);
  EXPECT_EQ(Operand(0, 1).type, DataType::kInt8);
  // 1 / (0.5 * 0.25) and -3 / (0.5 * 2).
  EXPECT_THAT(*ReadIntegers(Operand(0, 2)), ElementsAre(8, -3));
  EXPECT_THAT(*ReadFloats(Operand(0, 3)), ElementsAre(FloatEq(1.25f), FloatEq(10.0f)));
  EXPECT_THAT(*ReadIntegers(Operand(0, 4)), ElementsAre(7));
  EXPECT_THAT(*ReadIntegers(Operand(0, 6)), ElementsAre(9));
  const auto& op = std::get<Convolution>(graph_.nodes[0].operation);
  ASSERT_EQ(op.epilogues.size(), 1U);
  EXPECT_FLOAT_EQ(op.epilogues[0].unary.alpha, 0);
  EXPECT_FLOAT_EQ(op.epilogues[0].unary.beta, 60);
}

TEST_F(Quantised, ANormalisationJoinsBiasAndFactor) {
  const ValueId y = Convolved(Input(kImage, 7), Floats({2}, {1, -3}));
  const ValueId normal = Node(ChannelAffine{}, {y, Floats({2}, {2, -1}), Floats({2}, {0.5f, 1})},
                              DataType::kFloat32, kImage);
  Simplified(Output(normal, 9));
  ASSERT_THAT(Names(), ElementsAre("convolution"));
  // (1 * 2 + 0.5) / (0.125 * 2) and (-3 * -1 + 1) / (1 * -1).
  EXPECT_THAT(*ReadIntegers(Operand(0, 2)), ElementsAre(10, -4));
  EXPECT_THAT(*ReadFloats(Operand(0, 3)), ElementsAre(FloatEq(2.5f), FloatEq(-10.0f)));
}

TEST_F(Quantised, WhatFollowsARealResultStaysBehindIt) {
  const ValueId y = Convolved(Input(kImage, 7), std::nullopt);
  const ValueId smooth =
      Node(Unary{.kind = Unary::Kind::kSigmoid}, {y}, DataType::kFloat32, kImage);
  Simplified(Node(ChannelAffine{}, {smooth, Floats({2}, {2, -1}), Floats({2}, {0.5f, 1})},
                  DataType::kFloat32, kImage));
  EXPECT_THAT(Names(), ElementsAre("convolution", "sigmoid", "channel affine"));
}

TEST_F(Quantised, AResultThatStaysRealComesFromBytesToo) {
  Simplified(Convolved(Input(kImage, 7), std::nullopt));
  ASSERT_THAT(Names(), ElementsAre("convolution"));
  EXPECT_EQ(graph_.value(graph_.outputs[0]).type, DataType::kFloat32);
  EXPECT_THAT(*ReadFloats(Operand(0, 3)), ElementsAre(FloatEq(0.125f), FloatEq(1.0f)));
}

TEST_F(Quantised, ABiasThatDoesNotFitLeavesTheNumbersReal) {
  Simplified(Convolved(Input(kImage, 7), Floats({2}, {1e10f, 0})));
  EXPECT_THAT(Names(), ElementsAre("dequantize", "dequantize", "convolution"));
}

TEST_F(Quantised, WeightsThatAreNotQuantisedLeaveTheNumbersReal) {
  const ValueId x = Input(kImage, 7);
  const Convolution op{.kernel = {1, 1},
                       .strides = {1, 1},
                       .dilations = {1, 1},
                       .pads_begin = {0, 0},
                       .pads_end = {0, 0},
                       .epilogues = {}};
  Simplified(Node(op, {x, Floats({2, 2, 1, 1}, {1, 2, 3, 4})}, DataType::kFloat32, kImage));
  EXPECT_THAT(Names(), ElementsAre("dequantize", "convolution"));
}

TEST_F(Quantised, AProductSumsBytesAndScalesTheSums) {
  const ValueId a = Input({2, 2}, 3);
  const ValueId b = Node(
      Dequantize{1}, {Integers(DataType::kInt8, {2, 2}, {1, -2, 3, 4}), Floats({2}, {0.25f, 2})},
      DataType::kFloat32, {2, 2});
  Simplified(Node(MatMul{.alpha = 2}, {a, b}, DataType::kFloat32, {2, 2}));
  ASSERT_THAT(Names(), ElementsAre("matmul", "cast", "channel affine"));
  EXPECT_THAT(*ReadFloats(Operand(2, 1)), ElementsAre(FloatEq(0.25f), FloatEq(2.0f)));
}

TEST_F(Quantised, BytesOfOneScaleMoveAsTheyAre) {
  const ValueId x = Input({2, 3}, 3);
  Simplified(Output(Node(Transpose{{1, 0}}, {x}, DataType::kFloat32, {3, 2}), 3, 0.5f));
  EXPECT_THAT(Names(), ElementsAre("transpose"));
}

TEST_F(Quantised, BytesOfTwoScalesDoNot) {
  const ValueId x = Input({2, 3}, 3);
  Simplified(Output(Node(Transpose{{1, 0}}, {x}, DataType::kFloat32, {3, 2}), 3, 0.25f));
  EXPECT_THAT(Names(), ElementsAre("dequantize", "transpose", "quantize"));
}

}  // namespace
}  // namespace sluice
