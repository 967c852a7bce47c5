// RNN, GRU and LSTM: what they become, and what is refused.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "model/onnx/model_builder.h"

namespace sluice {
namespace {

using testing::HasSubstr;

// Five steps of a batch of two with three inputs, four states.
class RecurrentOperatorsTest : public testing::Test {
 protected:
  NodeBuilder Layer(const std::string& op, std::int64_t gates, std::int64_t directions = 1,
                    const Shape& x = {5, 2, 3}) {
    builder_.Input("x", x);
    builder_.Counting("w", {directions, gates * 4, 3});
    builder_.Counting("r", {directions, gates * 4, 4});
    builder_.Output("y");
    builder_.Output("h");
    return builder_.Node(op, {"x", "w", "r"}, {"y", "h"});
  }
  std::string Error() const {
    const absl::Status status = builder_.Import().status();
    EXPECT_FALSE(status.ok());
    return std::string(status.message());
  }
  ModelBuilder builder_{14};
};

TEST_F(RecurrentOperatorsTest, InputsOfAllStepsAreOneProduct) {
  Layer("LSTM", 4, 2).String("direction", "bidirectional");
  const Graph graph = builder_.Imported();
  EXPECT_EQ(OperationNames(graph)[0], "fully connected");
  EXPECT_EQ(OperationNames(graph)[1], "lstm");
  EXPECT_EQ(OutputShape(graph, 0), (Shape{5, 2, 2, 4}));
  EXPECT_EQ(OutputShape(graph, 1), (Shape{2, 2, 4}));
}

TEST_F(RecurrentOperatorsTest, SequencesMayComeFirst) {
  Layer("GRU", 3, 1, {2, 5, 3}).Int("layout", 1);
  const Graph graph = builder_.Imported();
  EXPECT_EQ(OutputShape(graph, 0), (Shape{2, 5, 1, 4}));
  EXPECT_EQ(OutputShape(graph, 1), (Shape{2, 1, 4}));
}

TEST_F(RecurrentOperatorsTest, ValuesOfActivationsAreConsumedInOrder) {
  NodeBuilder node = Layer("RNN", 1, 2);
  node.String("direction", "bidirectional").Floats("activation_alpha", {0.25f});
  onnx::AttributeProto& names = *node.proto().add_attribute();
  names.set_name("activations");
  names.set_type(onnx::AttributeProto::STRINGS);
  names.add_strings("Tanh");
  names.add_strings("LeakyRelu");
  const Graph graph = builder_.Imported();
  const auto& op = std::get<Recurrent>(graph.nodes[1].operation);
  ASSERT_EQ(op.activations.size(), 2U);
  EXPECT_EQ(op.activations[0].kind, Unary::Kind::kTanh);
  EXPECT_EQ(op.activations[1], (Unary{Unary::Kind::kLeakyRelu, 0.25f, 0}));
}

TEST_F(RecurrentOperatorsTest, WeightsOfAnotherShapeAreAnError) {
  Layer("LSTM", 3);
  EXPECT_THAT(Error(), HasSubstr("recurrent weights have shape [1,12,4], want [1, 16, 4]"));
}

TEST_F(RecurrentOperatorsTest, AnInputOfAnotherWidthIsAnError) {
  Layer("RNN", 1, 1, {5, 2, 7});
  EXPECT_THAT(Error(), HasSubstr("x, W and R have shapes [5,2,7], [1,4,3] and [1,4,4]"));
}

TEST_F(RecurrentOperatorsTest, AnUnknownDirectionIsAnError) {
  Layer("RNN", 1).String("direction", "sideways");
  EXPECT_THAT(Error(), HasSubstr("direction is \"sideways\""));
}

TEST_F(RecurrentOperatorsTest, SizesThatNoMemoryHoldsAreAnErrorEvenWithoutSteps) {
  Layer("LSTM", 4, 1, {0, std::int64_t{1} << 40, 3});
  EXPECT_THAT(Error(), HasSubstr("are too many"));
}

}  // namespace
}  // namespace sluice
