#include "planner/ring_layout.h"

#include <cstdint>
#include <optional>
#include <vector>

#include "gtest/gtest.h"
#include "planner/draw.h"

namespace sluice {
namespace {

struct Placed {
  std::uint64_t offset;
  std::optional<std::uint32_t> after;
  friend bool operator==(const Placed&, const Placed&) = default;
  friend std::ostream& operator<<(std::ostream& out, const Placed& placed) {
    return out << placed.offset << " after " << (placed.after ? int(*placed.after) : -1);
  }
};

std::vector<Placed> Lay(const std::vector<std::uint64_t>& sizes, std::uint64_t ring) {
  std::vector<Bytes> extents;
  for (const std::uint64_t size : sizes) extents.push_back(Bytes::Of(size));
  std::vector<Placed> placed;
  const std::vector<bool> resident(sizes.size());
  for (const auto& place : LayOutRing(extents, resident, Bytes::Of(ring))) {
    std::optional<std::uint32_t> after;
    if (place->after) after = static_cast<std::uint32_t>(*place->after);
    placed.push_back({place->offset.count(), after});
  }
  return placed;
}

TEST(RingLayoutTest, ARingForAllNeverWaits) {
  EXPECT_EQ(Lay({4, 2, 6}, 12), (std::vector<Placed>{{0, {}}, {4, {}}, {6, {}}}));
}

TEST(RingLayoutTest, ARingOfOneExtentWaitsForTheOneBefore) {
  EXPECT_EQ(Lay({8, 8, 8}, 8), (std::vector<Placed>{{0, {}}, {0, 0}, {0, 1}}));
}

TEST(RingLayoutTest, SkipsATailThatIsTooShort) {
  // The picture in the header: e3 does not fit behind e2 and takes the place of e0 and e1.
  EXPECT_EQ(Lay({6, 4, 8, 8}, 20), (std::vector<Placed>{{0, {}}, {6, {}}, {10, {}}, {0, 1}}));
}

TEST(RingLayoutTest, WaitsForWhatTheSkippedTailHeldALapAgo) {
  // Lap 0: e0 at 0, e1 at 6. Lap 1: e2 at 0; e3 does not fit behind it, so lap 2 begins, and e1,
  // under the tail just skipped, counts as taken.
  EXPECT_EQ(Lay({6, 4, 5, 6}, 10), (std::vector<Placed>{{0, {}}, {6, {}}, {0, 0}, {0, 2}}));
}

TEST(RingLayoutTest, ResidentExtentsTakeNoPlace) {
  const std::vector<Bytes> extents = {4_KiB, 400_KiB, 4_KiB};
  const auto places = LayOutRing(extents, {false, true, false}, 8_KiB);
  EXPECT_FALSE(places[1].has_value());
  EXPECT_EQ(places[2]->offset, 4_KiB);
  EXPECT_FALSE(places[2]->after.has_value());
}

class RingLayoutProperty : public testing::TestWithParam<std::uint64_t> {};

// Brute force: what is in the ring at the moment an extent may be read is everything after the one
// it waits for. None of that may share a byte with it, and it may not wait for longer than that.
TEST_P(RingLayoutProperty, NoExtentIsOverwrittenWhileInUse) {
  SCOPED_TRACE(testing::Message() << "replay with seed " << GetParam());
  Draw draw(GetParam());
  const std::uint64_t ring = 8 + draw.Below(60);
  std::vector<std::uint64_t> sizes(2 + draw.Below(40));
  for (std::uint64_t& size : sizes) size = 1 + draw.Below(draw.Below(3) == 0 ? ring : ring / 4);
  const std::vector<Placed> placed = Lay(sizes, ring);

  const auto meet = [&](std::size_t a, std::size_t b) {
    return placed[a].offset < placed[b].offset + sizes[b] &&
           placed[b].offset < placed[a].offset + sizes[a];
  };
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    EXPECT_LE(placed[i].offset + sizes[i], ring);
    const std::size_t first_held = placed[i].after ? *placed[i].after + 1 : 0;
    for (std::size_t j = first_held; j < i; ++j) {
      EXPECT_FALSE(meet(i, j)) << "extents " << j << " and " << i;
    }
    // What it waits for is in its own way, or was in the way of one before.
    const bool newly_waited = placed[i].after && (i == 0 || placed[i].after != placed[i - 1].after);
    if (newly_waited) {
      bool needed = false;
      const std::size_t begin = placed[i - 1].after ? *placed[i - 1].after + 1 : 0;
      for (std::size_t j = begin; j <= *placed[i].after; ++j) needed |= meet(i, j);
      EXPECT_TRUE(needed || placed[i].offset == 0) << "extent " << i;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Seeds, RingLayoutProperty, testing::Range<std::uint64_t>(0, 300));

}  // namespace
}  // namespace sluice
