// 16-bit floating point: computed in FP32, rounded where the file says so and at the outputs.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "model/onnx/model_builder.h"

namespace sluice {
namespace {

using testing::ElementsAre;

constexpr int kHalf = onnx::TensorProto::FLOAT16;

void HalfOutput(ModelBuilder& builder, const std::string& name) {
  builder.Output(name);
  builder.graph().mutable_output(0)->mutable_type()->mutable_tensor_type()->set_elem_type(kHalf);
}

TEST(HalfTest, InputsAndOutputsKeepTheirTypeAndAllElseIsFloat) {
  ModelBuilder builder(13);
  builder.Input("x", {2}, kHalf);
  onnx::TensorProto& c = builder.Tensor("c", {2}, kHalf);
  c.add_int32_data(0x3c00);  // 1
  c.add_int32_data(0xc000);  // -2
  builder.Node("Add", {"x", "c"}, {"y"});
  HalfOutput(builder, "y");
  const Graph graph = builder.Imported();
  EXPECT_THAT(OperationNames(graph), ElementsAre("cast", "add", "cast"));
  EXPECT_EQ(graph.value(graph.inputs[0]).type, DataType::kFloat16);
  EXPECT_EQ(graph.value(graph.inputs[0]).name, "x");
  EXPECT_EQ(graph.value(graph.outputs[0]).type, DataType::kFloat16);
  EXPECT_EQ(graph.value(graph.outputs[0]).name, "y");
  const Value& constant = graph.value(*graph.nodes[1].inputs[1]);
  EXPECT_EQ(constant.type, DataType::kFloat32);
  EXPECT_EQ(constant.constant->widened_from(), DataType::kFloat16);
  EXPECT_THAT(*ReadFloats(constant), ElementsAre(1, -2));
}

TEST(HalfTest, AnExplicitCastRounds) {
  ModelBuilder builder(13);
  builder.Input("x", {2});
  builder.Node("Cast", {"x"}, {"h"}).Int("to", kHalf);
  builder.Node("Cast", {"h"}, {"y"}).Int("to", onnx::TensorProto::FLOAT);
  builder.Output("y");
  const Graph graph = builder.Imported();
  ASSERT_GE(graph.nodes.size(), 2u);
  EXPECT_EQ(graph.value(graph.nodes[0].output).type, DataType::kFloat16);
  EXPECT_EQ(graph.value(graph.outputs[0]).type, DataType::kFloat32);
}

TEST(HalfTest, ConstantsThatAFileCastsToFloatStayConstants) {
  ModelBuilder builder(13);
  builder.Input("x", {1, 40000});
  builder.Tensor("w", {40000, 2}, kHalf).set_raw_data(std::string(160000, '\0'));
  builder.Node("Cast", {"w"}, {"f"}).Int("to", onnx::TensorProto::FLOAT);
  builder.Node("MatMul", {"x", "f"}, {"y"});
  builder.Output("y");
  EXPECT_THAT(OperationNames(builder.Imported()), ElementsAre("fully connected"));
}

TEST(HalfTest, CastLikeKnowsTheTypeThatItsModelHasInTheFile) {
  ModelBuilder builder(15);
  builder.Input("x", {2});
  builder.Input("like", {1}, kHalf);
  builder.Node("CastLike", {"x", "like"}, {"y"});
  HalfOutput(builder, "y");
  const Graph graph = builder.Imported();
  EXPECT_EQ(graph.value(graph.outputs[0]).type, DataType::kFloat16);
}

TEST(HalfTest, WindowsOfAWidenedConstantBeginAndEndAnywhere) {
  std::vector<std::byte> narrow(2 * 3000);
  for (std::size_t i = 0; i < 3000; ++i) {
    narrow[2 * i] = static_cast<std::byte>(i % 7);
    narrow[2 * i + 1] = static_cast<std::byte>(0x3c + i % 5);
  }
  const auto wide = WidenedConstant(InlineConstant(narrow), DataType::kFloat16);
  ASSERT_EQ(wide->size(), Bytes::Of(12000));
  std::vector<std::byte> all(12000);
  ASSERT_TRUE(wide->Read(Bytes(), all).ok());
  for (const auto& [begin, size] : {std::pair{0, 1}, {1, 2}, {3, 5000}, {4097, 7903}, {11999, 1}}) {
    std::vector<std::byte> part(static_cast<std::size_t>(size));
    ASSERT_TRUE(wide->Read(Bytes::Of(static_cast<std::uint64_t>(begin)), part).ok());
    EXPECT_TRUE(std::equal(part.begin(), part.end(), all.begin() + begin)) << begin;
  }
}

}  // namespace
}  // namespace sluice
