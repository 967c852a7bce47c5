// client/text_regions.h
//
// Where text is, from the map that a detector of the DB kind (Liao et al. 2019, arXiv 1911.08947)
// answers: for each place the probability that it is the inside of a line of text.

#ifndef SLUICE_CLIENT_TEXT_REGIONS_H_
#define SLUICE_CLIENT_TEXT_REGIONS_H_

#include <cstddef>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "client/picture.h"
#include "client/tensor.h"

namespace sluice {

struct TextRegion {
  Box box;           // In pixels of the picture.
  double score = 0;  // Mean probability of the region, 0 to 1.
};

struct TextRegionOptions {
  double threshold = 0.3;      // Of one place to belong to a region.
  double least_score = 0.6;    // Of a region to be reported.
  std::size_t least_side = 3;  // Of a region in the map, in places.
  double grow = 1.5;           // The map has shrunk lines; a box grows by area * grow / outline.
};

// Regions of touching places (diagonals too), line by line from the top, in a line from the left.
// `map` has shape [1, 1, height, width] (or without ones in front), FP32.
// Fails: INVALID_ARGUMENT, another type or shape.
// Cost:  O(places) time and memory.
absl::StatusOr<std::vector<TextRegion>> FindTextRegions(const Tensor& map,
                                                        std::size_t picture_width,
                                                        std::size_t picture_height,
                                                        const TextRegionOptions& options);

// "7 text regions:" and a line each: "  1. at x=30 y=18, 120 x 24 pixels, score 0.93".
std::string DescribeTextRegions(const std::vector<TextRegion>& regions);

// Draws every region's box and number into the picture.
void DrawTextRegions(const std::vector<TextRegion>& regions, Picture& picture);

}  // namespace sluice

#endif  // SLUICE_CLIENT_TEXT_REGIONS_H_
