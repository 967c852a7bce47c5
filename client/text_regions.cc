#include "client/text_regions.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <span>

#include "absl/status/status.h"
#include "absl/strings/str_format.h"
#include "base/status_macros.h"

namespace sluice {
namespace {

struct Map {
  std::size_t width = 0, height = 0;
  std::vector<float> values;
};

absl::StatusOr<Map> ReadMap(const Tensor& tensor) {
  const std::span<const std::int64_t> shape = tensor.shape;
  const bool one_map =
      shape.size() >= 2 &&
      std::ranges::all_of(shape.first(shape.size() - 2), [](std::int64_t d) { return d == 1; });
  const absl::StatusOr<std::uint64_t> bytes = TensorBytes(tensor.datatype, shape);
  if (tensor.datatype != "FP32" || !one_map || !bytes.ok() || *bytes != tensor.data.size() ||
      *bytes == 0) {
    return absl::InvalidArgumentError(absl::StrFormat(
        "output \"%s\" is not a map of text: got %s %s, want FP32 [1, 1, height, width]",
        tensor.name, tensor.datatype, FormatShape(shape)));
  }
  Map map{.width = static_cast<std::size_t>(shape.back()),
          .height = static_cast<std::size_t>(shape[shape.size() - 2]),
          .values = {}};
  map.values.resize(map.width * map.height);
  std::memcpy(map.values.data(), tensor.data.data(), tensor.data.size());
  return map;
}

struct Component {
  Box box;
  double sum = 0;
  std::size_t places = 0;
};

// The places that touch `start` and lie above the threshold; they are marked in `seen`.
Component Collect(const Map& map, std::size_t start, double threshold, std::vector<bool>& seen,
                  std::vector<std::size_t>& open) {
  Component component;
  component.box = {map.width, map.height, 0, 0};
  open.assign(1, start);
  seen[start] = true;
  while (!open.empty()) {
    const std::size_t at = open.back();
    open.pop_back();
    const std::size_t x = at % map.width, y = at / map.width;
    Box& box = component.box;
    box = {std::min(box.left, x), std::min(box.top, y), std::max(box.right, x + 1),
           std::max(box.bottom, y + 1)};
    component.sum += map.values[at];
    ++component.places;
    for (std::size_t ny = y == 0 ? 0 : y - 1; ny <= std::min(y + 1, map.height - 1); ++ny) {
      for (std::size_t nx = x == 0 ? 0 : x - 1; nx <= std::min(x + 1, map.width - 1); ++nx) {
        const std::size_t next = ny * map.width + nx;
        if (seen[next] || !(map.values[next] > threshold)) continue;
        seen[next] = true;
        open.push_back(next);
      }
    }
  }
  return component;
}

// Grown by what the map has shrunk, within the map, and scaled to the picture.
Box ToPicture(const Box& box, const Map& map, std::size_t width, std::size_t height, double grow) {
  const auto sides = static_cast<double>(box.width() + box.height());
  const double by = static_cast<double>(box.width() * box.height()) * grow / (2 * sides);
  const double across = static_cast<double>(width) / static_cast<double>(map.width);
  const double down = static_cast<double>(height) / static_cast<double>(map.height);
  const auto place = [](double value, double factor, std::size_t most) {
    return static_cast<std::size_t>(
        std::clamp(std::round(value * factor), 0.0, static_cast<double>(most)));
  };
  return {place(static_cast<double>(box.left) - by, across, width),
          place(static_cast<double>(box.top) - by, down, height),
          place(static_cast<double>(box.right) + by, across, width),
          place(static_cast<double>(box.bottom) + by, down, height)};
}

// Reading order: a region whose middle lies beside the first one of a line belongs to the line.
void SortAsRead(std::vector<TextRegion>& regions) {
  std::ranges::stable_sort(regions, {}, [](const TextRegion& r) { return r.box.top; });
  auto line = regions.begin();
  while (line != regions.end()) {
    const std::size_t bottom = line->box.bottom;
    const auto end = std::find_if(line + 1, regions.end(), [&](const TextRegion& region) {
      return (region.box.top + region.box.bottom) / 2 >= bottom;
    });
    std::stable_sort(line, end, [](const TextRegion& a, const TextRegion& b) {
      return a.box.left < b.box.left;
    });
    line = end;
  }
}

}  // namespace

absl::StatusOr<std::vector<TextRegion>> FindTextRegions(const Tensor& tensor,
                                                        std::size_t picture_width,
                                                        std::size_t picture_height,
                                                        const TextRegionOptions& options) {
  SLUICE_ASSIGN_OR_RETURN(const Map map, ReadMap(tensor));
  std::vector<TextRegion> regions;
  std::vector<bool> seen(map.values.size());
  std::vector<std::size_t> open;
  for (std::size_t i = 0; i < map.values.size(); ++i) {
    if (seen[i] || !(map.values[i] > options.threshold)) continue;
    const Component component = Collect(map, i, options.threshold, seen, open);
    const double score = component.sum / static_cast<double>(component.places);
    if (std::min(component.box.width(), component.box.height()) < options.least_side ||
        score < options.least_score) {
      continue;
    }
    regions.push_back(
        {ToPicture(component.box, map, picture_width, picture_height, options.grow), score});
  }
  SortAsRead(regions);
  return regions;
}

std::string DescribeTextRegions(const std::vector<TextRegion>& regions) {
  if (regions.empty()) return "no text regions\n";
  std::string text =
      absl::StrFormat("%d text region%s:\n", regions.size(), regions.size() == 1 ? "" : "s");
  for (std::size_t i = 0; i < regions.size(); ++i) {
    const Box& box = regions[i].box;
    absl::StrAppendFormat(&text, "  %2d. at x=%d y=%d, %d x %d pixels, score %.2f\n", i + 1,
                          box.left, box.top, box.width(), box.height(), regions[i].score);
  }
  return text;
}

void DrawTextRegions(const std::vector<TextRegion>& regions, Picture& picture) {
  constexpr Colour kRed = {214, 40, 40};
  const std::size_t side = std::min(picture.width, picture.height);
  const std::size_t scale = std::max<std::size_t>(1, side / 160);
  const std::size_t line = std::max<std::size_t>(1, side / 150);
  for (std::size_t i = 0; i < regions.size(); ++i) {
    const Box& box = regions[i].box;
    DrawBox(box, line, kRed, picture);
    // Beside the box where there is room, so that it hides no text.
    const std::size_t width = NumberWidth(i + 1, scale);
    DrawNumber(i + 1, box.left >= width ? box.left - width : box.left, box.top, scale, kRed,
               picture);
  }
}

}  // namespace sluice
