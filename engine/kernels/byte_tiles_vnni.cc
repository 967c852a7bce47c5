#include <immintrin.h>

#include "engine/kernels/byte_tiles.h"

// Sums stay in registers only where every loop over them is unrolled before anything else happens.
#ifdef __clang__
#define SLUICE_UNROLLED _Pragma("unroll")
#else
#define SLUICE_UNROLLED _Pragma("GCC unroll 8")
#endif

namespace sluice::kernels {
namespace {

void Pack(const std::byte* const rows[kTileRows], bool is_signed, std::byte* packed) {
  const __m512i moved = _mm512_set1_epi8(is_signed ? static_cast<char>(-128) : 0);
  __m512i row[kTileRows];
  for (std::size_t i = 0; i < kTileRows; ++i) {
    row[i] = rows[i] == nullptr ? _mm512_setzero_si512()
                                : _mm512_xor_si512(_mm512_loadu_si512(rows[i]), moved);
  }
  // Pairs, then fours; in each quarter of a vector the pixels of that quarter.
  const __m512i low01 = _mm512_unpacklo_epi8(row[0], row[1]);
  const __m512i high01 = _mm512_unpackhi_epi8(row[0], row[1]);
  const __m512i low23 = _mm512_unpacklo_epi8(row[2], row[3]);
  const __m512i high23 = _mm512_unpackhi_epi8(row[2], row[3]);
  _mm512_storeu_si512(packed, _mm512_unpacklo_epi16(low01, low23));
  _mm512_storeu_si512(packed + 64, _mm512_unpackhi_epi16(low01, low23));
  _mm512_storeu_si512(packed + 128, _mm512_unpacklo_epi16(high01, high23));
  _mm512_storeu_si512(packed + 192, _mm512_unpackhi_epi16(high01, high23));
}

// Puts the quarters of four vectors, as Pack left them, into the order of the pixels.
inline __attribute__((always_inline)) void StoreInOrder(const __m512i sums[4], std::int32_t* to) {
  const __m512i low01 = _mm512_shuffle_i32x4(sums[0], sums[1], 0x44);   // 0a 0b 1a 1b
  const __m512i high01 = _mm512_shuffle_i32x4(sums[0], sums[1], 0xee);  // 0c 0d 1c 1d
  const __m512i low23 = _mm512_shuffle_i32x4(sums[2], sums[3], 0x44);
  const __m512i high23 = _mm512_shuffle_i32x4(sums[2], sums[3], 0xee);
  _mm512_storeu_si512(to, _mm512_shuffle_i32x4(low01, low23, 0x88));
  _mm512_storeu_si512(to + 16, _mm512_shuffle_i32x4(low01, low23, 0xdd));
  _mm512_storeu_si512(to + 32, _mm512_shuffle_i32x4(high01, high23, 0x88));
  _mm512_storeu_si512(to + 48, _mm512_shuffle_i32x4(high01, high23, 0xdd));
}

// _mm512_dpbusd_epi32, for which GCC 12 copies and spills the sums of a loop.
inline __attribute__((always_inline)) void AddProducts(__m512i& sum, __m512i bytes, __m512i by) {
  asm("vpdpbusd %2, %1, %0" : "+v"(sum) : "v"(bytes), "v"(by));
}

template <std::size_t channels>
void MultiplyBy(const std::byte* packed, const std::int8_t* weights, std::size_t depth,
                std::int32_t* sums) {
  // The weights of a last step that has fewer than four: no byte behind them is read.
  std::int8_t rest[channels * kTileRows] = {};
  const std::size_t whole = depth / kTileRows, steps = (depth + kTileRows - 1) / kTileRows;
  for (std::size_t m = 0; m < channels; ++m) {
    for (std::size_t k = whole * kTileRows; k < depth; ++k) {
      rest[m * kTileRows + k % kTileRows] = weights[m * depth + k];
    }
  }
  __m512i sum[channels][4];
  SLUICE_UNROLLED
  for (std::size_t m = 0; m < channels; ++m) {
    SLUICE_UNROLLED
    for (std::size_t j = 0; j < 4; ++j) sum[m][j] = _mm512_setzero_si512();
  }
  const std::int8_t* from = weights;
  std::size_t stride = depth;
  for (std::size_t step = 0; step < steps; ++step) {
    if (step == whole) {
      from = rest;
      stride = kTileRows;
    }
    __m512i row[4];
    SLUICE_UNROLLED
    for (std::size_t j = 0; j < 4; ++j) row[j] = _mm512_loadu_si512(packed + 64 * j);
    SLUICE_UNROLLED
    for (std::size_t m = 0; m < channels; ++m) {
      std::int32_t four = 0;
      __builtin_memcpy(&four, from + m * stride, kTileRows);
      const __m512i by = _mm512_set1_epi32(four);
      SLUICE_UNROLLED
      for (std::size_t j = 0; j < 4; ++j) AddProducts(sum[m][j], row[j], by);
    }
    from += kTileRows;
    packed += kPackedBytes;
  }
  SLUICE_UNROLLED
  for (std::size_t m = 0; m < channels; ++m) StoreInOrder(sum[m], sums + m * kTilePixels);
}

void Multiply(const std::byte* packed, const std::int8_t* weights, std::size_t depth,
              std::size_t channels, std::int32_t* sums) {
  switch (channels) {
    case 1:
      return MultiplyBy<1>(packed, weights, depth, sums);
    case 2:
      return MultiplyBy<2>(packed, weights, depth, sums);
    case 3:
      return MultiplyBy<3>(packed, weights, depth, sums);
    case 4:
      return MultiplyBy<4>(packed, weights, depth, sums);
    case 5:
      return MultiplyBy<5>(packed, weights, depth, sums);
    default:
      return MultiplyBy<kTileChannels>(packed, weights, depth, sums);
  }
}

void Finish(const ByteFinish& finish, const std::int32_t* sums, std::size_t count, std::byte* y) {
  const __m512i base = _mm512_set1_epi32(finish.base), zero = _mm512_set1_epi32(finish.zero);
  const __m512 factor = _mm512_set1_ps(finish.factor);
  const __m512 low = _mm512_set1_ps(finish.low), high = _mm512_set1_ps(finish.high);
  const __m512 least = _mm512_set1_ps(static_cast<float>(finish.least - finish.zero));
  const __m512 most = _mm512_set1_ps(static_cast<float>(finish.least + 255 - finish.zero));
  for (std::size_t i = 0; i < count; i += 16) {
    const __m512i sum = _mm512_add_epi32(_mm512_loadu_si512(sums + i), base);
    // A bound that comes first lets NaN through; one that comes second takes its place.
    __m512 v = _mm512_mul_ps(_mm512_cvtepi32_ps(sum), factor);
    v = _mm512_min_ps(high, _mm512_max_ps(low, v));
    v = _mm512_min_ps(_mm512_max_ps(v, least), most);
    const __m512i rounded = _mm512_add_epi32(_mm512_cvtps_epi32(v), zero);
    const std::size_t left = count - i < 16 ? count - i : 16;
    _mm_mask_storeu_epi8(y + i, static_cast<__mmask16>((1U << left) - 1U),
                         _mm512_cvtepi32_epi8(rounded));
  }
}

constexpr ByteTiles kTiles = {&Pack, &Multiply, &Finish};

}  // namespace

const ByteTiles* VnniByteTiles() { return &kTiles; }

}  // namespace sluice::kernels
