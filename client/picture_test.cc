#include "client/picture.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

// clang-format off
#include <cstddef>
#include <cstdio>
#include <jpeglib.h>
// clang-format on

#include <random>

#include "client/test_folder.h"

namespace sluice {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

Picture Grey(std::size_t width, std::size_t height, const std::vector<std::uint8_t>& values) {
  Picture picture{.width = width, .height = height, .rgb = {}};
  for (const std::uint8_t value : values) picture.rgb.insert(picture.rgb.end(), 3, value);
  return picture;
}

std::vector<int> Reds(const Picture& picture) {
  std::vector<int> reds;
  for (std::size_t i = 0; i < picture.rgb.size(); i += 3) reds.push_back(picture.rgb[i]);
  return reds;
}

Picture Noise(std::size_t width, std::size_t height) {
  std::mt19937 random(7);
  Picture picture{.width = width, .height = height, .rgb = {}};
  picture.rgb.resize(width * height * 3);
  for (std::uint8_t& byte : picture.rgb) byte = static_cast<std::uint8_t>(random());
  return picture;
}

std::string JpegOf(const Picture& picture) {
  jpeg_compress_struct info;
  jpeg_error_mgr errors;
  info.err = jpeg_std_error(&errors);
  jpeg_create_compress(&info);
  unsigned char* buffer = nullptr;
  unsigned long size = 0;
  jpeg_mem_dest(&info, &buffer, &size);
  info.image_width = static_cast<JDIMENSION>(picture.width);
  info.image_height = static_cast<JDIMENSION>(picture.height);
  info.input_components = 3;
  info.in_color_space = JCS_RGB;
  jpeg_set_defaults(&info);
  jpeg_set_quality(&info, 100, TRUE);
  jpeg_start_compress(&info, TRUE);
  std::vector<std::uint8_t> row(picture.width * 3);
  for (std::size_t y = 0; y < picture.height; ++y) {
    std::copy_n(picture.rgb.begin() + static_cast<std::ptrdiff_t>(y * row.size()), row.size(),
                row.begin());
    JSAMPROW rows = row.data();
    jpeg_write_scanlines(&info, &rows, 1);
  }
  jpeg_finish_compress(&info);
  std::string file(reinterpret_cast<char*>(buffer), size);
  jpeg_destroy_compress(&info);
  free(buffer);
  return file;
}

TEST(PictureTest, ResizingToTheSameSizeChangesNothing) {
  const Picture noise = Noise(5, 3);
  EXPECT_EQ(Resize(noise, 5, 3).rgb, noise.rgb);
}

TEST(PictureTest, EnlargesBetweenPixelCentres) {
  EXPECT_THAT(Reds(Resize(Grey(2, 1, {0, 200}), 4, 1)), ElementsAre(0, 50, 150, 200));
  EXPECT_THAT(Reds(Resize(Grey(1, 2, {0, 200}), 1, 4)), ElementsAre(0, 50, 150, 200));
  EXPECT_THAT(Reds(Resize(Grey(1, 1, {77}), 3, 2)), ElementsAre(77, 77, 77, 77, 77, 77));
}

TEST(PictureTest, ShrinkingCountsEveryPixel) {
  // A filter of one source pixel's reach would miss the bright one.
  const auto reds = Reds(Resize(Grey(8, 1, {0, 0, 0, 0, 0, 240, 0, 0}), 2, 1));
  EXPECT_GT(reds[1], 20);
  EXPECT_LT(reds[1], 120);
  EXPECT_THAT(Reds(Resize(Grey(4, 4, std::vector<std::uint8_t>(16, 90)), 1, 1)), ElementsAre(90));
}

TEST(PictureTest, WritesAndReadsPng) {
  const TestFolder folder;
  const Picture noise = Noise(33, 17);
  ASSERT_TRUE(WritePng(noise, folder.path() / "a.png").ok());
  const auto again = ReadPicture(folder.path() / "a.png");
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(again->width, 33u);
  EXPECT_EQ(again->height, 17u);
  EXPECT_EQ(again->rgb, noise.rgb);
}

TEST(PictureTest, ReadsJpegAlmostAsItWas) {
  const Picture grey = Grey(16, 8, std::vector<std::uint8_t>(128, 140));
  const auto again = DecodePicture(JpegOf(grey), "a.jpg");
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(again->width, 16u);
  EXPECT_EQ(again->height, 8u);
  for (const int red : Reds(*again)) EXPECT_NEAR(red, 140, 2);
}

TEST(PictureTest, ReadsPpmAndPgmWithComments) {
  const auto colour = DecodePicture("P6\n# made by hand\n2 1\n255\nabcdef", "a.ppm");
  ASSERT_TRUE(colour.ok()) << colour.status();
  EXPECT_THAT(colour->rgb, ElementsAre('a', 'b', 'c', 'd', 'e', 'f'));
  const auto grey = DecodePicture("P5 2 1 255 xy", "a.pgm");
  ASSERT_TRUE(grey.ok()) << grey.status();
  EXPECT_THAT(grey->rgb, ElementsAre('x', 'x', 'x', 'y', 'y', 'y'));
}

TEST(PictureTest, RefusesPicturesThatAreCutShort) {
  const TestFolder folder;
  ASSERT_TRUE(WritePng(Noise(20, 20), folder.path() / "a.png").ok());
  const std::string png = *ReadFile(folder.path() / "a.png", kMaxTensorFile);
  const std::string jpeg = JpegOf(Noise(20, 20));
  const std::string ppm = "P6 2 2 255 abcdefghijkl";
  ASSERT_TRUE(DecodePicture(ppm, "a").ok());
  for (const std::string& whole : {png, jpeg, ppm}) {
    for (std::size_t size = 0; size + 13 < whole.size(); ++size) {
      const auto picture = DecodePicture(whole.substr(0, size), "cut");
      ASSERT_FALSE(picture.ok()) << size << " of " << whole.size();
      EXPECT_THAT(std::string(picture.status().message()), HasSubstr("cut: got"));
    }
  }
}

TEST(PictureTest, SurvivesMutations) {
  const TestFolder folder;
  ASSERT_TRUE(WritePng(Noise(9, 9), folder.path() / "a.png").ok());
  for (const std::string& whole :
       {*ReadFile(folder.path() / "a.png", kMaxTensorFile), JpegOf(Noise(9, 9)),
        std::string("P6 3 3 255 abcdefghijklmnopqrstuvwxyza")}) {
    for (std::uint32_t seed = 0; seed < 300; ++seed) {
      std::mt19937 random(seed);
      std::string file = whole;
      // The sides stay small enough for a test that runs in a moment.
      for (int i = 0; i < 3; ++i) file[random() % file.size()] = static_cast<char>(random());
      const auto picture = DecodePicture(file, "a");
      if (!picture.ok()) continue;
      EXPECT_EQ(picture->rgb.size(), picture->width * picture->height * 3) << seed;
      EXPECT_LE(picture->width * picture->height, kMaxPixels) << seed;
    }
  }
}

TEST(PictureTest, RefusesSizesBeforeTakingMemory) {
  for (const char* file : {"P6 99999999 99999999 255 ", "P6 0 5 255 ", "P6 65536 65536 255 x"}) {
    const auto picture = DecodePicture(file, "big.ppm");
    ASSERT_FALSE(picture.ok());
    EXPECT_THAT(std::string(picture.status().message()), HasSubstr("pixels"));
  }
  // A PNG header that claims 2^31 - 1 by 2^31 - 1.
  const std::string png(
      "\x89PNG\r\n\x1a\n\0\0\0\rIHDR\x7f\xff\xff\xff\x7f\xff\xff\xff\x08\2\0\0\0"
      "\0\0\0\0",
      33);
  EXPECT_FALSE(DecodePicture(png, "big.png").ok());
}

TEST(PictureTest, NamesWhatIsNoPicture) {
  const auto picture = DecodePicture("hello", "a.txt");
  EXPECT_THAT(std::string(picture.status().message()),
              HasSubstr("a.txt: got a file of another kind, want a PNG, JPEG"));
  EXPECT_THAT(std::string(DecodePicture("P6 1 1 65535 abcdef", "a.ppm").status().message()),
              HasSubstr("up to 65535, want 255"));
}

TEST(PictureTest, DrawsDigits) {
  Picture picture = Grey(9, 7, std::vector<std::uint8_t>(63, 0));
  DrawNumber(1, 0, 0, 1, {200, 0, 0}, picture);
  // A plate of 5 x 7 with the white strokes of a 1; right of it nothing.
  EXPECT_EQ(picture.rgb[0], 200);
  EXPECT_EQ(Reds(picture)[1 * 9 + 2], 255);
  EXPECT_EQ(Reds(picture)[1 * 9 + 6], 0);
}

}  // namespace
}  // namespace sluice
