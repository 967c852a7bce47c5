#include "model/host_tensor.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>

namespace sluice {
namespace {

using testing::ElementsAre;

Value Integers(Shape shape, const std::vector<std::int64_t>& elements,
               DataType type = DataType::kInt64) {
  return {.name = "c",
          .type = type,
          .shape = std::move(shape),
          .constant = InlineConstant(PackIntegers(type, elements))};
}

// Folds one operation on constants and returns the result's elements.
std::vector<std::int64_t> Folded(Operation operation, std::vector<Value> inputs, Shape shape,
                                 DataType type = DataType::kInt64) {
  Graph graph;
  Node node{.name = "n", .source_op = "Test", .operation = std::move(operation), .inputs = {}};
  for (Value& input : inputs) node.inputs.emplace_back(graph.Add(std::move(input)));
  node.output = graph.Add({.name = "y", .type = type, .shape = std::move(shape), .constant = {}});
  const auto constant = Fold(graph, node);
  EXPECT_TRUE(constant.ok()) << constant.status();
  if (!constant.ok() || *constant == nullptr) return {};
  graph.value(node.output).constant = *constant;
  return *ReadIntegers(graph.value(node.output));
}

TEST(HostTensorTest, HalfFloatsRoundToNearestEvenAndBack) {
  const std::vector<float> values = {0,
                                     -0.0f,
                                     1,
                                     65504,
                                     65519,
                                     65520,
                                     1e-8f,
                                     5.9604645e-8f,
                                     6.0975e-5f,
                                     1.0009765625f,
                                     1.00048828125f,
                                     std::numeric_limits<float>::infinity()};
  Value half{.name = "h",
             .type = DataType::kFloat16,
             .shape = {std::ssize(values)},
             .constant = InlineConstant(PackFloats(DataType::kFloat16, values))};
  const auto back = ReadFloats(half);
  ASSERT_TRUE(back.ok());
  const float infinity = std::numeric_limits<float>::infinity();
  EXPECT_THAT(*back, ElementsAre(0, -0.0f, 1, 65504, 65504, infinity, 0, 0x1p-24f, 0x1.ff8p-15f,
                                 1.0009765625f, 1, infinity));
}

TEST(HostTensorTest, EveryHalfFloatSurvivesTheRoundTrip) {
  std::vector<std::byte> bytes(2 * 65536);
  for (std::size_t i = 0; i < 65536; ++i) {
    bytes[2 * i] = static_cast<std::byte>(i & 0xff);
    bytes[2 * i + 1] = static_cast<std::byte>(i >> 8);
  }
  Value half{
      .name = "h", .type = DataType::kFloat16, .shape = {65536}, .constant = InlineConstant(bytes)};
  const std::vector<std::byte> again = PackFloats(DataType::kFloat16, *ReadFloats(half));
  for (std::size_t i = 0; i < 65536; ++i) {
    const bool nan = (i & 0x7c00) == 0x7c00 && (i & 0x3ff) != 0;
    if (nan) continue;
    ASSERT_EQ(again[2 * i], bytes[2 * i]) << i;
    ASSERT_EQ(again[2 * i + 1], bytes[2 * i + 1]) << i;
  }
}

TEST(HostTensorTest, ReadingWhatIsComputedOrTooLargeIsAnError) {
  const Value computed{.name = "x", .shape = {1}, .constant = nullptr};
  EXPECT_EQ(ReadFloats(computed).status().code(), absl::StatusCode::kInvalidArgument);
  const Value large{.name = "x",
                    .shape = {1 << 20},
                    .constant = FilledConstant(std::vector<std::byte>(4), 1 << 20)};
  EXPECT_EQ(ReadFloats(large).status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(ReadFloats(Integers({1}, {1})).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST(FoldTest, ComputesShapesTheWayExportersDo) {
  // Shape -> Gather -> Unsqueeze -> Concat.
  EXPECT_THAT(Folded(Gather{0}, {Integers({4}, {1, 3, 20, 30}), Integers({2}, {-1, 0})}, {2}),
              ElementsAre(30, 1));
  EXPECT_THAT(Folded(Concat{0}, {Integers({1}, {7}), Integers({2}, {8, 9})}, {3}),
              ElementsAre(7, 8, 9));
  EXPECT_THAT(Folded(Slice{.starts = {3}, .steps = {-2}}, {Integers({4}, {0, 1, 2, 3})}, {2}),
              ElementsAre(3, 1));
}

TEST(FoldTest, MovesElementsOfMatrices) {
  const Value matrix = Integers({2, 3}, {0, 1, 2, 3, 4, 5});
  EXPECT_THAT(Folded(Transpose{{1, 0}}, {matrix}, {3, 2}), ElementsAre(0, 3, 1, 4, 2, 5));
  EXPECT_THAT(Folded(Concat{1}, {matrix, Integers({2, 1}, {8, 9})}, {2, 4}),
              ElementsAre(0, 1, 2, 8, 3, 4, 5, 9));
  EXPECT_THAT(Folded(Expand{}, {Integers({2, 1}, {1, 2})}, {2, 2}), ElementsAre(1, 1, 2, 2));
  EXPECT_THAT(Folded(Gather{1}, {matrix, Integers({1}, {2})}, {2, 1}), ElementsAre(2, 5));
}

TEST(FoldTest, ComputesIntegersLikeIntegers) {
  const Value seven = Integers({1}, {-7}), two = Integers({}, {2});
  EXPECT_THAT(Folded(Binary{Binary::Kind::kDivide}, {seven, two}, {1}), ElementsAre(-3));
  const Value least = Integers({1}, {std::numeric_limits<std::int64_t>::min()});
  EXPECT_THAT(Folded(Binary{Binary::Kind::kDivide}, {least, Integers({1}, {-1})}, {1}),
              ElementsAre(std::numeric_limits<std::int64_t>::min()));
  EXPECT_THAT(Folded(Reduce{Reduce::Kind::kProduct, {0}}, {Integers({3}, {2, 3, 4})}, {1}),
              ElementsAre(24));
  EXPECT_THAT(Folded(Cast{}, {Integers({2}, {300, -1})}, {2}, DataType::kUint8),
              ElementsAre(44, 255));
}

TEST(FoldTest, DivisionByZeroAndIndicesOutOfRangeAreErrors) {
  Graph graph;
  const ValueId a = graph.Add(Integers({1}, {1})), zero = graph.Add(Integers({1}, {0}));
  Node node{.name = "n",
            .source_op = "Div",
            .operation = Binary{Binary::Kind::kDivide},
            .inputs = {a, zero}};
  node.output = graph.Add({.name = "y", .type = DataType::kInt64, .shape = {1}, .constant = {}});
  EXPECT_EQ(Fold(graph, node).status().code(), absl::StatusCode::kInvalidArgument);
  node.operation = Gather{0};
  node.inputs = {zero, a};
  EXPECT_EQ(Fold(graph, node).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST(FoldTest, AReshapeSharesContentsOfAnySizeAndOtherwiseLargeOnesStay) {
  Graph graph;
  const std::uint64_t count = std::uint64_t{1} << 30;
  const auto filled = FilledConstant(std::vector<std::byte>(4), count);
  const Shape shape = {static_cast<std::int64_t>(count)};
  const ValueId x = graph.Add({.name = "x", .shape = shape, .constant = filled});
  Node node{.name = "n", .source_op = "Reshape", .operation = Reshape{}, .inputs = {x}};
  node.output = graph.Add({.name = "y", .shape = shape, .constant = {}});
  EXPECT_EQ(*Fold(graph, node), filled);
  node.operation = Unary{.kind = Unary::Kind::kExp};
  EXPECT_EQ(*Fold(graph, node), nullptr);
}

}  // namespace
}  // namespace sluice
