// The strategies as their papers put them, list by list and without a structure that makes them
// quick: the real ones give the same offsets.

#include <algorithm>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "planner/any_problem.h"
#include "planner/draw.h"
#include "planner/offset_plan.h"
#include "planner/section_map.h"
#include "planner/strip_packing.h"

namespace sluice {
namespace {

// Places records one after the other, each into the smallest gap between those alive with it.
class PlainPlacement {
 public:
  explicit PlainPlacement(std::span<const UsageRecord> records)
      : records_(records), offsets_(records.size()) {}

  std::vector<Bytes> Place(std::span<const std::size_t> order) {
    for (std::size_t i = 0; i < records_.size(); ++i) {
      if (records_[i].fixed && records_[i].size > Bytes()) Put(i, *records_[i].fixed);
    }
    for (const std::size_t i : order) {
      if (!records_[i].fixed && records_[i].size > Bytes()) Put(i, BestFit(records_[i]));
    }
    return offsets_;
  }

 private:
  void Put(std::size_t i, Bytes offset) {
    offsets_[i] = offset;
    placed_.insert(std::ranges::upper_bound(placed_, offset, {},
                                            [this](std::size_t j) { return offsets_[j]; }),
                   i);
  }

  Bytes BestFit(const UsageRecord& record) const {
    Bytes top;
    std::optional<std::pair<Bytes, Bytes>> best;  // Gap, offset.
    for (const std::size_t i : placed_) {
      const UsageRecord& other = records_[i];
      if (other.live.begin >= record.live.end || record.live.begin >= other.live.end) continue;
      if (offsets_[i] >= top && offsets_[i] - top >= record.size &&
          (!best || offsets_[i] - top < best->first)) {
        best = {offsets_[i] - top, top};
      }
      top = std::max(top, AlignUp(offsets_[i] + other.size, record.alignment));
    }
    return best ? best->second : top;
  }

  std::span<const UsageRecord> records_;
  std::vector<Bytes> offsets_;
  std::vector<std::size_t> placed_;  // By offset.
};

// One floor a section; the lowest run of sections takes the longest lived record that fits, of
// equals the largest, of these the first, or rises to the lower of its walls.
std::vector<Bytes> PlainStrip(std::span<const UsageRecord> records) {
  const SectionMap map = MapSections(records);
  std::vector<Bytes> floors(map.sections), offsets(records.size());
  std::vector<bool> placed(records.size());
  const auto left = [&](std::size_t i) { return !placed[i] && records[i].size > Bytes(); };
  const auto key = [&](std::size_t i) { return std::pair(map.spans[i].length(), records[i].size); };
  for (;;) {
    std::optional<std::size_t> first;
    for (std::size_t i = 0; i < records.size() && !first; ++i) {
      if (left(i)) first = i;
    }
    if (!first) return offsets;
    const auto lowest = static_cast<std::size_t>(std::ranges::min_element(floors) - floors.begin());
    std::size_t end = lowest;
    while (end < floors.size() && floors[end] == floors[lowest]) ++end;
    std::optional<std::size_t> best;
    for (std::size_t i = 0; i < records.size(); ++i) {
      if (!left(i) || map.spans[i].begin < lowest || map.spans[i].end > end) continue;
      if (!best || key(i) > key(*best)) best = i;
    }
    const Bytes floor = floors[lowest];
    if (best) {
      placed[*best] = true;
      offsets[*best] = AlignUp(floor, records[*best].alignment);
      for (std::uint32_t s = map.spans[*best].begin; s < map.spans[*best].end; ++s) {
        floors[s] = offsets[*best] + records[*best].size;
      }
      continue;
    }
    Bytes wall = Bytes::Max();
    if (lowest > 0) wall = floors[lowest - 1];
    if (end < floors.size()) wall = std::min(wall, floors[end]);
    std::fill(floors.begin() + static_cast<std::ptrdiff_t>(lowest),
              floors.begin() + static_cast<std::ptrdiff_t>(end), wall);
  }
}

class OffsetDefinition : public testing::TestWithParam<std::uint64_t> {
 protected:
  // Of all kinds: few and many sizes, long and short lifetimes, with and without alignment.
  std::vector<UsageRecord> Records(Draw& draw) {
    if (draw.Below(3) == 0) return AnyNetwork(draw, draw.Below(150));
    return AnyRecords(draw, {.records_below = 120,
                             .steps = 1 + draw.Below(100),
                             .size_below = 1 + draw.Below(300),
                             .alignment_bits_below = 1 + draw.Below(7)});
  }
};

TEST_P(OffsetDefinition, EachRecordTakesTheSmallestGap) {
  SCOPED_TRACE(testing::Message() << "replay with seed " << GetParam());
  Draw draw(GetParam());
  std::vector<UsageRecord> records = Records(draw);
  std::vector<std::size_t> order;
  for (std::size_t i = 0; i < records.size(); ++i) order.push_back(i);
  for (std::size_t i = order.size(); i > 1; --i) std::swap(order[i - 1], order[draw.Below(i)]);
  EXPECT_EQ(PlaceInOrder(records, order).offsets, PlainPlacement(records).Place(order));
  if (records.empty()) return;
  UsageRecord& fixed = records[draw.Below(records.size())];
  fixed.fixed = fixed.alignment * draw.Below(50);
  EXPECT_EQ(PlaceInOrder(records, order).offsets, PlainPlacement(records).Place(order));
}

TEST_P(OffsetDefinition, TheLowestLineTakesTheLongestLivedRecordThatFits) {
  SCOPED_TRACE(testing::Message() << "replay with seed " << GetParam());
  Draw draw(GetParam());
  const std::vector<UsageRecord> records = Records(draw);
  EXPECT_EQ(PackStrip(records).offsets, PlainStrip(records));
}

INSTANTIATE_TEST_SUITE_P(Seeds, OffsetDefinition, testing::Range<std::uint64_t>(0, 200));

}  // namespace
}  // namespace sluice
