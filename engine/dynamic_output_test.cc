#include "engine/dynamic_output.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <vector>

namespace sluice {
namespace {

using testing::ElementsAre;

PortInfo PortOf(Shape shape, std::size_t axis) {
  PortInfo port{.name = "y", .type = DataType::kInt32, .shape = std::move(shape)};
  port.dynamic = PortInfo::Dynamic{axis, BufferIndex{}};
  return port;
}

Shape RealShapeFor(const PortInfo& port, std::int64_t count) {
  std::byte bytes[8];
  std::memcpy(bytes, &count, sizeof(count));
  return RealShape(port, RealCount(port, bytes));
}

std::vector<std::int32_t> Compacted(const PortInfo& port, std::int64_t count,
                                    std::vector<std::int32_t> contents) {
  auto* bytes = reinterpret_cast<std::byte*>(contents.data());
  const Bytes size = CopyReal(port, count, bytes, bytes);
  EXPECT_EQ(size, TensorBytes(port.type, RealShape(port, count)));
  contents.resize(size.count() / sizeof(std::int32_t));
  return contents;
}

TEST(DynamicOutputTest, CountReplacesTheBoundOfItsDimension) {
  EXPECT_EQ(RealShapeFor(PortOf({2, 3, 4}, 1), 2), (Shape{2, 2, 4}));
}

TEST(DynamicOutputTest, CountOutOfRangeIsBroughtIntoIt) {
  EXPECT_EQ(RealShapeFor(PortOf({5}, 0), 9), (Shape{5}));
  EXPECT_EQ(RealShapeFor(PortOf({5}, 0), -1), (Shape{0}));
}

TEST(DynamicOutputTest, RowsMoveTogetherWhereTheyLie) {
  EXPECT_THAT(Compacted(PortOf({2, 4}, 1), 3, {1, 2, 3, 0, 4, 5, 6, 0}),
              ElementsAre(1, 2, 3, 4, 5, 6));
  EXPECT_THAT(Compacted(PortOf({2, 2, 2}, 1), 1, {1, 2, 0, 0, 3, 4, 0, 0}),
              ElementsAre(1, 2, 3, 4));
}

TEST(DynamicOutputTest, OutermostDimensionIsCutOff) {
  EXPECT_THAT(Compacted(PortOf({3, 2}, 0), 1, {1, 2, 0, 0, 0, 0}), ElementsAre(1, 2));
  EXPECT_TRUE(Compacted(PortOf({3, 2}, 0), 0, {1, 2, 3, 4, 5, 6}).empty());
}

}  // namespace
}  // namespace sluice
