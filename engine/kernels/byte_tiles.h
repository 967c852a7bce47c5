// engine/kernels/byte_tiles.h
//
// The innermost loops of convolutions of bytes, for machines whose vectors multiply bytes and add
// the products up (AVX512-VNNI). Like loops.h it is free of inline functions and of includes that
// have any. A tile is kTilePixels pixels side by side of the output:
//
//   rows of a tile          packed: four rows together       sums: a row for each output channel
//   r0  p0 p1 p2 ...        r0p0 r1p0 r2p0 r3p0 r0p1 ...     m0  p0 p1 p2 ...
//   r1  p0 p1 p2 ...        r4p0 ...                         m1  p0 p1 p2 ...
//
// Row k holds what weight k of every output channel is multiplied with.

#ifndef SLUICE_ENGINE_KERNELS_BYTE_TILES_H_
#define SLUICE_ENGINE_KERNELS_BYTE_TILES_H_

#include <cstddef>
#include <cstdint>

namespace sluice::kernels {

inline constexpr std::size_t kTilePixels = 64;
// Rows that are packed together, and bytes that they become.
inline constexpr std::size_t kTileRows = 4, kPackedBytes = kTileRows * kTilePixels;
// Most output channels that are summed up at a time.
inline constexpr std::size_t kTileChannels = 6;

// How sums become bytes. `least` is that of the output's type, and `zero` its zero point.
struct ByteFinish {
  std::int32_t base;
  float factor, low, high;
  std::int32_t zero, least;
};

struct ByteTiles {
  // Packs four rows. Each is kTilePixels bytes, or null for zeros; signed bytes are moved by 128.
  void (*pack)(const std::byte* const rows[kTileRows], bool is_signed, std::byte* packed);
  // sums[m * kTilePixels + p] = sum over k of packed[k][p] (unsigned) * weights[m * depth + k]
  // (signed), for `channels` m. Reads no weight behind the last. Requires: 1 to kTileChannels.
  void (*multiply)(const std::byte* packed, const std::int8_t* weights, std::size_t depth,
                   std::size_t channels, std::int32_t* sums);
  // y[i] = saturate(round half to even(bounded((sums[i] + base) * factor)) + zero), as
  // ByteOutput::Write has it. Requires: count <= kTilePixels, and that many sums to read.
  void (*finish)(const ByteFinish& finish, const std::int32_t* sums, std::size_t count,
                 std::byte* y);
};

struct Loops;
// Those that belong to the same instruction set; null where this build or machine has none.
const ByteTiles* ByteTilesFor(const Loops& loops);
// Requires: the machine has AVX512-VNNI.
const ByteTiles* VnniByteTiles();

}  // namespace sluice::kernels

#endif  // SLUICE_ENGINE_KERNELS_BYTE_TILES_H_
