// Sizes that the data decides: bounds, counts, and how far they pass.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "model/onnx/model_builder.h"

namespace sluice {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::string Message(const absl::Status& status) { return std::string(status.message()); }

const Value& OutputOf(const Graph& graph, std::size_t i = 0) {
  return graph.value(graph.outputs.at(i));
}

TEST(DynamicSizesTest, NonZeroHasRoomForAllAndCountsWhatThereIs) {
  OneNode m(13, "NonZero", {2, 3});
  const Graph graph = m.Imported();
  ASSERT_TRUE(OutputOf(graph).dynamic.has_value());
  EXPECT_EQ(OutputOf(graph).shape, (Shape{2, 6}));
  EXPECT_EQ(OutputOf(graph).dynamic->axis, 1u);
  const Value& count = graph.value(OutputOf(graph).dynamic->count);
  EXPECT_EQ(count.type, DataType::kInt64);
  EXPECT_TRUE(count.shape.empty());
  EXPECT_THAT(OperationNames(graph), ElementsAre("non-zero", "non-zero"));
}

TEST(DynamicSizesTest, NonZeroOfAConstantIsOne) {
  ModelBuilder b(13);
  b.Input("x", {4});
  b.Ints("c", {0, 5, 0, 7});
  b.Node("NonZero", {"c"}, {"places"});
  b.Node("Squeeze", {"places"}, {"flat"});
  b.Node("Gather", {"x", "flat"}, {"y"});
  b.Output("y");
  const Graph graph = b.Imported();
  EXPECT_EQ(OutputOf(graph).shape, (Shape{2}));
  EXPECT_FALSE(OutputOf(graph).dynamic.has_value());
}

TEST(DynamicSizesTest, BoxesAreBoundedByWhatIsKnown) {
  const auto bound = [](bool stated) {
    ModelBuilder b(11);
    b.Input("boxes", {2, 10, 4});
    b.Input("scores", {2, 3, 10});
    b.Ints("most", {4});
    if (!stated) b.Input("given", {1}, onnx::TensorProto::INT64);
    b.Node("NonMaxSuppression", {"boxes", "scores", stated ? "most" : "given"}, {"y"});
    b.Output("y");
    return OutputOf(b.Imported()).shape;
  };
  EXPECT_EQ(bound(true), (Shape{24, 3}));
  EXPECT_EQ(bound(false), (Shape{60, 3}));
}

// NonZero of a vector of four, made [4], with `op` behind it.
struct Behind {
  explicit Behind(const std::string& op, std::vector<std::string> more = {}) : b(13) {
    b.Input("x", {4});
    b.Ints("axis", {0});
    b.Node("NonZero", {"x"}, {"places"});
    b.Node("Squeeze", {"places", "axis"}, {"flat"});
    more.insert(more.begin(), "flat");
    node = new NodeBuilder(b.Node(op, more, {"y"}));
    b.Output("y");
  }
  ~Behind() { delete node; }
  Behind(const Behind&) = delete;
  Behind& operator=(const Behind&) = delete;
  ModelBuilder b;
  NodeBuilder* node;
};

TEST(DynamicSizesTest, ElementByElementTheSizePasses) {
  Behind cast("Cast");
  cast.node->Int("to", onnx::TensorProto::FLOAT);
  const Graph graph = cast.b.Imported();
  ASSERT_TRUE(OutputOf(graph).dynamic.has_value());
  EXPECT_EQ(OutputOf(graph).dynamic->axis, 0u);
}

TEST(DynamicSizesTest, RowsThatAreGatheredAreAsMany) {
  ModelBuilder b(13);
  b.Input("x", {4});
  b.Input("table", {5, 9});
  b.Ints("axis", {0});
  b.Node("NonZero", {"x"}, {"places"});
  b.Node("Squeeze", {"places", "axis"}, {"flat"});
  b.Node("Gather", {"table", "flat"}, {"rows"}).Int("axis", 1);
  b.Node("Transpose", {"rows"}, {"y"});
  b.Output("y");
  const Graph graph = b.Imported();
  ASSERT_TRUE(OutputOf(graph).dynamic.has_value());
  EXPECT_EQ(OutputOf(graph).shape, (Shape{4, 5}));
  EXPECT_EQ(OutputOf(graph).dynamic->axis, 0u);
}

TEST(DynamicSizesTest, ReductionOverItIsRefusedByName) {
  Behind sum("ReduceSum", {"axis"});
  const absl::Status status = sum.b.Import().status();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnimplemented);
  EXPECT_THAT(Message(status), HasSubstr("ReduceSum-13: dimension 0 of \"flat\" has a size that is "
                                         "computed, at most 4: reduce sum does not pass it on"));
}

TEST(DynamicSizesTest, TwoSizesDoNotMeet) {
  ModelBuilder b(13);
  b.Input("x", {4});
  b.Input("z", {4});
  b.Node("NonZero", {"x"}, {"a"});
  b.Node("NonZero", {"z"}, {"c"});
  b.Node("Add", {"a", "c"}, {"y"});
  b.Output("y");
  EXPECT_EQ(b.Import().status().code(), absl::StatusCode::kUnimplemented);
}

TEST(DynamicSizesTest, ShapeOfItIsComputed) {
  Behind shape("Shape");
  const Graph graph = shape.b.Imported();
  EXPECT_EQ(OutputOf(graph).shape, (Shape{1}));
  EXPECT_EQ(OutputOf(graph).constant, nullptr);
  EXPECT_FALSE(OutputOf(graph).dynamic.has_value());
}

}  // namespace
}  // namespace sluice
