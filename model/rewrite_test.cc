#include "model/rewrite.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

#include "model/host_tensor.h"

namespace sluice {
namespace {

using testing::ElementsAre;
using testing::FloatEq;

// Builds graphs in the order that they run; every value has a name of its own.
class Builder {
 public:
  ValueId Input(const std::string& name, Shape shape) {
    const ValueId id = graph.Add({.name = name, .shape = std::move(shape), .constant = nullptr});
    graph.inputs.push_back(id);
    return id;
  }
  ValueId Constant(Shape shape, std::vector<float> elements) {
    return graph.Add({.name = "c" + std::to_string(graph.values.size()),
                      .shape = std::move(shape),
                      .constant = InlineConstant(PackFloats(DataType::kFloat32, elements))});
  }
  // A constant that must not be read: it fails every attempt.
  ValueId Big(Shape shape) {
    class Unreadable final : public sluice::Constant {
     public:
      explicit Unreadable(Bytes size) : size_(size) {}
      Bytes size() const override { return size_; }
      absl::Status Read(Bytes, std::span<std::byte>) const override {
        return absl::DataLossError("a rewrite read the weights");
      }

     private:
      Bytes size_;
    };
    const Bytes size = TensorBytes(DataType::kFloat32, shape);
    return graph.Add({.name = "w" + std::to_string(graph.values.size()),
                      .shape = std::move(shape),
                      .constant = std::make_shared<Unreadable>(size)});
  }
  ValueId Add(Operation operation, std::vector<std::optional<ValueId>> inputs, Shape shape) {
    const std::string name = "v" + std::to_string(graph.values.size());
    const ValueId y = graph.Add({.name = name, .shape = std::move(shape), .constant = nullptr});
    graph.nodes.push_back({.name = name,
                           .source_op = "Test",
                           .operation = std::move(operation),
                           .inputs = std::move(inputs),
                           .output = y});
    return y;
  }
  // A convolution of x [1, 4, 6, 6] with a 3x3 kernel and two output channels, [1, 2, 6, 6].
  ValueId Conv(ValueId x, std::optional<ValueId> bias = std::nullopt) {
    std::vector<std::optional<ValueId>> inputs = {x, Big({2, 4, 3, 3})};
    if (bias) inputs.push_back(bias);
    return Add(Convolution{.kernel = {3, 3},
                           .strides = {1, 1},
                           .dilations = {1, 1},
                           .pads_begin = {1, 1},
                           .pads_end = {1, 1},
                           .epilogues = {}},
               inputs, kImage);
  }
  ValueId Activation(Unary::Kind kind, ValueId x) {
    return Add(Unary{.kind = kind}, {x}, graph.value(x).shape);
  }
  ValueId Two(Binary::Kind kind, ValueId a, ValueId b) {
    return Add(Binary{kind}, {a, b}, graph.value(a).shape);
  }
  void Simplified(std::initializer_list<ValueId> outputs) {
    graph.outputs = outputs;
    ASSERT_TRUE(Validate(graph).ok()) << Validate(graph);
    const absl::Status status = Simplify(graph);
    ASSERT_TRUE(status.ok()) << status;
    ASSERT_TRUE(Validate(graph).ok()) << Validate(graph);
  }
  std::vector<float> Floats(std::size_t node, std::size_t input) const {
    return *ReadFloats(graph.value(*graph.nodes[node].inputs[input]));
  }
  std::vector<std::string> Operations() const {
    std::vector<std::string> names;
    for (const Node& node : graph.nodes) names.push_back(Name(node.operation));
    return names;
  }
  const std::vector<Epilogue>& Tail(std::size_t node) const {
    return std::get<Convolution>(graph.nodes[node].operation).epilogues;
  }

