#include "client/text_regions.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <limits>

namespace sluice {
namespace {

using testing::HasSubstr;

class MapOfText {
 public:
  MapOfText(std::size_t width, std::size_t height) : width_(width), values_(width * height) {}
  void Fill(const Box& box, float value) {
    for (std::size_t y = box.top; y < box.bottom; ++y) {
      for (std::size_t x = box.left; x < box.right; ++x) values_[y * width_ + x] = value;
    }
  }
  Tensor tensor() const {
    Tensor tensor{.name = "map",
                  .datatype = "FP32",
                  .shape = {1, 1, static_cast<std::int64_t>(values_.size() / width_),
                            static_cast<std::int64_t>(width_)},
                  .data = std::string(values_.size() * sizeof(float), '\0')};
    std::memcpy(tensor.data.data(), values_.data(), tensor.data.size());
    return tensor;
  }

 private:
  std::size_t width_;
  std::vector<float> values_;
};

constexpr TextRegionOptions kAsIs = {.grow = 0};

TEST(TextRegionsTest, FindsBoxesInReadingOrder) {
  MapOfText map(100, 60);
  map.Fill({60, 10, 90, 20}, 0.9f);  // Right on the first line, a little higher.
  map.Fill({5, 12, 50, 22}, 0.8f);
  map.Fill({5, 40, 50, 50}, 0.7f);
  const auto regions = FindTextRegions(map.tensor(), 100, 60, kAsIs);
  ASSERT_TRUE(regions.ok()) << regions.status();
  ASSERT_EQ(regions->size(), 3u);
  EXPECT_EQ((*regions)[0].box, (Box{5, 12, 50, 22}));
  EXPECT_EQ((*regions)[1].box, (Box{60, 10, 90, 20}));
  EXPECT_EQ((*regions)[2].box, (Box{5, 40, 50, 50}));
  EXPECT_NEAR((*regions)[2].score, 0.7, 1e-6);
}

TEST(TextRegionsTest, ScalesToThePicture) {
  MapOfText map(100, 50);
  map.Fill({10, 10, 20, 20}, 1);
  const auto regions = FindTextRegions(map.tensor(), 300, 100, kAsIs);
  ASSERT_EQ(regions->size(), 1u);
  EXPECT_EQ(regions->front().box, (Box{30, 20, 60, 40}));
}

TEST(TextRegionsTest, GrowsWhatTheMapHasShrunkButNotBeyondThePicture) {
  MapOfText map(100, 50);
  map.Fill({2, 10, 42, 20}, 1);  // 40 x 10: grows by 400 * 1.5 / 100 = 6.
  const auto regions = FindTextRegions(map.tensor(), 100, 50, {});
  ASSERT_EQ(regions->size(), 1u);
  EXPECT_EQ(regions->front().box, (Box{0, 4, 48, 26}));
}

TEST(TextRegionsTest, LeavesOutWeakAndTinyRegions) {
  MapOfText map(100, 60);
  map.Fill({5, 5, 30, 15}, 0.5f);    // Above the threshold, below the least score.
  map.Fill({50, 5, 52, 15}, 0.9f);   // Two places wide.
  map.Fill({5, 30, 30, 40}, 0.29f);  // Below the threshold.
  map.Fill({50, 30, 60, 40}, std::numeric_limits<float>::quiet_NaN());
  const auto regions = FindTextRegions(map.tensor(), 100, 60, kAsIs);
  ASSERT_TRUE(regions.ok());
  EXPECT_TRUE(regions->empty());
  EXPECT_EQ(DescribeTextRegions(*regions), "no text regions\n");
}

TEST(TextRegionsTest, JoinsPlacesThatTouchAtACorner) {
  MapOfText map(40, 40);
  map.Fill({5, 5, 10, 10}, 1);
  map.Fill({10, 10, 15, 15}, 1);
  map.Fill({16, 16, 20, 20}, 1);  // Apart.
  const auto regions = FindTextRegions(map.tensor(), 40, 40, kAsIs);
  ASSERT_EQ(regions->size(), 2u);
  EXPECT_EQ((*regions)[0].box, (Box{5, 5, 15, 15}));
}

TEST(TextRegionsTest, TakesAMapThatIsFullAndAPictureOfOnePixel) {
  MapOfText map(64, 64);
  map.Fill({0, 0, 64, 64}, 1);
  ASSERT_EQ(FindTextRegions(map.tensor(), 64, 64, {})->front().box, (Box{0, 0, 64, 64}));
  map.Fill({0, 20, 64, 30}, 0);
  EXPECT_EQ(FindTextRegions(map.tensor(), 1, 1, {})->size(), 2u);
}

TEST(TextRegionsTest, SaysWhatIsNoMap) {
  Tensor tensor{.name = "y", .datatype = "FP32", .shape = {1, 2, 1, 1}, .data = "12345678"};
  const auto regions = FindTextRegions(tensor, 10, 10, {});
  EXPECT_EQ(regions.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(regions.status().message()), HasSubstr("FP32 [1, 2, 1, 1]"));
  for (const std::vector<std::int64_t>& shape :
       {std::vector<std::int64_t>{}, {2}, {0, 4}, {-1, 2}}) {
    tensor.shape = shape;
    EXPECT_FALSE(FindTextRegions(tensor, 10, 10, {}).ok()) << FormatShape(shape);
  }
}

TEST(TextRegionsTest, TellsThemInWords) {
  const std::vector<TextRegion> regions = {{{30, 18, 150, 42}, 0.934}, {{1, 60, 9, 70}, 0.61}};
  EXPECT_EQ(DescribeTextRegions(regions),
            "2 text regions:\n"
            "   1. at x=30 y=18, 120 x 24 pixels, score 0.93\n"
            "   2. at x=1 y=60, 8 x 10 pixels, score 0.61\n");
}

TEST(TextRegionsTest, DrawsInsideThePictureOnly) {
  Picture picture{.width = 20, .height = 20, .rgb = std::vector<std::uint8_t>(1200, 255)};
  DrawTextRegions({{{2, 2, 18, 18}, 1}, {{15, 15, 40, 40}, 1}, {{0, 0, 0, 0}, 1}}, picture);
  EXPECT_EQ(picture.rgb.size(), 1200u);
  const std::uint8_t* corner = picture.rgb.data() + (17 * 20 + 2) * 3;
  EXPECT_LT(corner[1], 100);                            // On the outline.
  EXPECT_EQ(picture.rgb[(12 * 20 + 12) * 3 + 1], 255);  // Inside the box.
}

}  // namespace
}  // namespace sluice
