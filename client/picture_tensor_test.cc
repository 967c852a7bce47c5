#include "client/picture_tensor.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace sluice {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using Shape = std::vector<std::int64_t>;

// Two pixels: (10, 20, 30) and (40, 50, 60).
const Picture kTwo = {.width = 2, .height = 1, .rgb = {10, 20, 30, 40, 50, 60}};

std::vector<double> Made(const std::string& datatype, const Shape& shape,
                         const PictureOptions& options) {
  const auto tensor = PictureTensor(kTwo, "x", datatype, shape, options);
  EXPECT_TRUE(tensor.ok()) << tensor.status();
  return tensor.ok() ? *Values(*tensor) : std::vector<double>{};
}

TEST(PictureTensorTest, LaysChannelsFirstOrLastAsTheShapeSays) {
  EXPECT_THAT(Made("FP32", {1, 3, 1, 2}, {}), ElementsAre(10, 40, 20, 50, 30, 60));
  EXPECT_THAT(Made("FP32", {1, 1, 2, 3}, {.layout = Layout::kNhwc}),
              ElementsAre(10, 20, 30, 40, 50, 60));
  EXPECT_THAT(Made("UINT8", {3, 1, 2}, {}), ElementsAre(10, 40, 20, 50, 30, 60));
}

TEST(PictureTensorTest, SwapsChannelsWithTheirMeans) {
  const PictureOptions options = {.order = ChannelOrder::kBgr, .mean = {10, 20, 30}};
  EXPECT_THAT(Made("FP32", {1, 3, 1, 2}, options), ElementsAre(0, 30, 0, 30, 0, 30));
}

TEST(PictureTensorTest, ScalesBeforeItTakesTheMeanAway) {
  const PictureOptions options = {.scale = 0.1, .mean = {1, 1, 1}, .deviation = {2, 2, 4}};
  const auto values = Made("FP32", {1, 3, 1, 2}, options);
  EXPECT_NEAR(values[0], 0, 1e-6);
  EXPECT_NEAR(values[1], 1.5, 1e-6);
  EXPECT_NEAR(values[5], 1.25, 1e-6);
}

TEST(PictureTensorTest, FillsEveryPlaceOfTheBatchAndMixesGrey) {
  EXPECT_EQ(Made("FP32", {2, 3, 1, 2}, {}).size(), 12u);
  EXPECT_EQ(Made("FP32", {2, 3, 1, 2}, {})[6], 10);
  const auto grey = Made("FP32", {1, 1, 1, 2}, {});
  EXPECT_NEAR(grey[0], 0.299 * 10 + 0.587 * 20 + 0.114 * 30, 1e-4);
  EXPECT_EQ(Made("FP32", {1, 2}, {}).size(), 2u);
}

TEST(PictureTensorTest, RoundsAndClampsBytes) {
  EXPECT_THAT(Made("UINT8", {1, 3, 1, 2}, {.scale = 5, .mean = {60.4, 0, 0}}),
              ElementsAre(0, 140, 100, 250, 150, 255));
}

TEST(PictureTensorTest, GuessesTheLayout) {
  EXPECT_EQ(ReadPictureShape("x", Shape{1, 3, 224, 200}, {})->layout, Layout::kNchw);
  EXPECT_EQ(ReadPictureShape("x", Shape{1, 224, 200, 3}, {})->layout, Layout::kNhwc);
  EXPECT_EQ(ReadPictureShape("x", Shape{1, 224, 200, 3}, {})->height, 224u);
  EXPECT_EQ(ReadPictureShape("x", Shape{224, 200, 3}, {})->width, 200u);
  EXPECT_EQ(ReadPictureShape("x", Shape{1, 3, 224, 3}, {})->layout, Layout::kNchw);
}

TEST(PictureTensorTest, SaysWhichInputTakesNoPicture) {
  for (const Shape& shape : {Shape{1, 4, 8, 8}, Shape{8}, Shape{1, 3, -1, 8}, Shape{1, 3, 0, 8},
                             Shape{1, 1, 1, 3, 8}, Shape{}}) {
    const auto refused = ReadPictureShape("tokens", shape, {});
    ASSERT_FALSE(refused.ok()) << FormatShape(shape);
    EXPECT_THAT(std::string(refused.status().message()), HasSubstr("\"tokens\""));
  }
  EXPECT_FALSE(ReadPictureShape("x", Shape{1, 3, 8, 8}, Layout::kNhwc).ok());
  EXPECT_FALSE(PictureTensor(kTwo, "x", "INT64", Shape{1, 3, 1, 2}, {}).ok());
  EXPECT_FALSE(PictureTensor(kTwo, "x", "FP32", Shape{1, 3, 1, 2}, {.deviation = {1, 0, 1}}).ok());
  EXPECT_FALSE(PictureTensor(kTwo, "x", "FP32", Shape{1, 3, 1 << 20, 1 << 20}, {}).ok());
}

}  // namespace
}  // namespace sluice
