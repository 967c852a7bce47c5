#include "engine/weight_encoding.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_format.h"
#include "engine/program.h"
#include "engine/weight_encoder.h"
#include "engine/widen_loops.h"

namespace sluice {
namespace {

using testing::HasSubstr;

// The value of 16 bits by the definition of the format.
double Defined(std::uint16_t bits, int exponent_bits) {
  const int mantissa_bits = 15 - exponent_bits;
  const int bias = (1 << (exponent_bits - 1)) - 1;
  const int exponent = bits >> mantissa_bits & ((1 << exponent_bits) - 1);
  const int mantissa = bits & ((1 << mantissa_bits) - 1);
  const double sign = (bits & 0x8000) != 0 ? -1 : 1;
  if (exponent == (1 << exponent_bits) - 1) {
    return mantissa != 0 ? std::numeric_limits<double>::quiet_NaN()
                         : sign * std::numeric_limits<double>::infinity();
  }
  if (exponent == 0) return sign * std::ldexp(mantissa, 1 - bias - mantissa_bits);
  return sign * std::ldexp(mantissa + (1 << mantissa_bits), exponent - bias - mantissa_bits);
}

class WidenLoopsTest : public testing::TestWithParam<WidenIsa> {
 protected:
  void SetUp() override {
    loops_ = WidenLoopsFor(GetParam());
    if (loops_ == nullptr) GTEST_SKIP() << "this machine or build lacks the instructions";
  }
  const WidenLoops* loops_ = nullptr;
};

TEST_P(WidenLoopsTest, WidensEveryNumberOf16Bits) {
  std::vector<std::uint16_t> all(65536);
  for (std::size_t i = 0; i < all.size(); ++i) all[i] = static_cast<std::uint16_t>(i);
  std::vector<float> half(all.size()), bfloat(all.size());
  loops_->half(all.data(), half.data(), all.size());
  loops_->bfloat(all.data(), bfloat.data(), all.size());
  for (std::size_t i = 0; i < all.size(); ++i) {
    const double wanted_half = Defined(all[i], 5), wanted_bfloat = Defined(all[i], 8);
    if (std::isnan(wanted_half)) {
      EXPECT_TRUE(std::isnan(half[i])) << i;
    } else {
      EXPECT_EQ(static_cast<double>(half[i]), wanted_half) << i;
      EXPECT_EQ(std::signbit(half[i]), std::signbit(wanted_half)) << i;
    }
    if (std::isnan(wanted_bfloat)) {
      EXPECT_TRUE(std::isnan(bfloat[i])) << i;
    } else {
      EXPECT_EQ(static_cast<double>(bfloat[i]), wanted_bfloat) << i;
    }
    // There and back: NaNs too, quiet or not.
    EXPECT_EQ(ToFloat16(half[i]), all[i]);
    EXPECT_EQ(ToBfloat16(bfloat[i]), all[i]);
  }
}

TEST_P(WidenLoopsTest, MultipliesByTheScaleOfTheChannel) {
  std::minstd_rand random(3);
  for (const std::size_t period : {1, 2, 3, 8, 15, 16, 17, 48, 64, 100}) {
    const std::size_t n = period * 7;
    std::vector<std::uint16_t> stored(n);
    std::vector<std::int8_t> small(n);
    std::vector<float> scale(period), half(n), bfloat(n), int8(n);
    for (auto& x : stored)
      x = static_cast<std::uint16_t>(random() % 0x7000 + random() % 2 * 0x8000);
    for (auto& x : small) x = static_cast<std::int8_t>(random() % 255 - 127);
    for (auto& s : scale) s = static_cast<float>(random() % 1000) / 77 - 5;
    loops_->half_scaled(stored.data(), scale.data(), period, half.data(), n);
    loops_->bfloat_scaled(stored.data(), scale.data(), period, bfloat.data(), n);
    loops_->int8_scaled(small.data(), scale.data(), period, int8.data(), n);
    for (std::size_t i = 0; i < n; ++i) {
      const float by = scale[i % period];
      EXPECT_EQ(half[i], static_cast<float>(Defined(stored[i], 5)) * by);
      EXPECT_EQ(bfloat[i], static_cast<float>(Defined(stored[i], 8)) * by);
      EXPECT_EQ(int8[i], static_cast<float>(small[i]) * by);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, WidenLoopsTest,
                         testing::Values(WidenIsa::kGeneric, WidenIsa::kAvx2, WidenIsa::kAvx512),
                         [](const testing::TestParamInfo<WidenIsa>& info) {
                           return absl::StrFormat("Isa%d", static_cast<int>(info.param));
                         });

TEST(NarrowTest, RoundsToTheNearestWithTiesToEven) {
  EXPECT_EQ(ToFloat16(1.0F), 0x3c00);
  EXPECT_EQ(ToFloat16(1.0F + 0x1p-11F), 0x3c00);      // A tie: down to even.
  EXPECT_EQ(ToFloat16(1.0F + 3 * 0x1p-11F), 0x3c02);  // A tie: up to even.
  EXPECT_EQ(ToFloat16(1.0F + 0x1.1p-11F), 0x3c01);
  EXPECT_EQ(ToFloat16(65519.0F), 0x7bff);
  EXPECT_EQ(ToFloat16(-65520.0F), 0xfc00);
  EXPECT_EQ(ToFloat16(0x1p-25F), 0x0000);
  EXPECT_EQ(ToFloat16(0x1.8p-25F), 0x0001);
  EXPECT_EQ(ToFloat16(0x1.ffp-15F), 0x03fe);
  EXPECT_EQ(ToFloat16(0x1.fffp-15F), 0x0400);
  EXPECT_EQ(ToFloat16(-0.0F), 0x8000);
  EXPECT_EQ(ToBfloat16(1.0F + 0x1p-8F), 0x3f80);
  EXPECT_EQ(ToBfloat16(1.0F + 3 * 0x1p-8F), 0x3f82);
  EXPECT_EQ(ToBfloat16(std::numeric_limits<float>::max()), 0x7f80);
}

// One extent of given floats.
class FloatProgram final : public Program {
 public:
  FloatProgram(std::vector<float> floats, std::vector<WeightRun> runs,
               std::vector<float> scale = {})
      : floats_(std::move(floats)), scale_(std::move(scale)) {
    extents_.push_back(
        {.size = Bytes::Of(floats_.size() * sizeof(float)), .used = {}, .runs = std::move(runs)});
  }
  absl::Status Pack(ExtentIndex, std::span<std::byte> into) override {
    std::memcpy(into.data(), floats_.data(), into.size());
    return absl::OkStatus();
  }
  absl::Status ReadScale(ExtentIndex, std::size_t, std::span<float> into) override {
    EXPECT_EQ(into.size(), scale_.size());
    std::ranges::copy(scale_, into.begin());
    return absl::OkStatus();
  }
  void ReleaseWeights() override {}
  absl::Status Run(StepIndex, const StepMemory&) override { return absl::OkStatus(); }

 private:
  std::vector<float> floats_, scale_;
};

// Packs, reads what is stored into a place of its own, and widens it.
std::vector<float> ThereAndBack(Program& program, WeightStorage storage, PackedExtent& packed) {
  const Bytes size = program.extents()[0].size;
  std::vector<std::byte> pages(AlignUp(size, kPageSize).count(), std::byte{0xEE});
  auto done = PackExtent(program, ExtentIndex{0}, storage, pages);
  EXPECT_TRUE(done.ok()) << done.status();
  packed = *std::move(done);
  EXPECT_TRUE(CheckRuns(size, packed.runs).ok()) << CheckRuns(size, packed.runs);
  EXPECT_EQ(packed.stored, StoredSize(size, packed.runs));
  const std::span<std::byte> stored = StoredPages(pages, packed);
  std::vector<std::byte> place(pages.size(), std::byte{0xAA});
  std::ranges::copy(stored, place.end() - static_cast<std::ptrdiff_t>(stored.size()));
  if (!packed.runs.empty()) Widen(place, size, packed.runs);
  std::vector<float> back(size.count() / sizeof(float));
  std::memcpy(back.data(), place.data(), size.count());
  return back;
}

void ExpectSameBits(const std::vector<float>& found, const std::vector<float>& wanted) {
  ASSERT_EQ(found.size(), wanted.size());
  for (std::size_t i = 0; i < found.size(); ++i) {
    ASSERT_EQ(std::bit_cast<std::uint32_t>(found[i]), std::bit_cast<std::uint32_t>(wanted[i])) << i;
  }
}

float AnyHalf(std::minstd_rand& random) {
  const auto bits = static_cast<std::uint16_t>(random());
  float value = 0;
  WidenLoopsFor(WidenIsa::kGeneric)->half(&bits, &value, 1);
  return std::isfinite(value) ? value : 1.0F;
}

TEST(PackExtentTest, KeepsEveryFp16NumberBitForBitInHalfTheBytes) {
  std::vector<std::uint16_t> all(65536);
  for (std::size_t i = 0; i < all.size(); ++i) all[i] = static_cast<std::uint16_t>(i);
  std::vector<float> floats(all.size());
  WidenLoopsFor(WidenIsa::kGeneric)->half(all.data(), floats.data(), all.size());
  FloatProgram program(floats, {{.floats = floats.size(), .source = DataType::kFloat16}});
  PackedExtent packed;
  ExpectSameBits(ThereAndBack(program, WeightStorage::kAsIs, packed), floats);
  EXPECT_EQ(packed.stored, Bytes::Of(floats.size() * 2));
  EXPECT_EQ(packed.error.error().largest, 0);
}

TEST(PackExtentTest, LeavesWhatIsNoNumberOf16BitsAsItIs) {
  std::vector<float> floats(2048, 1.5F);
  floats[2000] = 1.0F + 0x1p-20F;
  FloatProgram program(floats, {{.floats = floats.size(), .source = DataType::kFloat16}});
  PackedExtent packed;
  ExpectSameBits(ThereAndBack(program, WeightStorage::kAsIs, packed), floats);
  EXPECT_TRUE(packed.runs.empty());
  EXPECT_EQ(packed.stored, Bytes::Of(floats.size() * 4));
}

TEST(PackExtentTest, LeavesFloatsAsTheyAreUnlessAsked) {
  const std::vector<float> floats(2048, 0.1F);
  for (const WeightStorage storage : {WeightStorage::kAsIs, WeightStorage::kBfloat16}) {
    FloatProgram program(
        floats, {{.floats = floats.size(), .may_change = storage == WeightStorage::kAsIs}});
    PackedExtent packed;
    ExpectSameBits(ThereAndBack(program, storage, packed), floats);
    EXPECT_TRUE(packed.runs.empty());
  }
}

TEST(PackExtentTest, LeavesWhatIsNotFiniteAsItIs) {
  for (const WeightStorage storage :
       {WeightStorage::kFloat16, WeightStorage::kBfloat16, WeightStorage::kInt8}) {
    std::vector<float> floats(2048, 0.1F);
    floats[77] = std::numeric_limits<float>::infinity();
    FloatProgram program(floats, {{.floats = 2048, .channels = {128, 1}, .may_change = true}});
    PackedExtent packed;
    ExpectSameBits(ThereAndBack(program, storage, packed), floats);
    EXPECT_TRUE(packed.runs.empty());
  }
  std::vector<float> large(2048, 70000.0F);  // Beyond fp16.
  FloatProgram program(large, {{.floats = 2048, .may_change = true}});
  PackedExtent packed;
  ExpectSameBits(ThereAndBack(program, WeightStorage::kFloat16, packed), large);
  EXPECT_TRUE(packed.runs.empty());
}

TEST(PackExtentTest, StoresInt8ForEachChannelWithinHalfAStep) {
  // Two blocks of 16 channels, 100 inputs; each channel of another magnitude.
  std::minstd_rand random(1);
  std::vector<float> floats(2 * 16 * 100), largest(32);
  const ChannelMap channels{.group = 1600, .period = 16};
  for (std::size_t i = 0; i < floats.size(); ++i) {
    const std::size_t channel = i / 1600 * 16 + i % 16;
    floats[i] = std::ldexp(static_cast<float>(random() % 2001) - 1000, static_cast<int>(channel));
    if (channel == 5) floats[i] = 0;
    largest[channel] = std::max(largest[channel], std::abs(floats[i]));
  }
  FloatProgram program(floats,
                       {{.floats = floats.size(), .channels = channels, .may_change = true}});
  PackedExtent packed;
  const std::vector<float> back = ThereAndBack(program, WeightStorage::kInt8, packed);
  EXPECT_EQ(packed.stored, Bytes::Of(floats.size() + 32 * 4));
  double found = 0;
  for (std::size_t i = 0; i < floats.size(); ++i) {
    const std::size_t channel = i / 1600 * 16 + i % 16;
    if (channel == 5) {
      EXPECT_EQ(back[i], 0);
      continue;
    }
    const double off = std::abs(static_cast<double>(back[i]) - static_cast<double>(floats[i])) /
                       static_cast<double>(largest[channel]);
    EXPECT_LE(off, 0.5001 / 127);
    found = std::max(found, off);
  }
  EXPECT_DOUBLE_EQ(packed.error.error().largest, found);
  EXPECT_GT(packed.error.error().rms, 0.001);
  EXPECT_LT(packed.error.error().rms, 0.005);
}

class EncodingProperty : public testing::TestWithParam<unsigned> {};

// Any runs of any kind, with raw floats between: what must come back does, and no stored byte is
// read from where a float was written.
TEST_P(EncodingProperty, ComesBackInPlace) {
  std::minstd_rand random(GetParam());
  std::vector<float> floats;
  std::vector<WeightRun> runs;
  std::vector<float> scale;
  const auto storage = static_cast<WeightStorage>(random() % 4);
  bool scaled = false;
  for (std::size_t r = 0; r < 1 + random() % 5; ++r) {
    for (std::size_t i = random() % 300; i > 0; --i)
      floats.push_back(std::ldexp(1.0F, -30) * static_cast<float>(random()));
    WeightRun run{.offset = Bytes::Of(floats.size() * sizeof(float))};
    run.channels.period = static_cast<std::uint32_t>(1 + random() % 40);
    run.channels.group = run.channels.period * (1 + random() % 30);
    const std::uint64_t groups = 1 + random() % 60;
    run.floats = run.channels.group * groups;
    if (random() % 4 == 0) run.channels = {};
    run.source = random() % 2 == 0 ? DataType::kFloat16 : DataType::kFloat32;
    run.may_change = random() % 2 == 0;
    // One run at most, since this program has one scale.
    run.scaled = !scaled && run.channels.group > 0 && random() % 2 == 0;
    std::vector<float> own(run.channels.group == 0 ? 1 : groups * run.channels.period, 1.0F);
    if (run.scaled) {
      for (float& s : own) s = (static_cast<float>(random() % 4000) - 2000) / 321;
      scale = own;
      scaled = true;
    }
    for (std::uint64_t i = 0; i < run.floats; ++i) {
      const std::size_t slot =
          run.channels.group == 0
              ? 0
              : i / run.channels.group * run.channels.period + i % run.channels.period;
      const float any = run.source == DataType::kFloat16
                            ? AnyHalf(random)
                            : static_cast<float>(static_cast<std::int32_t>(random())) * 0x1p-30F;
      floats.push_back(any * own[slot]);
    }
    runs.push_back(run);
  }
  const std::vector<EncodedRun> planned = PlannedRuns(runs, storage);
  FloatProgram program(floats, runs, scale);
  PackedExtent packed;
  const std::vector<float> back = ThereAndBack(program, storage, packed);
  EXPECT_EQ(packed.runs, planned);
  std::vector<double> tolerance(floats.size(), 0);
  for (const WeightRun& run : runs) {
    const std::optional<EncodedRun> one = PlannedRun(run, storage);
    if (!one) continue;
    const bool rounded = one->encoding == Encoding::kInt8 || run.source == DataType::kFloat32 ||
                         (run.scaled && one->scales.group == 0);
    if (!rounded) continue;
    double largest = 0;
    const std::size_t first = run.offset.count() / sizeof(float);
    for (std::size_t i = first; i < first + run.floats; ++i) {
      largest = std::max(largest, std::abs(static_cast<double>(floats[i])));
    }
    for (std::size_t i = first; i < first + run.floats; ++i) tolerance[i] = largest / 250;
  }
  for (std::size_t i = 0; i < floats.size(); ++i) {
    if (tolerance[i] == 0) {
      ASSERT_EQ(std::bit_cast<std::uint32_t>(back[i]), std::bit_cast<std::uint32_t>(floats[i]))
          << i;
    } else {
      ASSERT_NEAR(static_cast<double>(back[i]), static_cast<double>(floats[i]), tolerance[i]) << i;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Seeds, EncodingProperty, testing::Range(0U, 300U));

TEST(CheckRunsTest, RefusesWhatWidenCannotBeGiven) {
  const EncodedRun good{
      .offset = Bytes::Of(64), .floats = 2048, .encoding = Encoding::kInt8, .scales = {128, 16}};
  const Bytes size = Bytes::Of(64 + 2048 * 4);
  const auto check = [&](const std::function<void(EncodedRun&)>& change) {
    std::vector<EncodedRun> runs = {good};
    change(runs[0]);
    return CheckRuns(size, runs);
  };
  EXPECT_TRUE(check([](EncodedRun&) {}).ok());
  const std::vector<std::function<void(EncodedRun&)>> wrong = {
      [](EncodedRun& run) { run.encoding = static_cast<Encoding>(0); },
      [](EncodedRun& run) { run.encoding = static_cast<Encoding>(4); },
      [](EncodedRun& run) { run.offset += Bytes::Of(4); },
      [](EncodedRun& run) { run.offset = Bytes::Of(62); },
      [](EncodedRun& run) { run.offset = Bytes::Max(); },
      [](EncodedRun& run) { run.floats = std::uint64_t{1} << 62; },
      [](EncodedRun& run) { run.floats = 512; },
      [](EncodedRun& run) { run.scales = {}; },
      [](EncodedRun& run) { run.scales.group = 0; },
      [](EncodedRun& run) { run.scales.group = 100; },
      [](EncodedRun& run) {
        run.scales = {128, 0};
      },
      [](EncodedRun& run) {
        run.scales = {128, 24};
      },
      [](EncodedRun& run) {
        run.scales = {16, 16};
      },
      [](EncodedRun& run) {
        run.scales = {std::uint64_t{1} << 63, 16};
      },
      [](EncodedRun& run) {
        run.scales = {2048, 2048};
      },
  };
  for (std::size_t i = 0; i < wrong.size(); ++i) {
    const absl::Status status = check(wrong[i]);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << i;
    EXPECT_THAT(std::string(status.message()), HasSubstr("want")) << i;
  }
  EXPECT_FALSE(CheckRuns(size * 3, std::vector<EncodedRun>{good, good}).ok());
}

TEST(WeightStorageTest, HasNames) {
  for (const char* name : {"as_is", "fp16", "bf16", "int8"}) {
    EXPECT_EQ(Name(WeightStorageFromName(name).value()), name);
  }
  EXPECT_EQ(WeightStorageFromName("int4"), std::nullopt);
}

}  // namespace
}  // namespace sluice
