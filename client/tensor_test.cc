#include "client/tensor.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace sluice {
namespace {

TEST(TensorTest, CountsElementsAndRefusesWhatOverflows) {
  EXPECT_EQ(*ElementCount(std::vector<std::int64_t>{}), 1u);
  EXPECT_EQ(*ElementCount(std::vector<std::int64_t>{2, 3, 4}), 24u);
  EXPECT_EQ(*ElementCount(std::vector<std::int64_t>{INT64_MAX, 0}), 0u);
  EXPECT_FALSE(ElementCount(std::vector<std::int64_t>{1, -1}).has_value());
  EXPECT_FALSE(ElementCount(std::vector<std::int64_t>{INT64_MAX, 2}).has_value());
  EXPECT_FALSE(TensorBytes("FP64", std::vector<std::int64_t>{INT64_MAX}).ok());
  EXPECT_FALSE(TensorBytes("BYTES", std::vector<std::int64_t>{1}).ok());
}

TEST(TensorTest, ReadsValuesOfEveryWidth) {
  const auto values = [](const char* datatype, std::string data) {
    const auto count = static_cast<std::int64_t>(data.size() / FindDatatype(datatype)->bytes);
    return *Values({.name = "x", .datatype = datatype, .shape = {count}, .data = std::move(data)});
  };
  EXPECT_EQ(values("INT8", "\xff\x01"), (std::vector<double>{-1, 1}));
  EXPECT_EQ(values("UINT8", "\xff"), std::vector<double>{255});
  EXPECT_EQ(values("INT64", std::string("\xfe\xff\xff\xff\xff\xff\xff\xff", 8)),
            std::vector<double>{-2});
  EXPECT_EQ(values("BF16", std::string("\x80\x3f", 2)), std::vector<double>{1});
}

TEST(TensorTest, ReadsHalfPrecisionWithSubnormalsAndInfinities) {
  // 1, -2, the least subnormal, the largest number, infinity, and no number at all.
  const std::string data("\x00\x3c\x00\xc0\x01\x00\xff\x7b\x00\x7c\x01\x7c", 12);
  const auto values = Values({.name = "x", .datatype = "FP16", .shape = {6}, .data = data});
  ASSERT_TRUE(values.ok());
  EXPECT_EQ((*values)[0], 1);
  EXPECT_EQ((*values)[1], -2);
  EXPECT_EQ((*values)[2], std::ldexp(1.0, -24));
  EXPECT_EQ((*values)[3], 65504);
  EXPECT_EQ((*values)[4], std::numeric_limits<double>::infinity());
  EXPECT_TRUE(std::isnan((*values)[5]));
}

TEST(TensorTest, RefusesValuesOfAnotherSize) {
  const auto values = Values({.name = "x", .datatype = "FP32", .shape = {2}, .data = "1234"});
  EXPECT_EQ(values.status().code(), absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace sluice
