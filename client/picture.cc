#include "client/picture.h"

#include <algorithm>
#include <cmath>
#include <span>

namespace sluice {
namespace {

// Which source pixels make one pixel of the result, along one side.
struct Taps {
  std::size_t first = 0;
  std::vector<float> weights;  // Sum 1.
};

// A triangle filter around the centre of each result pixel, at least one source pixel wide.
std::vector<Taps> TapsOf(std::size_t from, std::size_t to) {
  const double step = static_cast<double>(from) / static_cast<double>(to);
  const double reach = std::max(1.0, step);
  std::vector<Taps> all(to);
  for (std::size_t i = 0; i < to; ++i) {
    const double centre = (static_cast<double>(i) + 0.5) * step - 0.5;
    const double last = static_cast<double>(from - 1);
    const auto begin = static_cast<std::size_t>(std::clamp(std::ceil(centre - reach), 0.0, last));
    const auto end = static_cast<std::size_t>(std::clamp(std::floor(centre + reach), 0.0, last));
    Taps& taps = all[i];
    taps.first = begin;
    double sum = 0;
    for (std::size_t at = begin; at <= end; ++at) {
      const double weight = std::max(0.0, 1.0 - std::abs(static_cast<double>(at) - centre) / reach);
      taps.weights.push_back(static_cast<float>(weight));
      sum += weight;
    }
    for (float& weight : taps.weights) weight = static_cast<float>(weight / sum);
  }
  return all;
}

std::uint8_t ToByte(float value) {
  return static_cast<std::uint8_t>(std::clamp(std::lround(value), 0L, 255L));
}

void SetPixel(std::size_t x, std::size_t y, Colour colour, Picture& picture) {
  if (x >= picture.width || y >= picture.height) return;
  std::copy(colour.begin(), colour.end(),
            picture.rgb.begin() + static_cast<std::ptrdiff_t>((y * picture.width + x) * 3));
}

void FillBox(const Box& box, Colour colour, Picture& picture) {
  for (std::size_t y = box.top; y < std::min(box.bottom, picture.height); ++y) {
    for (std::size_t x = box.left; x < std::min(box.right, picture.width); ++x) {
      SetPixel(x, y, colour, picture);
    }
  }
}

// Digits on a grid of 3 x 5, a row an octal digit, the top row first.
constexpr std::array<unsigned, 10> kDigits = {075557, 026227, 071747, 071717, 055711,
                                              074717, 074757, 071122, 075757, 075717};
constexpr std::size_t kDigitWidth = 3, kDigitHeight = 5;

}  // namespace

Picture Resize(const Picture& picture, std::size_t width, std::size_t height) {
  if (width == picture.width && height == picture.height) return picture;
  const std::vector<Taps> columns = TapsOf(picture.width, width);
  const std::vector<Taps> rows = TapsOf(picture.height, height);
  Picture result{.width = width, .height = height, .rgb = {}};
  result.rgb.resize(width * height * 3);
  // One result row at a time: first the source rows mixed, then their columns.
  std::vector<float> mixed(picture.width * 3);
  for (std::size_t y = 0; y < height; ++y) {
    std::fill(mixed.begin(), mixed.end(), 0.0f);
    for (std::size_t k = 0; k < rows[y].weights.size(); ++k) {
      const std::uint8_t* source = picture.rgb.data() + (rows[y].first + k) * picture.width * 3;
      for (std::size_t i = 0; i < mixed.size(); ++i) {
        mixed[i] += rows[y].weights[k] * static_cast<float>(source[i]);
      }
    }
    for (std::size_t x = 0; x < width; ++x) {
      for (std::size_t channel = 0; channel < 3; ++channel) {
        float sum = 0;
        for (std::size_t k = 0; k < columns[x].weights.size(); ++k) {
          sum += columns[x].weights[k] * mixed[(columns[x].first + k) * 3 + channel];
        }
        result.rgb[(y * width + x) * 3 + channel] = ToByte(sum);
      }
    }
  }
  return result;
}

void DrawBox(const Box& box, std::size_t thickness, Colour colour, Picture& picture) {
  const std::size_t across = std::min(thickness, box.width());
  const std::size_t down = std::min(thickness, box.height());
  FillBox({box.left, box.top, box.right, box.top + down}, colour, picture);
  FillBox({box.left, box.bottom - down, box.right, box.bottom}, colour, picture);
  FillBox({box.left, box.top, box.left + across, box.bottom}, colour, picture);
  FillBox({box.right - across, box.top, box.right, box.bottom}, colour, picture);
}

std::size_t NumberWidth(std::size_t number, std::size_t scale) {
  return (std::to_string(number).size() * (kDigitWidth + 1) + 1) * scale;
}

void DrawNumber(std::size_t number, std::size_t left, std::size_t top, std::size_t scale,
                Colour colour, Picture& picture) {
  const std::string digits = std::to_string(number);
  FillBox({left, top, left + NumberWidth(number, scale), top + (kDigitHeight + 2) * scale}, colour,
          picture);
  constexpr Colour kWhite = {255, 255, 255};
  for (std::size_t i = 0; i < digits.size(); ++i) {
    const unsigned rows = kDigits[static_cast<std::size_t>(digits[i] - '0')];
    for (std::size_t y = 0; y < kDigitHeight; ++y) {
      for (std::size_t x = 0; x < kDigitWidth; ++x) {
        if ((rows >> (3 * (kDigitHeight - 1 - y) + (kDigitWidth - 1 - x)) & 1u) == 0) continue;
        const std::size_t at_x = left + (1 + i * (kDigitWidth + 1) + x) * scale;
        const std::size_t at_y = top + (1 + y) * scale;
        FillBox({at_x, at_y, at_x + scale, at_y + scale}, kWhite, picture);
      }
    }
  }
}

}  // namespace sluice
