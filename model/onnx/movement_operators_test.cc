// Movement operators that become several operations.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "model/onnx/model_builder.h"

namespace sluice {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;

std::string Message(const absl::Status& status) { return std::string(status.message()); }

Graph Einsum(const std::string& equation, const std::vector<Shape>& inputs) {
  ModelBuilder b(12);
  std::vector<std::string> names;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    names.push_back("x" + std::to_string(i));
    b.Input(names.back(), inputs[i]);
  }
  b.Node("Einsum", names, {"y"}).String("equation", equation);
  b.Output("y");
  return b.Imported();
}

TEST(EinsumTest, ShapesFollowTheEquation) {
  EXPECT_EQ(OutputShape(Einsum("ij,jk->ik", {{2, 3}, {3, 4}})), (Shape{2, 4}));
  EXPECT_EQ(OutputShape(Einsum("ij,jk", {{2, 3}, {3, 4}})), (Shape{2, 4}));
  EXPECT_EQ(OutputShape(Einsum("bij, bjk -> kb", {{5, 2, 3}, {5, 3, 4}})), (Shape{4, 5}));
  EXPECT_EQ(OutputShape(Einsum("...ii->...i", {{2, 3, 4, 4}})), (Shape{2, 3, 4}));
  EXPECT_EQ(OutputShape(Einsum("ii", {{4, 4}})), (Shape{}));
  EXPECT_EQ(OutputShape(Einsum("...i,...i", {{7, 1, 3}, {5, 3}})), (Shape{7, 5}));
  EXPECT_EQ(OutputShape(Einsum("i,j->ij", {{2}, {3}})), (Shape{2, 3}));
  EXPECT_EQ(OutputShape(Einsum("a,ab,bc->c", {{2}, {2, 3}, {3, 4}})), (Shape{4}));
}

TEST(EinsumTest, WhatIsSummedIsAMatrixProduct) {
  EXPECT_THAT(OperationNames(Einsum("bij,bjk->bik", {{5, 2, 3}, {5, 3, 4}})),
              ElementsAre("reshape", "reshape", "matmul", "reshape"));
  EXPECT_THAT(OperationNames(Einsum("i,j->ij", {{2}, {3}})), Contains("multiply"));
}

TEST(EinsumTest, EquationsThatDoNotFitAreRefused) {
  const auto message = [](const std::string& equation, const Shape& x) {
    OneNode m(12, "Einsum", x);
    m->String("equation", equation);
    return Message(m.Status());
  };
  EXPECT_THAT(message("ij->ik", {2, 3}), HasSubstr("one that no input has"));
  EXPECT_THAT(message("ij->ii", {2, 3}), HasSubstr("a letter twice"));
  EXPECT_THAT(message("ijk->i", {2, 3}), HasSubstr("does not name the dimensions"));
  EXPECT_THAT(message("ii->i", {2, 3}), HasSubstr("one letter names dimensions"));
  EXPECT_THAT(message("i?->i", {2, 3}), HasSubstr("not made of letters"));
  EXPECT_THAT(message("ij,jk->ik", {2, 3}), HasSubstr("2 inputs, the node 1"));
}

TEST(TileTest, RepeatsBecomeDimensionsThatExpand) {
  OneNode m(13, "Tile", {2, 3}, {"repeats"});
  m.builder.Ints("repeats", {1, 5000});
  const Graph graph = m.Imported();
  EXPECT_EQ(OutputShape(graph), (Shape{2, 15000}));
  EXPECT_THAT(OperationNames(graph), ElementsAre("reshape", "expand", "reshape"));
}

TEST(TileTest, NoRepeatsLeaveNothing) {
  OneNode m(13, "Tile", {2, 3}, {"repeats"});
  m.builder.Ints("repeats", {0, 1});
  EXPECT_EQ(OutputShape(m.Imported()), (Shape{0, 3}));
}

TEST(EyeLikeTest, MatrixIsNotStored) {
  OneNode m(9, "EyeLike", {3000, 4000});
  m->Int("k", -1);
  const Graph graph = m.Imported();
  EXPECT_THAT(OperationNames(graph), ElementsAre("expand", "triangle", "triangle"));
}

TEST(PadTest, WrapCameWithOpset19) {
  const auto status = [](std::int64_t opset) {
    OneNode m(opset, "Pad", {4}, {"pads"});
    m.builder.Ints("pads", {1, 1});
    m->String("mode", "wrap");
    return m.Status();
  };
  EXPECT_TRUE(status(19).ok()) << status(19);
  EXPECT_EQ(status(18).code(), absl::StatusCode::kInvalidArgument);
}

TEST(TopKTest, MoreThanThereAreIsRefused) {
  OneNode m(11, "TopK", {3}, {"k"}, {"y", "places"});
  m.builder.Ints("k", {4});
  EXPECT_THAT(Message(m.Status()), HasSubstr("k is 4, dimension 0 of [3] has fewer entries"));
}

TEST(MaxUnpoolTest, IndicesCountInWhatTheWindowsGive) {
  ModelBuilder b(11);
  b.Input("x", {1, 1, 2, 2});
  b.Input("i", {1, 1, 2, 2}, onnx::TensorProto::INT64);
  b.Ints("shape", {1, 1, 5, 5});
  b.Node("MaxUnpool", {"x", "i", "shape"}, {"y"})
      .Ints("kernel_shape", {2, 2})
      .Ints("strides", {2, 2});
  b.Output("y");
  const Graph graph = b.Imported();
  EXPECT_EQ(OutputShape(graph), (Shape{1, 1, 5, 5}));
  EXPECT_THAT(OperationNames(graph), Contains("scatter elements"));
  EXPECT_THAT(OperationNames(graph), Contains("pad"));
}

}  // namespace
}  // namespace sluice
