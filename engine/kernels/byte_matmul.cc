// Matrix products of bytes in tiles. Of the two operands one is the filters, whose rows lie along
// the depth in memory; the other is packed, 64 of its rows or columns at a time:
//
//   b [K, N]: the filters are the rows of a, the pixels the columns of b
//   b [N, K]: the filters are the rows of b, the pixels the rows of a
//
// With f the filters as signed and p the pixels as unsigned bytes, and their zero points moved
// alike: sum (f - zf)(p - zp) = sum f p - zp sum f - zf sum p + K zf zp.

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "engine/kernels/byte_output.h"
#include "engine/kernels/byte_tiles.h"
#include "engine/kernels/integer_product.h"
#include "engine/kernels/parallel.h"

namespace sluice::kernels {
namespace {

// What of a product is worth an element of ParallelFor: two million are worth waking the team for.
constexpr std::size_t kProductsPerElement = 128;

struct Operand {
  bool is_signed = false;
  bool one_zero = true;
  std::size_t input = 0, zero_input = 0;  // Of the node.
  std::size_t elements = 0;               // Of all its matrices.
};

struct TiledMatMul {
  const ByteTiles& tiles;
  IntegerProduct product;
  bool filters_are_b = false;
  Operand filter = {}, pixel = {};
  std::size_t team = 1;

  std::size_t depth() const { return static_cast<std::size_t>(product.depth); }
  std::size_t filter_count() const {
    return static_cast<std::size_t>(filters_are_b ? product.columns : product.rows);
  }
  std::size_t pixel_count() const {
    return static_cast<std::size_t>(filters_are_b ? product.rows : product.columns);
  }
  std::size_t packed_bytes() const { return (depth() + kTileRows - 1) / kTileRows * kPackedBytes; }
  static std::size_t Aligned(std::size_t bytes) { return (bytes + 63) / 64 * 64; }
  // Sums of the filters, filters as signed bytes, ones, then a packed tile for each worker.
  std::size_t sums_at() const { return 0; }
  std::size_t signed_at() const {
    return Aligned(filter.elements / depth() * sizeof(std::int32_t));
  }
  std::size_t ones_at() const {
    return signed_at() + (filter.is_signed ? 0 : Aligned(filter.elements));
  }
  std::size_t packed_at() const { return ones_at() + Aligned(depth()); }
  std::size_t scratch() const { return packed_at() + team * packed_bytes(); }

  struct Given {
    const std::int8_t* filters;
    const std::int32_t* filter_sums;
    const std::int8_t* ones;
    const std::byte* pixels;
    const std::byte *filter_zeros, *pixel_zeros;
    std::uint32_t* y;
  };

  // A zero point, moved as its operand is.
  static std::int32_t Zero(const Operand& operand, const std::byte* zeros, std::size_t i,
                           bool as_signed) {
    const std::byte byte = zeros == nullptr ? std::byte{} : zeros[operand.one_zero ? 0 : i];
    const std::int32_t zero = operand.is_signed ? std::to_integer<std::int8_t>(byte)
                                                : std::to_integer<std::uint8_t>(byte);
    if (as_signed == operand.is_signed) return zero;
    return as_signed ? zero - 128 : zero + 128;
  }

  void operator()(std::span<const std::byte* const> inputs, std::byte* to,
                  std::byte* memory) const {
    const auto at = [&](std::size_t i) { return i < inputs.size() ? inputs[i] : nullptr; };
    auto* sums = reinterpret_cast<std::int32_t*>(memory + sums_at());
    auto* ones = reinterpret_cast<std::int8_t*>(memory + ones_at());
    std::fill_n(ones, depth(), std::int8_t{1});
    Given given{.filters = reinterpret_cast<const std::int8_t*>(inputs[filter.input]),
                .filter_sums = sums,
                .ones = ones,
                .pixels = inputs[pixel.input],
                .filter_zeros = at(filter.zero_input),
                .pixel_zeros = at(pixel.zero_input),
                .y = reinterpret_cast<std::uint32_t*>(to)};
    if (!filter.is_signed) given.filters = MoveFilters(inputs[filter.input], memory + signed_at());
    ParallelFor(filter.elements / depth(), filter.elements / kTileRows,
                [&](std::size_t begin, std::size_t end) {
                  for (std::size_t f = begin; f < end; ++f) {
                    std::int32_t sum = 0;
                    for (std::size_t k = 0; k < depth(); ++k) sum += given.filters[f * depth() + k];
                    sums[f] = sum;
                  }
                });
    const std::size_t tile_count = (pixel_count() + kTilePixels - 1) / kTilePixels;
    const std::size_t units = product.batches.size() * tile_count;
    const std::size_t most = (filter_count() + kTileChannels - 1) / kTileChannels;
    const std::size_t parts = units >= 2 * team ? 1 : std::min(most, 2 * team);
    ParallelForWorkers(
        units * parts, units * kTilePixels * filter_count() * depth() / kProductsPerElement, team,
        [&](std::size_t begin, std::size_t end, std::size_t worker) {
          std::byte* packed = memory + packed_at() + worker * packed_bytes();
          for (std::size_t i = begin; i < end; ++i) {
            const std::size_t unit = i / parts, part = i % parts;
            const std::size_t batch = unit / tile_count;
            const std::size_t first = unit % tile_count * kTilePixels;
            if (i == begin || part == 0) PackTile(given, batch, first, packed);
            Multiply(given, batch, first,
                     {most * part / parts * kTileChannels,
                      std::min(filter_count(), most * (part + 1) / parts * kTileChannels)},
                     packed);
          }
        });
  }

