// engine/weight_encoder.h
//
// The way onto the disk of weight_encoding.h: packs an extent, stores those of its runs narrower
// that can be, and measures by how much that changes them.
//
// What a file has in 16 bits must come back bit for bit: where one float of such a run would not
// (a product with its scale that left the range of fp32), the run stays as it is. So does a run
// that is to be rounded when it holds what is no number, or would overflow.

#ifndef SLUICE_ENGINE_WEIGHT_ENCODER_H_
#define SLUICE_ENGINE_WEIGHT_ENCODER_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/bytes.h"
#include "base/ids.h"
#include "engine/program.h"
#include "engine/weight_encoding.h"

namespace sluice {

// By how much rounding changed weights, over all that were rounded.
struct WeightError {
  double largest = 0;  // Of one weight, relative to the largest magnitude in its channel.
  double rms = 0;      // Root of the sum of squares, relative to that of the weights.
};

// "none was changed", or what they are off by.
std::string ErrorText(const WeightError& error);

// Sums, so that extents add up.
struct WeightErrorSums {
  double largest = 0;
  double squares = 0, error_squares = 0;
  void Add(const WeightErrorSums& other);
  WeightError error() const;
};

struct PackedExtent {
  Bytes stored;  // Bytes on the disk, without the zeros that fill the page.
  std::vector<EncodedRun> runs = {};
  WeightErrorSums error = {};
};

// What lies on the disk of an extent whose place in memory is `pages`: the front of it where it is
// stored as packed, otherwise the end.
std::span<std::byte> StoredPages(std::span<std::byte> pages, const PackedExtent& packed);

// Packs the extent into `pages` and narrows it there; in StoredPages what is not stored is zero.
// On the compute team's thread, as Program::Pack.
// Requires: pages.size() is the extent's size in whole pages.
// Memory: Program::pack_memory beside `pages`, and some KiB for the scales of a group.
// Fails: as Program::Pack.
absl::StatusOr<PackedExtent> PackExtent(Program& program, ExtentIndex extent, WeightStorage storage,
                                        std::span<std::byte> pages);

// The number in 16 bits that is nearest, ties to even; beyond the largest, infinity. A NaN keeps
// the upper bits of its payload.
std::uint16_t ToFloat16(float value);
std::uint16_t ToBfloat16(float value);

}  // namespace sluice

#endif  // SLUICE_ENGINE_WEIGHT_ENCODER_H_