  inline static const Shape kImage = {1, 2, 6, 6};
  Graph graph;
};

TEST(RewriteTest, BatchNormFoldsIntoScaleAndBiasWithoutReadingWeights) {
  Builder b;
  const ValueId x = b.Input("x", {1, 4, 6, 6});
  const ValueId conv = b.Conv(x, b.Constant({2}, {1, 10}));
  const ValueId y = b.Add(ChannelAffine{}, {conv, b.Constant({2}, {2, 3}), b.Constant({2}, {5, 7})},
                          Builder::kImage);
  b.Simplified({y});
  EXPECT_THAT(b.Operations(), ElementsAre("convolution"));
  EXPECT_THAT(b.Floats(0, 2), ElementsAre(7, 37));
  EXPECT_THAT(b.Floats(0, 3), ElementsAre(2, 3));
}

TEST(RewriteTest, TwoAffinesInARowFoldInOrder) {
  Builder b;
  const ValueId conv = b.Conv(b.Input("x", {1, 4, 6, 6}));
  const ValueId times = b.Two(Binary::Kind::kMultiply, conv, b.Constant({2, 1, 1}, {2, 4}));
  const ValueId plus = b.Two(Binary::Kind::kAdd, times, b.Constant({1, 2, 1, 1}, {1, 2}));
  const ValueId y = b.Two(Binary::Kind::kDivide, plus, b.Constant({}, {2}));
  b.Simplified({y});
  EXPECT_THAT(b.Operations(), ElementsAre("convolution"));
  EXPECT_THAT(b.Floats(0, 2), ElementsAre(0.5f, 1));
  EXPECT_THAT(b.Floats(0, 3), ElementsAre(1, 2));
}

TEST(RewriteTest, ABiasAloneLeavesTheScaleAbsent) {
  Builder b;
  const ValueId conv = b.Conv(b.Input("x", {1, 4, 6, 6}));
  const ValueId y = b.Two(Binary::Kind::kSubtract, conv, b.Constant({2, 1, 1}, {1, 2}));
  b.Simplified({y});
  EXPECT_THAT(b.Floats(0, 2), ElementsAre(-1, -2));
  EXPECT_FALSE(b.graph.nodes[0].inputs[3].has_value());
}

TEST(RewriteTest, AResultThatACallerOrAnotherNodeSeesIsNotFoldedInto) {
  Builder b;
  const ValueId conv = b.Conv(b.Input("x", {1, 4, 6, 6}));
  const ValueId relu = b.Activation(Unary::Kind::kRelu, conv);
  b.Simplified({relu, conv});
  EXPECT_THAT(b.Operations(), ElementsAre("convolution", "relu"));

  Builder two;
  const ValueId shared = two.Conv(two.Input("x", {1, 4, 6, 6}));
  const ValueId first = two.Activation(Unary::Kind::kRelu, shared);
  const ValueId second = two.Activation(Unary::Kind::kTanh, shared);
  two.Simplified({first, second});
  EXPECT_THAT(two.Operations(), ElementsAre("convolution", "relu", "tanh"));
}

TEST(RewriteTest, ActivationsBecomeTheTailOfWhatComputesThem) {
  for (const Unary::Kind kind : {Unary::Kind::kRelu, Unary::Kind::kTanh, Unary::Kind::kSigmoid}) {
    Builder b;
    const ValueId conv = b.Conv(b.Input("x", {1, 4, 6, 6}));
    b.Simplified({b.Activation(kind, conv)});
    ASSERT_THAT(b.Operations(), ElementsAre("convolution"));
    ASSERT_EQ(b.Tail(0).size(), 1u);
    EXPECT_EQ(b.Tail(0)[0].unary.kind, kind);
  }
}

TEST(RewriteTest, TheLaterConvolutionTakesInTheResidual) {
  Builder b;
  const ValueId x = b.Input("x", {1, 4, 6, 6});
  const ValueId main = b.Conv(x);
  const ValueId shortcut = b.Conv(x);
  const ValueId sum = b.Two(Binary::Kind::kAdd, main, shortcut);
  const ValueId y = b.Activation(Unary::Kind::kRelu, sum);
  b.Simplified({y});
  ASSERT_THAT(b.Operations(), ElementsAre("convolution", "convolution"));
  ASSERT_EQ(b.Tail(1).size(), 2u);
  EXPECT_EQ(b.Tail(1)[0].kind, Epilogue::Kind::kAdd);
  EXPECT_EQ(b.Tail(1)[1].unary.kind, Unary::Kind::kRelu);
  EXPECT_EQ(b.graph.nodes[1].inputs[b.Tail(1)[0].input], b.graph.nodes[0].output);
  EXPECT_TRUE(b.Tail(0).empty());
}

TEST(RewriteTest, AResidualThatIsComputedAfterTheConvolutionMovesTheConvolution) {
  Builder b;
  const ValueId x = b.Input("x", {1, 4, 6, 6});
  const ValueId r = b.Input("r", Builder::kImage);
  const ValueId conv = b.Conv(x);
  const ValueId late = b.Activation(Unary::Kind::kExp, r);
  b.Simplified({b.Two(Binary::Kind::kAdd, conv, late)});
  EXPECT_THAT(b.Operations(), ElementsAre("exp", "convolution"));
}

TEST(RewriteTest, AnAdditionThatBroadcastsStaysByItself) {
  Builder b;
  const ValueId conv = b.Conv(b.Input("x", {1, 4, 6, 6}));
  const ValueId row = b.Input("r", {1, 2, 1, 6});
  b.Simplified({b.Two(Binary::Kind::kAdd, conv, row)});
  EXPECT_THAT(b.Operations(), ElementsAre("convolution", "add"));
}

TEST(RewriteTest, AddingAValueToItselfIsNoResidual) {
  Builder b;
  const ValueId conv = b.Conv(b.Input("x", {1, 4, 6, 6}));
  b.Simplified({b.Two(Binary::Kind::kAdd, conv, conv)});
  EXPECT_THAT(b.Operations(), ElementsAre("convolution", "add"));
}

TEST(RewriteTest, GatesBecomeOneActivation) {
  Builder b;
  const ValueId x = b.Input("x", Builder::kImage);
  const ValueId silu = b.Two(Binary::Kind::kMultiply, x, b.Activation(Unary::Kind::kSigmoid, x));
  const ValueId mish =
      b.Two(Binary::Kind::kMultiply,
            b.Activation(Unary::Kind::kTanh, b.Activation(Unary::Kind::kSoftplus, x)), x);
  const ValueId hard =
      b.Two(Binary::Kind::kMultiply, x,
            b.Add(Unary{Unary::Kind::kHardSigmoid, 0.2f, 0.5f}, {x}, Builder::kImage));
  b.Simplified({silu, mish, hard});
  EXPECT_THAT(b.Operations(), ElementsAre("silu", "mish", "hard swish"));
  EXPECT_EQ(std::get<Unary>(b.graph.nodes[2].operation),
            (Unary{Unary::Kind::kHardSwish, 0.2f, 0.5f}));
}

TEST(RewriteTest, AGateOfAnotherValueStaysAProduct) {
  Builder b;
  const ValueId x = b.Input("x", Builder::kImage), z = b.Input("z", Builder::kImage);
  b.Simplified({b.Two(Binary::Kind::kMultiply, x, b.Activation(Unary::Kind::kSigmoid, z))});
  EXPECT_THAT(b.Operations(), ElementsAre("sigmoid", "multiply"));
}

// x * clip(x + 3, 0, 6) / 6, with the division in two places.
TEST(RewriteTest, SpelledOutHardSwishIsRecognisedInBothForms) {
  for (const bool divide_last : {false, true}) {
    Builder b;
    const ValueId x = b.Conv(b.Input("x", {1, 4, 6, 6}));
    const ValueId three = b.Constant({1}, {3}), six = b.Constant({}, {6});
    const ValueId plus = b.Two(Binary::Kind::kAdd, x, three);
    const ValueId clip = b.Add(Unary{Unary::Kind::kClip, 0, 6}, {plus}, Builder::kImage);
    ValueId y{};
    if (divide_last) {
      y = b.Two(Binary::Kind::kDivide, b.Two(Binary::Kind::kMultiply, x, clip), six);
    } else {
      y = b.Two(Binary::Kind::kMultiply, x, b.Two(Binary::Kind::kDivide, clip, six));
    }
    b.Simplified({y});
    ASSERT_THAT(b.Operations(), ElementsAre("convolution")) << divide_last;
    EXPECT_EQ(b.Tail(0)[0].unary.kind, Unary::Kind::kHardSwish);
    EXPECT_THAT(b.Tail(0)[0].unary.alpha, FloatEq(1.0f / 6));
    EXPECT_THAT(b.Tail(0)[0].unary.beta, FloatEq(0.5f));
  }
}

TEST(RewriteTest, AClipOfAnotherHeightIsNoHardSwish) {
  Builder b;
  const ValueId x = b.Input("x", Builder::kImage);
  const ValueId plus = b.Two(Binary::Kind::kAdd, x, b.Constant({}, {3}));
  const ValueId clip = b.Add(Unary{Unary::Kind::kClip, 0, 6}, {plus}, Builder::kImage);
  b.Simplified(
      {b.Two(Binary::Kind::kDivide, b.Two(Binary::Kind::kMultiply, x, clip), b.Constant({}, {5}))});
  EXPECT_THAT(b.Operations(), ElementsAre("linear", "clip", "multiply", "linear"));
}

TEST(RewriteTest, AMatrixProductTakesABiasOfItsColumns) {
  Builder b;
  const ValueId x = b.Input("x", {2, 3, 4});
  const ValueId y = b.Add(FullyConnected{}, {x, b.Big({4, 5})}, {2, 3, 5});
  b.Simplified({b.Two(Binary::Kind::kAdd, y, b.Constant({5}, {1, 2, 3, 4, 5}))});
  EXPECT_THAT(b.Operations(), ElementsAre("fully connected"));
  EXPECT_THAT(b.Floats(0, 2), ElementsAre(1, 2, 3, 4, 5));
}

TEST(RewriteTest, AnAffineOverChannelsIsNoneOverAProductsColumns) {
  Builder b;
  const ValueId x = b.Input("x", {2, 5, 4});
  const ValueId y = b.Add(FullyConnected{}, {x, b.Big({4, 5})}, {2, 5, 5});
  b.Simplified({b.Two(Binary::Kind::kAdd, y, b.Constant({5, 1}, {1, 2, 3, 4, 5}))});
  EXPECT_THAT(b.Operations(), ElementsAre("fully connected", "channel affine"));
}

TEST(RewriteTest, AZeroPadJoinsTheConvolutionAndAnotherDoesNot) {
  for (const float value : {0.0f, 1.0f}) {
    Builder b;
    const ValueId x = b.Input("x", {1, 4, 5, 6});
    const ValueId padded =
        b.Add(Pad{.begin = {0, 0, 1, 0}, .end = {0, 0, 0, 0}, .value = value}, {x}, {1, 4, 6, 6});
    b.Simplified({b.Conv(padded)});
    if (value != 0) {
      EXPECT_THAT(b.Operations(), ElementsAre("pad", "convolution"));
      continue;
    }
    ASSERT_THAT(b.Operations(), ElementsAre("convolution"));
    const auto& op = std::get<Convolution>(b.graph.nodes[0].operation);
    EXPECT_THAT(op.pads_begin, ElementsAre(2, 1));
    EXPECT_THAT(op.pads_end, ElementsAre(1, 1));
  }
}

TEST(RewriteTest, APadJoinsAnAverageThatThenCountsIt) {
  Builder b;
  const ValueId x = b.Input("x", {1, 2, 4, 4});
  const ValueId padded = b.Add(Pad{.begin = {0, 0, 1, 1}, .end = {0, 0, 1, 1}}, {x}, {1, 2, 6, 6});
  Pool pool{.kind = Pool::Kind::kAverage,
            .kernel = {3, 3},
            .strides = {1, 1},
            .dilations = {1, 1},
            .pads_begin = {0, 0},
            .pads_end = {0, 0}};
  b.Simplified({b.Add(pool, {padded}, {1, 2, 4, 4})});
  ASSERT_THAT(b.Operations(), ElementsAre("average pool"));
  EXPECT_TRUE(std::get<Pool>(b.graph.nodes[0].operation).count_include_pad);
}

TEST(RewriteTest, APadStaysInFrontOfAMaximum) {
  Builder b;
  const ValueId x = b.Input("x", {1, 2, 4, 4});
  const ValueId padded = b.Add(Pad{.begin = {0, 0, 1, 1}, .end = {0, 0, 1, 1}}, {x}, {1, 2, 6, 6});
  Pool pool{.kind = Pool::Kind::kMax,
            .kernel = {3, 3},
            .strides = {1, 1},
            .dilations = {1, 1},
            .pads_begin = {0, 0},
            .pads_end = {0, 0}};
  b.Simplified({b.Add(pool, {padded}, {1, 2, 4, 4})});
  EXPECT_THAT(b.Operations(), ElementsAre("pad", "max pool"));
}

TEST(RewriteTest, TransposesAndReshapesThatCancelGo) {
  Builder b;
  const ValueId x = b.Input("x", {2, 3, 4});
  const ValueId t = b.Add(Transpose{{2, 0, 1}}, {x}, {4, 2, 3});
  const ValueId back = b.Add(Transpose{{1, 2, 0}}, {t}, {2, 3, 4});
  const ValueId flat = b.Add(Reshape{}, {back}, {24});
  const ValueId again = b.Add(Reshape{}, {flat}, {2, 3, 4});
  b.Simplified({b.Activation(Unary::Kind::kExp, again)});
  ASSERT_THAT(b.Operations(), ElementsAre("exp"));
  EXPECT_EQ(b.graph.nodes[0].inputs[0], b.graph.inputs[0]);
}

TEST(RewriteTest, ATransposeOfDimensionsOfOneIsAReshape) {
  Builder b;
  const ValueId x = b.Input("x", {1, 3, 1, 4});
  b.Simplified({b.Add(Transpose{{0, 2, 1, 3}}, {x}, {1, 1, 3, 4})});
  EXPECT_THAT(b.Operations(), ElementsAre("reshape"));
}

TEST(RewriteTest, AnIdentityThatIsAnOutputKeepsItsName) {
  Builder b;
  const ValueId x = b.Input("x", {4});
  const ValueId exp = b.Activation(Unary::Kind::kExp, x);
  const ValueId same = b.Add(Reshape{}, {exp}, {4});
  const ValueId of_input = b.Add(Reshape{}, {x}, {4});
  const std::string name = b.graph.value(same).name, input_name = b.graph.value(of_input).name;
  b.Simplified({same, of_input});
  EXPECT_THAT(b.Operations(), ElementsAre("exp", "reshape"));
  EXPECT_EQ(b.graph.value(b.graph.outputs[0]).name, name);
  EXPECT_EQ(b.graph.value(b.graph.outputs[1]).name, input_name);
}

TEST(RewriteTest, WhatNoOutputNeedsGoesAndInputsStay) {
  Builder b;
  const ValueId x = b.Input("x", {4});
  b.Input("unread", {4});
  const ValueId y = b.Activation(Unary::Kind::kExp, x);
  b.Activation(Unary::Kind::kLog, y);
  b.Big({1000, 1000});
  b.Simplified({y});
  EXPECT_THAT(b.Operations(), ElementsAre("exp"));
  EXPECT_EQ(b.graph.inputs.size(), 2u);
  EXPECT_EQ(b.graph.values.size(), 3u);
}

TEST(RewriteTest, AFactorBehindAProductOfTwoResultsJoinsIt) {
  Builder b;
  const ValueId x = b.Input("x", {2, 3, 4}), z = b.Input("z", {2, 4, 5});
  const ValueId product = b.Add(MatMul{}, {x, z}, {2, 3, 5});
  b.Simplified({b.Two(Binary::Kind::kDivide, product, b.Constant({}, {8}))});
  ASSERT_THAT(b.Operations(), ElementsAre("matmul"));
  EXPECT_EQ(std::get<MatMul>(b.graph.nodes[0].operation).alpha, 0.125f);
}

// x [2, 8] normalised over its last dimension, as exporters write it.
ValueId SpelledOutNorm(Builder& b, ValueId x, bool twice) {
  const auto mean = [&](ValueId of) {
    return b.Add(Reduce{.kind = Reduce::Kind::kMean, .axes = {1}}, {of}, {2, 1});
  };
  const ValueId moved = b.Two(Binary::Kind::kSubtract, x, mean(x));
  const ValueId again = twice ? b.Two(Binary::Kind::kSubtract, x, mean(x)) : moved;
  const ValueId square = b.Add(Binary{Binary::Kind::kMultiply}, {moved, moved}, {2, 8});
  const ValueId variance = mean(square);
  const ValueId raised =
      b.Add(Binary{Binary::Kind::kAdd}, {variance, b.Constant({}, {1e-5f})}, {2, 1});
  const ValueId deviation = b.Add(Unary{.kind = Unary::Kind::kSqrt}, {raised}, {2, 1});
  return b.Add(Binary{Binary::Kind::kDivide}, {again, deviation}, {2, 8});
}

TEST(RewriteTest, ASpelledOutLayerNormIsOneOperation) {
  for (const bool twice : {false, true}) {
    Builder b;
    const ValueId x = b.Input("x", {2, 8});
    const ValueId scale = b.Constant({1, 8}, {1, 2, 3, 4, 5, 6, 7, 8});
    const ValueId shift = b.Constant({8}, {1, 0, 1, 0, 1, 0, 1, 0});
    const ValueId norm_of_x = SpelledOutNorm(b, x, twice);
    const ValueId scaled = b.Add(Binary{Binary::Kind::kMultiply}, {scale, norm_of_x}, {2, 8});
    b.Simplified({b.Two(Binary::Kind::kAdd, scaled, shift)});
    ASSERT_THAT(b.Operations(), ElementsAre("normalize"));
    const auto& norm = std::get<Normalize>(b.graph.nodes[0].operation);
    EXPECT_TRUE(norm.centred && !norm.per_channel);
    EXPECT_EQ(norm.axis, 1);
    EXPECT_FLOAT_EQ(norm.epsilon, 1e-5f);
    EXPECT_EQ(b.graph.nodes[0].inputs.size(), 3u);
  }
}

TEST(RewriteTest, ANormThatScalesByAnotherRowThanItsMeanSquareStays) {
  Builder b;
  const ValueId x = b.Input("x", {2, 8}), z = b.Input("z", {2, 8});
  const ValueId square = b.Add(Binary{Binary::Kind::kMultiply}, {z, z}, {2, 8});
  const ValueId mean = b.Add(Reduce{.kind = Reduce::Kind::kMean, .axes = {1}}, {square}, {2, 1});
  const ValueId raised = b.Add(Binary{Binary::Kind::kAdd}, {mean, b.Constant({}, {1e-5f})}, {2, 1});
  const ValueId deviation = b.Add(Unary{.kind = Unary::Kind::kSqrt}, {raised}, {2, 1});
  const ValueId y = b.Add(Binary{Binary::Kind::kDivide}, {x, deviation}, {2, 8});
  b.Simplified({y, b.Add(Binary{Binary::Kind::kDivide}, {z, deviation}, {2, 8})});
  // Of z it is one, without a mean to subtract.
  EXPECT_THAT(b.Operations(),
              ElementsAre("multiply", "reduce mean", "linear", "sqrt", "divide", "normalize"));
}

TEST(RewriteTest, BothFormsOfGeluAreRecognisedInTheirOrders) {
  for (int order = 0; order < 4; ++order) {
    Builder b;
    const ValueId x = b.Input("x", {2, 8});
    const auto by = [&](ValueId v, float c) {
      return b.Two(Binary::Kind::kMultiply, v, b.Constant({}, {c}));
    };
    const bool tanh = order == 3;
    ValueId inner = b.Two(Binary::Kind::kDivide, x, b.Constant({}, {1.41421356f}));
    if (tanh) {
      const ValueId square = b.Add(Binary{Binary::Kind::kMultiply}, {x, x}, {2, 8});
      const ValueId cube = b.Add(Binary{Binary::Kind::kMultiply}, {square, x}, {2, 8});
      inner = by(b.Two(Binary::Kind::kAdd, x, by(cube, 0.044715f)), 0.7978845608f);
    }
    const ValueId bent = b.Activation(tanh ? Unary::Kind::kTanh : Unary::Kind::kErf, inner);
    const ValueId gate = b.Two(Binary::Kind::kAdd, bent, b.Constant({}, {1}));
    ValueId y{};
    if (order == 0) y = by(b.Two(Binary::Kind::kMultiply, x, gate), 0.5f);
    if (order == 1) y = b.Two(Binary::Kind::kMultiply, by(x, 0.5f), gate);
    if (order >= 2) y = b.Two(Binary::Kind::kMultiply, by(gate, 0.5f), x);
    b.Simplified({y});
    SCOPED_TRACE(order);
    ASSERT_THAT(b.Operations(), ElementsAre(tanh ? "gelu tanh" : "gelu"));
    EXPECT_EQ(b.graph.nodes[0].inputs[0], b.graph.inputs[0]);
  }
}

TEST(RewriteTest, TransposesAroundAProductBecomeItsStrides) {
  Builder b;
  const ValueId x = b.Input("x", {1, 4, 2, 8}), z = b.Input("z", {1, 5, 2, 8});
  const ValueId a = b.Add(Transpose{{0, 2, 1, 3}}, {x}, {1, 2, 4, 8});
  const ValueId c = b.Add(Transpose{{0, 2, 3, 1}}, {z}, {1, 2, 8, 5});
  const ValueId product = b.Add(MatMul{}, {a, c}, {1, 2, 4, 5});
  b.Simplified({b.Add(Transpose{{0, 2, 1, 3}}, {product}, {1, 4, 2, 5})});
  ASSERT_THAT(b.Operations(), ElementsAre("matmul"));
  const auto& matmul = std::get<MatMul>(b.graph.nodes[0].operation);
  EXPECT_THAT(matmul.perm_a, ElementsAre(0, 2, 1, 3));
  EXPECT_THAT(matmul.perm_b, ElementsAre(0, 2, 3, 1));
  EXPECT_THAT(matmul.perm_y, ElementsAre(0, 2, 1, 3));
}

}  // namespace
}  // namespace sluice