  const std::int8_t* MoveFilters(const std::byte* from, std::byte* to) const {
    ParallelFor(filter.elements, filter.elements, [&](std::size_t begin, std::size_t end) {
      for (std::size_t i = begin; i < end; ++i) to[i] = from[i] ^ std::byte{0x80};
    });
    return reinterpret_cast<const std::int8_t*>(to);
  }

  // Where the matrices of a batch start.
  std::size_t StartOf(std::size_t batch, bool of_b) const {
    const auto [a, b] = product.batches[batch];
    return static_cast<std::size_t>(of_b ? b : a);
  }

  void PackTile(const Given& given, std::size_t batch, std::size_t first, std::byte* packed) const {
    const std::size_t step =
        static_cast<std::size_t>(filters_are_b ? product.a_depth : product.b_depth);
    const std::size_t along =
        static_cast<std::size_t>(filters_are_b ? product.a_row : product.b_column);
    const std::size_t start = StartOf(batch, !filters_are_b) + first * along;
    const std::size_t count = std::min(kTilePixels, pixel_count() - first);
    alignas(64) std::array<std::byte, kTileRows* kTilePixels> gathered = {};
    std::array<const std::byte*, kTileRows> four = {};
    for (std::size_t k = 0; k < depth(); k += kTileRows) {
      for (std::size_t i = 0; i < kTileRows; ++i) {
        four[i] = nullptr;
        if (k + i >= depth()) continue;
        const std::size_t begin = start + (k + i) * step;
        if (along == 1 && begin + kTilePixels <= pixel.elements) {
          four[i] = given.pixels + begin;
          continue;
        }
        std::byte* row = gathered.data() + i * kTilePixels;
        for (std::size_t p = 0; p < count; ++p) row[p] = given.pixels[begin + p * along];
        four[i] = row;
      }
      tiles.pack(four.data(), pixel.is_signed, packed + k / kTileRows * kPackedBytes);
    }
  }

  using Sums = std::array<std::int32_t, kTileChannels * kTilePixels>;

  void Multiply(const Given& given, std::size_t batch, std::size_t first,
                std::pair<std::size_t, std::size_t> range, const std::byte* packed) const {
    alignas(64) Sums sums, totals;  // Totals: of each pixel.
    tiles.multiply(packed, given.ones, depth(), 1, totals.data());
    const std::size_t start = StartOf(batch, filters_are_b);
    for (std::size_t f = range.first; f < range.second; f += kTileChannels) {
      const std::size_t together = std::min(kTileChannels, range.second - f);
      tiles.multiply(packed, given.filters + start + f * depth(), depth(), together, sums.data());
      for (std::size_t i = 0; i < together; ++i) {
        Finish(given, batch, first, f + i, sums.data() + i * kTilePixels, totals.data());
      }
    }
  }

  void Finish(const Given& given, std::size_t batch, std::size_t first, std::size_t f,
              const std::int32_t* sums, const std::int32_t* totals) const {
    const std::size_t count = std::min(kTilePixels, pixel_count() - first);
    const auto columns = static_cast<std::size_t>(product.columns);
    std::uint32_t* y = given.y + batch * static_cast<std::size_t>(product.rows) * columns;
    y += filters_are_b ? first * columns + f : f * columns + first;
    const std::size_t step = filters_are_b ? columns : 1;
    const std::size_t row = StartOf(batch, filters_are_b) / depth() + f;
    const auto filter_sum = static_cast<std::uint32_t>(given.filter_sums[row]);
    const auto zf = static_cast<std::uint32_t>(Zero(filter, given.filter_zeros, f, true));
    const std::uint32_t less = filter_sum - static_cast<std::uint32_t>(depth()) * zf;
    for (std::size_t p = 0; p < count; ++p) {
      const auto zp = static_cast<std::uint32_t>(Zero(pixel, given.pixel_zeros, first + p, false));
      y[p * step] = static_cast<std::uint32_t>(sums[p]) - zp * less -
                    zf * static_cast<std::uint32_t>(totals[p]);
    }
  }
};

Operand OperandOf(const Problem& problem, std::size_t input) {
  const Value& value = problem.input(input);
  Operand operand{.is_signed = value.type == DataType::kInt8,
                  .input = input,
                  .zero_input = input + 2,
                  .elements = static_cast<std::size_t>(ElementCount(value.shape))};
  const std::vector<std::optional<ValueId>>& inputs = problem.node.inputs;
  operand.one_zero = operand.zero_input >= inputs.size() || !inputs[operand.zero_input] ||
                     ElementCount(problem.input(operand.zero_input).shape) == 1;
  return operand;
}

}  // namespace

std::optional<Kernel> MakeTiled(const MatMul& operation, const IntegerProduct& product,
                                const Problem& problem) {
  const ByteTiles* tiles = ByteTilesFor(problem.loops);
  const bool lies_well = operation.transposed_b || !operation.transposed_a;
  if (tiles == nullptr || !lies_well || product.depth == 0 || problem.count() == 0) {
    return std::nullopt;
  }
  const std::size_t filters = operation.transposed_b ? 1 : 0;
  TiledMatMul run{.tiles = *tiles,
                  .product = product,
                  .filters_are_b = operation.transposed_b,
                  .filter = OperandOf(problem, filters),
                  .pixel = OperandOf(problem, 1 - filters),
                  .team = TeamSize()};
  Kernel kernel;
  kernel.name = problem.KernelName("tiles of bytes");
  kernel.scratch = Bytes::Of(run.scratch());
  kernel.run = [run = std::move(run)](std::span<const std::byte* const> inputs, std::byte* output,
                                      std::byte* scratch) { run(inputs, output, scratch); };
  return kernel;
}

}  // namespace sluice::kernels
