#include "streamer/self_test.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <set>
#include <vector>

namespace sluice {
namespace {

PortInfo Port(DataType type, std::int64_t count) {
  return {.name = "x", .type = type, .shape = {count}, .buffer = {}};
}

std::vector<std::byte> Filled(DataType type, std::int64_t count, std::size_t index) {
  const PortInfo port = Port(type, count);
  std::vector<std::byte> bytes(TensorBytes(type, port.shape).count());
  FillSelfTestInput(port, index, bytes);
  return bytes;
}

template <typename T>
std::uint64_t AnswerOf(DataType type, const std::vector<T>& values) {
  RunningChecksum answer;
  AddSelfTestOutput(Port(type, std::ssize(values)), std::as_bytes(std::span(values)), answer);
  return answer.value();
}

TEST(SelfTestTest, FloatsSpreadOverZeroToOne) {
  const std::vector<std::byte> bytes = Filled(DataType::kFloat32, 1000, 0);
  std::vector<float> values(1000);
  std::memcpy(values.data(), bytes.data(), bytes.size());
  const auto [least, most] = std::ranges::minmax(values);
  EXPECT_GE(least, 0.0f);
  EXPECT_LT(most, 1.0f);
  EXPECT_LT(least, 0.02f);
  EXPECT_GT(most, 0.98f);
  EXPECT_GT(std::set<float>(values.begin(), values.end()).size(), 990u);
}

TEST(SelfTestTest, ShortFloatsAreTheNumbersThatTheirBitsMean) {
  const std::vector<std::byte> half = Filled(DataType::kFloat16, 500, 0);
  const std::vector<std::byte> brain = Filled(DataType::kBfloat16, 500, 0);
  std::set<float> seen;
  for (std::size_t i = 0; i < 500; ++i) {
    std::uint16_t h = 0, b = 0;
    std::memcpy(&h, half.data() + 2 * i, 2);
    std::memcpy(&b, brain.data() + 2 * i, 2);
    const std::uint32_t wide = std::uint32_t{b} << 16;
    float from_brain = 0;
    std::memcpy(&from_brain, &wide, 4);
    const float from_half =
        h == 0 ? 0.0f : std::ldexp(1.0f + static_cast<float>(h & 0x3ff) / 1024.0f, (h >> 10) - 15);
    EXPECT_EQ(from_half, from_brain);
    EXPECT_GE(from_half, 0.0f);
    EXPECT_LT(from_half, 1.0f);
    seen.insert(from_half);
  }
  EXPECT_GT(seen.size(), 100u);
}

TEST(SelfTestTest, WholeNumbersAreZeroOrOneInEveryWidth) {
  for (const DataType type : {DataType::kInt8, DataType::kUint16, DataType::kInt32,
                              DataType::kInt64, DataType::kUint64, DataType::kBool}) {
    const std::vector<std::byte> bytes = Filled(type, 64, 0);
    const std::size_t width = SizeOf(type).count();
    std::size_t ones = 0;
    for (std::size_t i = 0; i < bytes.size(); ++i) {
      const bool low = i % width == 0;
      EXPECT_TRUE(bytes[i] == std::byte{0} || (low && bytes[i] == std::byte{1}));
      if (bytes[i] == std::byte{1}) ++ones;
    }
    EXPECT_GT(ones, 10u);
    EXPECT_LT(ones, 54u);
  }
}

TEST(SelfTestTest, EachInputHasItsOwnValuesAndAlwaysTheSame) {
  EXPECT_EQ(Filled(DataType::kFloat32, 16, 0), Filled(DataType::kFloat32, 16, 0));
  EXPECT_NE(Filled(DataType::kFloat32, 16, 0), Filled(DataType::kFloat32, 16, 1));
}

TEST(SelfTestTest, OneBitOfAnOutputIsAnotherAnswer) {
  std::vector<float> values(5000, 0.5f);
  const std::uint64_t before = AnswerOf(DataType::kFloat32, values);
  values[4999] = std::nextafter(0.5f, 1.0f);
  EXPECT_NE(AnswerOf(DataType::kFloat32, values), before);
  EXPECT_NE(AnswerOf(DataType::kFloat32, std::vector<float>{0.0f}),
            AnswerOf(DataType::kFloat32, std::vector<float>{-0.0f}));
}

TEST(SelfTestTest, EveryNanIsTheSameAnswer) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  EXPECT_EQ(AnswerOf(DataType::kFloat32, std::vector<float>{nan, 1.0f}),
            AnswerOf(DataType::kFloat32, std::vector<float>{-nan, 1.0f}));
  EXPECT_NE(
      AnswerOf(DataType::kFloat32, std::vector<float>{nan}),
      AnswerOf(DataType::kFloat32, std::vector<float>{std::numeric_limits<float>::infinity()}));
  EXPECT_EQ(AnswerOf(DataType::kFloat16, std::vector<std::uint16_t>{0x7c01, 0x3c00}),
            AnswerOf(DataType::kFloat16, std::vector<std::uint16_t>{0xfe00, 0x3c00}));
  EXPECT_NE(AnswerOf(DataType::kFloat16, std::vector<std::uint16_t>{0x7c00}),
            AnswerOf(DataType::kFloat16, std::vector<std::uint16_t>{0x7c01}));
  EXPECT_EQ(AnswerOf(DataType::kBfloat16, std::vector<std::uint16_t>{0x7f81}),
            AnswerOf(DataType::kBfloat16, std::vector<std::uint16_t>{0xffff}));
  // Whole numbers have no NaN.
  EXPECT_NE(AnswerOf(DataType::kInt16, std::vector<std::uint16_t>{0x7c01}),
            AnswerOf(DataType::kInt16, std::vector<std::uint16_t>{0xfe00}));
}

}  // namespace
}  // namespace sluice
