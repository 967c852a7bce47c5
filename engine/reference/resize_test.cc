// Resize against the examples of the ONNX specification.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "engine/reference/definitions.h"

namespace sluice::reference {
namespace {

using testing::ElementsAre;
using testing::FloatNear;
using testing::Pointwise;

std::vector<float> Resized(const Resize& resize, const Shape& in, const std::vector<float>& x,
                           const Shape& out) {
  std::vector<float> y(ElementCount(out));
  const Tensor input{.type = DataType::kFloat32,
                     .shape = in,
                     .data = reinterpret_cast<const std::byte*>(x.data())};
  Define(
      resize, Operands(&input, 1),
      {.type = DataType::kFloat32, .shape = out, .data = reinterpret_cast<std::byte*>(y.data())});
  return y;
}

Resize Of(Resize::Mode mode, Resize::Coordinates coordinates, float rows, float columns) {
  Resize resize;
  resize.mode = mode;
  resize.coordinates = coordinates;
  resize.scales = {1, 1, rows, columns};
  return resize;
}

TEST(ResizeTest, NearestRepeatsElements) {
  const Resize resize = Of(Resize::Mode::kNearest, Resize::Coordinates::kHalfPixel, 2, 3);
  EXPECT_THAT(Resized(resize, {1, 1, 2, 2}, {1, 2, 3, 4}, {1, 1, 4, 6}),
              ElementsAre(1, 1, 1, 2, 2, 2, 1, 1, 1, 2, 2, 2, 3, 3, 3, 4, 4, 4, 3, 3, 3, 4, 4, 4));
}

TEST(ResizeTest, NearestRoundsAsAsked) {
  Resize resize = Of(Resize::Mode::kNearest, Resize::Coordinates::kAsymmetric, 1, 2);
  const auto rounded = [&](Resize::Rounding rounding) {
    resize.rounding = rounding;
    return Resized(resize, {1, 1, 1, 3}, {1, 2, 3}, {1, 1, 1, 6});
  };
  EXPECT_THAT(rounded(Resize::Rounding::kFloor), ElementsAre(1, 1, 2, 2, 3, 3));
  EXPECT_THAT(rounded(Resize::Rounding::kRoundPreferFloor), ElementsAre(1, 1, 2, 2, 3, 3));
  EXPECT_THAT(rounded(Resize::Rounding::kRoundPreferCeil), ElementsAre(1, 2, 2, 3, 3, 3));
  EXPECT_THAT(rounded(Resize::Rounding::kCeil), ElementsAre(1, 2, 2, 3, 3, 3));
}

TEST(ResizeTest, NearestAtTheStatedScaleStaysOnItsSideOfABoundary) {
  // 1 / float(1 / 3) is 3 in single precision and below 3 in double.
  Resize resize = Of(Resize::Mode::kNearest, Resize::Coordinates::kAsymmetric, 1, 1.0f / 3);
  resize.rounding = Resize::Rounding::kFloor;
  EXPECT_THAT(Resized(resize, {1, 1, 1, 6}, {0, 1, 2, 3, 4, 5}, {1, 1, 1, 2}), ElementsAre(0, 3));
}

TEST(ResizeTest, LinearInterpolatesBetweenHalfPixels) {
  const Resize resize = Of(Resize::Mode::kLinear, Resize::Coordinates::kHalfPixel, 2, 2);
  EXPECT_THAT(Resized(resize, {1, 1, 2, 2}, {1, 2, 3, 4}, {1, 1, 4, 4}),
              ElementsAre(1, 1.25f, 1.75f, 2, 1.5f, 1.75f, 2.25f, 2.5f, 2.5f, 2.75f, 3.25f, 3.5f, 3,
                          3.25f, 3.75f, 4));
}

TEST(ResizeTest, LinearShrinks) {
  const Resize resize = Of(Resize::Mode::kLinear, Resize::Coordinates::kHalfPixel, 0.6f, 0.6f);
  EXPECT_THAT(Resized(resize, {1, 1, 2, 4}, {1, 2, 3, 4, 5, 6, 7, 8}, {1, 1, 1, 2}),
              Pointwise(FloatNear(1e-5f), std::vector<float>{2.6666665f, 4.3333331f}));
}

TEST(ResizeTest, LinearAlignsCorners) {
  const Resize resize = Of(Resize::Mode::kLinear, Resize::Coordinates::kAlignCorners, 2, 2);
  EXPECT_THAT(
      Resized(resize, {1, 1, 2, 2}, {1, 2, 3, 4}, {1, 1, 4, 4}),
      Pointwise(FloatNear(1e-6f),
                std::vector<float>{1, 4 / 3.0f, 5 / 3.0f, 2, 5 / 3.0f, 2, 7 / 3.0f, 8 / 3.0f,
                                   7 / 3.0f, 8 / 3.0f, 3, 10 / 3.0f, 3, 10 / 3.0f, 11 / 3.0f, 4}));
}

TEST(ResizeTest, PytorchHalfPixelTakesTheFirstElementForASizeOfOne) {
  const Resize half = Of(Resize::Mode::kLinear, Resize::Coordinates::kHalfPixel, 1, 0.25f);
  const Resize torch = Of(Resize::Mode::kLinear, Resize::Coordinates::kPytorchHalfPixel, 1, 0.25f);
  EXPECT_THAT(Resized(half, {1, 1, 1, 4}, {1, 2, 3, 4}, {1, 1, 1, 1}), ElementsAre(2.5f));
  EXPECT_THAT(Resized(torch, {1, 1, 1, 4}, {1, 2, 3, 4}, {1, 1, 1, 1}), ElementsAre(1));
}

TEST(ResizeTest, CubicMatchesTheSpecification) {
  const Resize resize = Of(Resize::Mode::kCubic, Resize::Coordinates::kHalfPixel, 2, 2);
  std::vector<float> x;
  for (int i = 1; i <= 16; ++i) x.push_back(static_cast<float>(i));
  std::vector<float> y = Resized(resize, {1, 1, 4, 4}, x, {1, 1, 8, 8});
  y.resize(8);
  EXPECT_THAT(y, Pointwise(FloatNear(1e-6f),
                           std::vector<float>{0.47265625f, 0.76953125f, 1.24609375f, 1.875f,
                                              2.28125f, 2.91015625f, 3.38671875f, 3.68359375f}));
}

}  // namespace
}  // namespace sluice::reference
