#include "engine/cpu/weight_run.h"

#include <algorithm>
#include <cstdint>
#include <vector>

#include "base/check.h"
#include "base/status_macros.h"

namespace sluice {
namespace {

// `count` positions `stride` apart: a placement is a sum of such levels.
struct Level {
  std::int64_t count;
  std::int64_t stride;
};

std::vector<Level> LevelsOf(const Factor& factor) {
  std::vector<Level> levels;
  std::int64_t rest = factor.count;
  for (auto block = factor.placement.inner.rbegin(); block != factor.placement.inner.rend();
       ++block) {
    levels.push_back({std::min(block->count, rest), block->stride});
    rest = (rest + block->count - 1) / block->count;
  }
  levels.push_back({rest, factor.placement.outer_stride});
  std::erase_if(levels, [](const Level& level) { return level.count <= 1; });
  return levels;
}

std::vector<Factor> ChannelFactors(const WeightPart& part) {
  std::vector<Factor> factors;
  for (const Axis& axis : part.axes) {
    std::ranges::copy_if(axis.factors, std::back_inserter(factors),
                         [](const Factor& factor) { return factor.scale_stride != 0; });
  }
  return factors;
}

struct Levels {
  std::vector<Level> channels, others;
};

Levels LevelsOf(const WeightPart& part) {
  Levels levels;
  for (const Axis& axis : part.axes) {
    for (const Factor& factor : axis.factors) {
      std::vector<Level>& into = factor.scale_stride != 0 ? levels.channels : levels.others;
      const std::vector<Level> own = LevelsOf(factor);
      into.insert(into.end(), own.begin(), own.end());
    }
  }
  return levels;
}

std::int64_t LeastStride(const std::vector<Level>& levels, std::int64_t otherwise) {
  for (const Level& level : levels) otherwise = std::min(otherwise, level.stride);
  return otherwise;
}

std::int64_t Floats(const WeightPart& part) {
  return static_cast<std::int64_t>(part.size.count() / sizeof(float));
}

// Where a position of the channels' factors lies in the list of all groups' periods.
std::size_t SlotOf(const ChannelMap& map, std::int64_t position) {
  const auto at = static_cast<std::uint64_t>(position);
  return static_cast<std::size_t>(at / map.group * map.period + at % map.period);
}

// How far from its first position a channel comes again in other groups; zero too.
std::vector<std::int64_t> Repeats(const WeightPart& part, const ChannelMap& map) {
  std::vector<std::int64_t> repeats = {0};
  for (const Level& level : LevelsOf(part).others) {
    if (level.stride < static_cast<std::int64_t>(map.group)) continue;
    const std::size_t before = repeats.size();
    repeats.reserve(before * static_cast<std::size_t>(level.count));
    for (std::int64_t i = 1; i < level.count; ++i) {
      for (std::size_t r = 0; r < before; ++r) repeats.push_back(repeats[r] + i * level.stride);
    }
  }
  return repeats;
}

}  // namespace

ChannelMap ChannelsOf(const WeightPart& part) {
  Levels levels = LevelsOf(part);
  const std::int64_t floats = Floats(part);
  if (floats == 0 || ChannelFactors(part).empty()) return {};
  // Channels that lie side by side make the period, up to where something else moves on.
  std::int64_t period = 1;
  const auto beside = std::ranges::find(levels.channels, std::int64_t{1}, &Level::stride);
  if (beside != levels.channels.end()) {
    const std::int64_t count = beside->count;
    levels.channels.erase(beside);
    period = std::min(LeastStride(levels.others, floats), LeastStride(levels.channels, floats));
    if (period < count) return {};
  }
  const std::int64_t group = LeastStride(levels.channels, floats);
  std::int64_t reach = period;  // What the others span, of one group.
  for (const Level& level : levels.others) {
    if (level.stride % (level.stride < group ? period : group) != 0) return {};
    // Beyond a group, channels come again: they have more scales than one there.
    if (level.stride < group) reach += (level.count - 1) * level.stride;
  }
  for (const Level& level : levels.channels) {
    if (level.stride % group != 0) return {};
  }
  if (reach > group || group % period != 0 || floats % group != 0) return {};
  if (period > kMostPeriod) return {};
  return {.group = static_cast<std::uint64_t>(group), .period = static_cast<std::uint32_t>(period)};
}

std::optional<WeightRun> RunOf(const WeightPart& part) {
  const std::optional<DataType> narrow = part.source->widened_from();
  const bool may_change = !ChannelFactors(part).empty();
  if (part.size.count() % sizeof(float) != 0 || (!narrow && !may_change)) return std::nullopt;
  return WeightRun{.offset = part.offset,
                   .floats = part.size.count() / sizeof(float),
                   .channels = ChannelsOf(part),
                   .source = narrow.value_or(DataType::kFloat32),
                   .scaled = part.scale != nullptr,
                   .may_change = may_change};
}

absl::Status ReadScaleOf(const WeightPart& part, std::span<float> into) {
  const ChannelMap map = ChannelsOf(part);
  SLUICE_CHECK(part.scale != nullptr && map.group > 0);
  std::vector<float> scale(part.scale->size().count() / sizeof(float));
  SLUICE_RETURN_IF_ERROR(part.scale->Read(Bytes(), std::as_writable_bytes(std::span(scale))));
  std::ranges::fill(into, 1.0F);
  const std::vector<std::int64_t> repeats = Repeats(part, map);
  const std::vector<Factor> factors = ChannelFactors(part);
  std::int64_t channels = 1;
  for (const Factor& factor : factors) channels *= factor.count;
  for (std::int64_t channel = 0; channel < channels; ++channel) {
    std::int64_t rest = channel, position = 0, index = part.scale_first;
    for (const Factor& factor : factors) {
      position += factor.placement.Term(rest % factor.count);
      index += rest % factor.count * factor.scale_stride;
      rest /= factor.count;
    }
    for (const std::int64_t again : repeats) {
      into[SlotOf(map, position + again)] = scale[static_cast<std::size_t>(index)];
    }
  }
  return absl::OkStatus();
}

Bytes EncodingMemory(const WeightPart& part) {
  const std::optional<WeightRun> run = RunOf(part);
  if (!run || run->channels.group == 0) return Bytes();
  // The scales, and the largest magnitudes.
  Bytes memory =
      Bytes::Of(run->floats / run->channels.group * run->channels.period) * (2 * sizeof(float));
  if (part.scale != nullptr) memory += part.scale->size();
  return memory;
}

}  // namespace sluice
