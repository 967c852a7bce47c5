// Which channel a packed float belongs to, told by weights that are their channel's number.

#include "engine/cpu/weight_run.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <map>
#include <ostream>
#include <string>
#include <vector>

#include "engine/cpu/against_reference.h"
#include "engine/weight_encoder.h"

namespace sluice {
namespace {

// Numbers of 16 bits, widened as they are read.
class HalfConstant final : public Constant {
 public:
  explicit HalfConstant(const std::vector<float>& values) {
    values_.reserve(values.size());
    for (const float value : values) {
      const float half = std::ldexp(std::round(std::ldexp(value, 8)), -8);
      values_.push_back(half);
    }
  }
  Bytes size() const override { return Bytes::Of(values_.size() * sizeof(float)); }
  absl::Status Read(Bytes offset, std::span<std::byte> into) const override {
    std::memcpy(into.data(), reinterpret_cast<const std::byte*>(values_.data()) + offset.count(),
                into.size());
    return absl::OkStatus();
  }
  std::optional<DataType> widened_from() const override { return DataType::kFloat16; }

 private:
  std::vector<float> values_;
};

struct Case {
  std::string name;
  Shape input, weights;
  Operation operation;
  std::size_t channel_dim = 0;  // Of the weights.
  std::int64_t groups = 1;      // Of a transposed convolution: its channels count on.
  friend void PrintTo(const Case& one, std::ostream* out) { *out << one.name; }
};

Convolution Transposed(std::int64_t kernel, std::int64_t stride, std::int64_t groups = 1) {
  Convolution conv = Conv(kernel, stride, 0, groups);
  conv.transposed = true;
  return conv;
}

const std::vector<Case>& Cases() {
  static const std::vector<Case> cases = {
      {"Conv", {1, 32, 8, 8}, {48, 32, 3, 3}, Conv(3, 1, 1)},
      {"ConvOddChannels", {1, 32, 8, 8}, {37, 32, 3, 3}, Conv(3, 1, 1)},
      {"ConvFirst", {1, 3, 16, 16}, {64, 3, 7, 7}, Conv(7, 2, 3)},
      {"Pointwise", {1, 64, 8, 8}, {128, 64, 1, 1}, Conv(1)},
      {"Grouped", {1, 64, 8, 8}, {64, 16, 3, 3}, Conv(3, 1, 1, 4)},
      {"GroupedOdd", {1, 48, 8, 8}, {72, 16, 3, 3}, Conv(3, 1, 1, 3)},
      {"Depthwise", {1, 256, 8, 8}, {256, 1, 3, 3}, Conv(3, 1, 1, 256)},
      {"DepthwiseTwice", {1, 128, 8, 8}, {256, 1, 3, 3}, Conv(3, 1, 1, 128)},
      {"Row", {1, 512}, {512, 100}, FullyConnected{}},
      {"RowTransposed",
       {1, 512},
       {100, 512},
       FullyConnected{.transposed_b = true, .epilogues = {}},
       0},
      {"Matrix", {7, 512}, {512, 100}, FullyConnected{}},
      {"MatrixTransposed",
       {7, 512},
       {100, 512},
       FullyConnected{.transposed_b = true, .epilogues = {}},
       0},
      {"TransposedConv", {1, 32, 8, 8}, {32, 48, 4, 4}, Transposed(4, 2), 1},
      {"TransposedGroups", {1, 64, 8, 8}, {64, 24, 4, 4}, Transposed(4, 2, 2), 1, 2},
  };
  return cases;
}

// Of each element of the weights: its output channel.
std::vector<std::int64_t> ChannelsOfElements(const Case& one) {
  std::size_t dim = one.channel_dim;
  if (const auto* product = std::get_if<FullyConnected>(&one.operation)) {
    dim = product->transposed_b ? 0 : 1;
  }
  std::int64_t inside = 1;
  for (std::size_t d = dim + 1; d < one.weights.size(); ++d) inside *= one.weights[d];
  std::vector<std::int64_t> channels(ElementCount(one.weights));
  const std::int64_t rows = one.weights[0] / one.groups;
  for (std::size_t i = 0; i < channels.size(); ++i) {
    const auto at = static_cast<std::int64_t>(i);
    channels[i] = at / inside % one.weights[dim];
    if (one.groups > 1) {
      const auto elements = static_cast<std::int64_t>(ElementCount(one.weights));
      channels[i] += at / (elements / one.weights[0]) / rows * one.weights[dim];
    }
  }
  return channels;
}

std::int64_t ChannelCount(const Case& one) {
  const std::vector<std::int64_t> channels = ChannelsOfElements(one);
  return 1 + *std::ranges::max_element(channels);
}

std::unique_ptr<Program> Lower(const Case& one, const std::vector<float>& weights,
                               const std::vector<float>& scale, bool half = false,
                               Bytes max_slice = 4_MiB) {
  GraphBuilder b;
  const ValueId x = b.Input(one.input);
  const ValueId w = b.Floats(one.weights, weights);
  const std::int64_t channels = ChannelCount(one);
  const ValueId bias = b.Weights({channels});
  std::vector<std::optional<ValueId>> inputs = {x, w, bias, std::nullopt};
  if (!scale.empty()) inputs[3] = b.Floats({channels}, scale);
  Graph graph = b.Finish({b.Add(one.operation, inputs)});
  if (half) graph.values[Index(w)].constant = std::make_shared<HalfConstant>(weights);
  auto program =
      LowerOn(TestTeam(), *CpuBackend(TestTeam().threads()), graph, {.max_slice = max_slice});
  EXPECT_TRUE(program.ok()) << program.status();
  return *std::move(program);
}

// Calls visit(extent, run index, run, its packed floats) for each run that has channels.
void ForEachRun(Program& program,
                const std::function<void(ExtentIndex, std::size_t, const WeightRun&,
                                         std::span<const float>)>& visit) {
  for (std::size_t e = 0; e < program.extents().size(); ++e) {
    const ExtentInfo& extent = program.extents()[e];
    std::vector<float> packed(extent.size.count() / sizeof(float));
    TestTeam().Run([&] {
      ASSERT_TRUE(program.Pack(At<ExtentIndex>(e), std::as_writable_bytes(std::span(packed))).ok());
    });
    for (std::size_t r = 0; r < extent.runs.size(); ++r) {
      const WeightRun& run = extent.runs[r];
      visit(At<ExtentIndex>(e), r, run,
            std::span(packed).subspan(run.offset.count() / sizeof(float), run.floats));
    }
  }
}

std::size_t SlotOf(const ChannelMap& map, std::size_t p) {
  return p / map.group * map.period + p % map.period;
}

class WeightRunTest : public testing::TestWithParam<Case> {};

TEST_P(WeightRunTest, TellsChannelsApart) {
  for (const Bytes max_slice : {4_MiB, 20_KiB}) {
    const std::vector<std::int64_t> channels = ChannelsOfElements(GetParam());
    const std::vector<float> weights(channels.begin(), channels.end());
    std::vector<float> numbered = weights;
    for (float& value : numbered) value += 1;
    const auto program = Lower(GetParam(), numbered, {}, false, max_slice);
    std::size_t runs = 0;
    ForEachRun(*program, [&](ExtentIndex, std::size_t, const WeightRun& run,
                             std::span<const float> packed) {
      ++runs;
      EXPECT_TRUE(run.may_change);
      ASSERT_GT(run.channels.group, 0u);
      EXPECT_EQ(run.floats % run.channels.group, 0u);
      std::map<std::size_t, float> slots;
      for (std::size_t p = 0; p < packed.size(); ++p) {
        if (packed[p] == 0) continue;  // Filling.
        const auto [slot, is_new] = slots.emplace(SlotOf(run.channels, p), packed[p]);
        ASSERT_EQ(slot->second, packed[p]) << "float " << p << " of group " << run.channels.group
                                           << ", period " << run.channels.period;
      }
    });
    EXPECT_GT(runs, 0u);
  }
}

TEST_P(WeightRunTest, ReadsTheScaleOfEachSlot) {
  const std::vector<float> ones(ElementCount(GetParam().weights), 1.0F);
  std::vector<float> scale(static_cast<std::size_t>(ChannelCount(GetParam())));
  for (std::size_t c = 0; c < scale.size(); ++c) scale[c] = static_cast<float>(c) + 2;
  const auto program = Lower(GetParam(), ones, scale, false, 40_KiB);
  ForEachRun(*program, [&](ExtentIndex extent, std::size_t r, const WeightRun& run,
                           std::span<const float> packed) {
    ASSERT_TRUE(run.scaled);
    std::vector<float> slots(run.floats / run.channels.group * run.channels.period);
    ASSERT_TRUE(program->ReadScale(extent, r, slots).ok());
    for (std::size_t p = 0; p < packed.size(); ++p) {
      if (packed[p] == 0) continue;  // Filling.
      ASSERT_EQ(slots[SlotOf(run.channels, p)], packed[p]) << p;
    }
  });
}

TEST_P(WeightRunTest, KeepsNumbersOf16BitsAndTheirScaleExactly) {
  std::vector<float> weights(ElementCount(GetParam().weights)),
      scale(static_cast<std::size_t>(ChannelCount(GetParam())));
  for (std::size_t i = 0; i < weights.size(); ++i) {
    weights[i] = static_cast<float>(i * 7919 % 4001) / 1000 - 2;
  }
  for (std::size_t c = 0; c < scale.size(); ++c) scale[c] = static_cast<float>(c % 37) / 13 - 1.1F;
  for (const bool scaled : {false, true}) {
    const auto program = Lower(GetParam(), weights, scaled ? scale : std::vector<float>(), true);
    for (std::size_t e = 0; e < program->extents().size(); ++e) {
      const Bytes size = program->extents()[e].size;
      std::vector<std::byte> plain(size.count()), pages(AlignUp(size, kPageSize).count());
      TestTeam().Run([&] {
        ASSERT_TRUE(program->Pack(At<ExtentIndex>(e), plain).ok());
        const auto packed = PackExtent(*program, At<ExtentIndex>(e), WeightStorage::kAsIs, pages);
        ASSERT_TRUE(packed.ok()) << packed.status();
        ASSERT_TRUE(CheckRuns(size, packed->runs).ok());
        EXPECT_LT(packed->stored, Bytes::Of(size.count() * 7 / 10));
        EXPECT_EQ(packed->error.error().largest, 0);
        if (!packed->runs.empty()) Widen(pages, size, packed->runs);
      });
      EXPECT_EQ(std::memcmp(plain.data(), pages.data(), plain.size()), 0);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, WeightRunTest, testing::ValuesIn(Cases()),
                         [](const testing::TestParamInfo<Case>& info) { return info.param.name; });

}  // namespace
}  // namespace sluice
