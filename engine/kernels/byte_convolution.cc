// Convolutions of bytes in tiles: the pixels of a tile are gathered for every weight of a filter,
// four weights together, and all filters go over them. Weights stay in the order of the file.

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>
#include <vector>

#include "base/status_macros.h"
#include "engine/kernels/byte_output.h"
#include "engine/kernels/byte_tiles.h"
#include "engine/kernels/parallel.h"
#include "model/host_tensor.h"

namespace sluice::kernels {
namespace {

// One spatial dimension.
struct Axis {
  std::int64_t in = 1, out = 1, kernel = 1, stride = 1, dilation = 1, pad = 0;

  std::int64_t Source(std::int64_t at, std::int64_t tap) const {
    return at * stride + tap * dilation - pad;
  }
};

// Pixels of a tile that lie in one row of the output.
struct Segment {
  std::int64_t row, column, count, at;  // `at`: in the tile.
};

struct TiledConvolution {
  const ByteTiles& tiles;
  ByteOutput output = {};
  bool is_signed = false;
  Axis rows = {}, columns = {};
  std::size_t images = 0, groups = 0, sources = 0, results = 0;  // Channels of one group.
  std::size_t team = 1;

  std::size_t taps() const { return static_cast<std::size_t>(rows.kernel * columns.kernel); }
  std::size_t depth() const { return sources * taps(); }
  std::size_t pixels() const { return static_cast<std::size_t>(rows.out * columns.out); }
  std::size_t plane() const { return static_cast<std::size_t>(rows.in * columns.in); }
  std::size_t channels() const { return groups * results; }
  std::size_t packed_bytes() const { return (depth() + kTileRows - 1) / kTileRows * kPackedBytes; }
  std::size_t base_bytes() const { return (channels() * sizeof(std::int32_t) + 63) / 64 * 64; }
  std::size_t scratch() const { return base_bytes() + team * packed_bytes(); }

  struct Given {
    const std::byte* x;
    const std::int8_t* weights;
    const std::int32_t* bias;
    const float* factors;
    const std::byte *zero, *output_zero;
  };

  // What is added to every sum of a channel: its bias, less what the zero point of x has brought
  // in. Sums wrap around as two's complement does.
  void FillBases(const Given& given, std::int32_t* bases) const {
    const std::uint32_t zero = Moved(given.zero == nullptr ? std::byte{} : *given.zero);
    ParallelFor(channels(), channels() * depth(), [&](std::size_t begin, std::size_t end) {
      for (std::size_t m = begin; m < end; ++m) {
        const std::int8_t* weights = given.weights + m * depth();
        std::int32_t sum = 0;
        for (std::size_t k = 0; k < depth(); ++k) sum += weights[k];
        const std::uint32_t bias =
            given.bias == nullptr ? 0 : static_cast<std::uint32_t>(given.bias[m]);
        bases[m] = static_cast<std::int32_t>(bias - zero * static_cast<std::uint32_t>(sum));
      }
    });
  }

  // A byte of x as an unsigned number; signed ones are moved by 128.
  std::uint32_t Moved(std::byte byte) const {
    return std::to_integer<std::uint32_t>(is_signed ? byte ^ std::byte{0x80} : byte);
  }

  void operator()(std::span<const std::byte* const> inputs, std::byte* to,
                  std::byte* scratch_memory) const {
    const auto at = [&](std::size_t i) { return i < inputs.size() ? inputs[i] : nullptr; };
    const Given given{.x = inputs[0],
                      .weights = reinterpret_cast<const std::int8_t*>(inputs[1]),
                      .bias = reinterpret_cast<const std::int32_t*>(at(2)),
                      .factors = reinterpret_cast<const float*>(at(3)),
                      .zero = at(4),
                      .output_zero = at(6)};
    auto* bases = reinterpret_cast<std::int32_t*>(scratch_memory);
    FillBases(given, bases);
    const std::size_t tile_count = (pixels() + kTilePixels - 1) / kTilePixels;
    const std::size_t units = images * groups * tile_count;
    // Few tiles: threads share one, each with some of its channels.
    const std::size_t most = (results + kTileChannels - 1) / kTileChannels;
    const std::size_t parts = units >= 2 * team ? 1 : std::min(most, 2 * team);
    ParallelForWorkers(
        units * parts, units * kTilePixels * results * depth() / kTileRows, team,
        [&](std::size_t begin, std::size_t end, std::size_t worker) {
          std::byte* packed = scratch_memory + base_bytes() + worker * packed_bytes();
          for (std::size_t i = begin; i < end; ++i) {
            const std::size_t unit = i / parts, part = i % parts;
            const std::size_t plane_group = unit / tile_count;
            const std::size_t first = unit % tile_count * kTilePixels;
            if (i == begin || part == 0) PackTile(given, plane_group, first, packed);
            const std::size_t low = most * part / parts * kTileChannels;
            const std::size_t high = std::min(results, most * (part + 1) / parts * kTileChannels);
            Multiply(given, bases, plane_group, first, {low, high}, packed, to);
          }
        });
  }

  // Pixels [first, first + kTilePixels) of one image's group.
  void PackTile(const Given& given, std::size_t plane_group, std::size_t first,
                std::byte* packed) const {
    std::array<Segment, kTilePixels> places;
    const std::span segments(places.data(), FindSegments(first, places));
    alignas(64) std::array<std::byte, kTileRows* kTilePixels> gathered = {};
    const std::size_t all = images * groups * sources * plane();
    std::array<const std::byte*, kTileRows> four = {};
    for (std::size_t k = 0; k < depth(); k += kTileRows) {
      for (std::size_t i = 0; i < kTileRows; ++i) {
        four[i] = nullptr;
        if (k + i >= depth()) continue;
        const std::size_t begin = (plane_group * sources + (k + i) / taps()) * plane();
        if (IsPointwise() && begin + first + kTilePixels <= all) {
          four[i] = given.x + begin + first;
          continue;
        }
        std::byte* row = gathered.data() + i * kTilePixels;
        Gather(given, begin, static_cast<std::int64_t>((k + i) % taps()), segments, row);
        four[i] = row;
      }
      tiles.pack(four.data(), is_signed, packed + k / kTileRows * kPackedBytes);
    }
  }

  // Each pixel reads the one at its own place.
  bool IsPointwise() const {
    return taps() == 1 && rows.stride == 1 && columns.stride == 1 && rows.pad == 0 &&
           columns.pad == 0 && rows.in == rows.out && columns.in == columns.out;
  }

  std::size_t FindSegments(std::size_t first, std::span<Segment> segments) const {
    std::size_t found = 0;
    const auto end = static_cast<std::int64_t>(std::min(pixels(), first + kTilePixels));
    for (auto p = static_cast<std::int64_t>(first); p < end;) {
      const std::int64_t column = p % columns.out;
      const std::int64_t count = std::min(columns.out - column, end - p);
      segments[found++] = {p / columns.out, column, count, p - static_cast<std::int64_t>(first)};
      p += count;
    }
    return found;
  }

  // What the pixels of a tile read through one tap, in the plane that starts at byte `begin` of x.
  void Gather(const Given& given, std::size_t begin, std::int64_t tap,
              std::span<const Segment> segments, std::byte* row) const {
    const std::byte fill = given.zero == nullptr ? std::byte{} : *given.zero;
    const std::int64_t down = tap / columns.kernel, along = tap % columns.kernel;
    for (const Segment& segment : segments) {
      std::byte* to = row + segment.at;
      const std::int64_t source_row = rows.Source(segment.row, down);
      if (source_row < 0 || source_row >= rows.in) {
        std::fill_n(to, segment.count, fill);
        continue;
      }
      const std::int64_t start = columns.Source(segment.column, along), stride = columns.stride;
      // Pixels [low, high) of the segment read inside.
      const std::int64_t low =
          std::clamp<std::int64_t>((-start + stride - 1) / stride, 0, segment.count);
      const std::int64_t high = std::clamp<std::int64_t>(
          start >= columns.in ? 0 : (columns.in - 1 - start) / stride + 1, low, segment.count);
      std::fill_n(to, low, fill);
      std::fill(to + high, to + segment.count, fill);
      if (low < high) {
        const std::byte* from =
            given.x + begin +
            static_cast<std::size_t>(source_row * columns.in + start + low * stride);
        CopyStrided(from, stride, high - low, to + low);
      }
    }
  }

  static void CopyStrided(const std::byte* from, std::int64_t stride, std::int64_t count,
                          std::byte* to) {
    if (stride == 1) {
      std::memcpy(to, from, static_cast<std::size_t>(count));
      return;
    }
    if (stride == 2) {
      for (std::int64_t i = 0; i < count; ++i) to[i] = from[i * 2];
      return;
    }
    for (std::int64_t i = 0; i < count; ++i) to[i] = from[i * stride];
  }

  using Range = std::pair<std::size_t, std::size_t>;

  void Multiply(const Given& given, const std::int32_t* bases, std::size_t plane_group,
                std::size_t first, Range range, const std::byte* packed, std::byte* to) const {
    alignas(64) std::array<std::int32_t, kTileChannels * kTilePixels> sums;
    const std::size_t count = std::min(kTilePixels, pixels() - first);
    for (std::size_t r = range.first; r < range.second; r += kTileChannels) {
      const std::size_t together = std::min(kTileChannels, range.second - r);
      const std::size_t channel = plane_group % groups * results + r;
      tiles.multiply(packed, given.weights + channel * depth(), depth(), together, sums.data());
      for (std::size_t m = 0; m < together; ++m) {
        const std::size_t at =
            ((plane_group / groups) * channels() + channel + m) * pixels() + first;
        Finish(given, sums.data() + m * kTilePixels, bases[channel + m],
               given.factors == nullptr ? 1.0f : given.factors[channel + m], at, count, to);
      }
    }
  }

  void Finish(const Given& given, std::int32_t* sums, std::int32_t base, float factor,
              std::size_t at, std::size_t count, std::byte* to) const {
    if (output.type == DataType::kInt8 || output.type == DataType::kUint8) {
      const std::byte zero = given.output_zero == nullptr ? std::byte{} : *given.output_zero;
      const bool narrow = output.type == DataType::kInt8;
      const std::int32_t moved =
          narrow ? std::to_integer<std::int8_t>(zero) : std::to_integer<std::uint8_t>(zero);
      tiles.finish({.base = base,
                    .factor = factor,
                    .low = output.low,
                    .high = output.high,
                    .zero = moved,
                    .least = narrow ? -128 : 0},
                   sums, count, to + at);
      return;
    }
    std::array<std::uint32_t, kTilePixels> wrapped;
    for (std::size_t i = 0; i < count; ++i) {
      wrapped[i] = static_cast<std::uint32_t>(sums[i]) + static_cast<std::uint32_t>(base);
    }
    output.Write(wrapped.data(), static_cast<std::int64_t>(count), factor, given.output_zero,
                 static_cast<std::int64_t>(at), to);
  }
};

// Whether zero points are known to be 0.
absl::StatusOr<bool> IsZero(const Problem& problem, std::size_t i) {
  if (i >= problem.node.inputs.size() || !problem.node.inputs[i]) return true;
  if (problem.input(i).constant == nullptr) return false;
  SLUICE_ASSIGN_OR_RETURN(const std::vector<std::int64_t> zeros, ReadIntegers(problem.input(i)));
  return std::ranges::all_of(zeros, [](std::int64_t zero) { return zero == 0; });
}

Axis AxisOf(const Convolution& op, const Shape& x, const Shape& y, std::size_t d) {
  return {.in = x[2 + d],
          .out = y[2 + d],
          .kernel = op.kernel[d],
          .stride = op.strides[d],
          .dilation = op.dilations[d],
          .pad = op.pads_begin[d]};
}

}  // namespace

absl::StatusOr<ByteOutput> ByteOutput::Of(const Convolution& operation, const Problem& problem) {
  ByteOutput output{.type = problem.output().type};
  for (const Epilogue& epilogue : operation.epilogues) {
    const bool relu = epilogue.unary.kind == Unary::Kind::kRelu;
    if (epilogue.kind != Epilogue::Kind::kUnary || operation.epilogues.size() > 1 ||
        (!relu && epilogue.unary.kind != Unary::Kind::kClip)) {
      return absl::UnimplementedError("convolution of bytes: no kernel with this tail");
    }
    output.low = relu ? 0 : epilogue.unary.alpha;
    if (!relu) output.high = epilogue.unary.beta;
  }
  return output;
}

absl::StatusOr<std::optional<Kernel>> MakeTiled(const Convolution& operation,
                                                const Problem& problem) {
  const ByteTiles* tiles = ByteTilesFor(problem.loops);
  const Shape &x = problem.input(0).shape, &y = problem.output().shape;
  if (tiles == nullptr || problem.input(1).type != DataType::kInt8 || x.size() > 4) {
    return std::nullopt;
  }
  SLUICE_ASSIGN_OR_RETURN(const bool symmetric, IsZero(problem, 5));
  if (!symmetric || problem.count() == 0) return std::nullopt;
  const auto groups = static_cast<std::size_t>(operation.groups);
  TiledConvolution run{.tiles = *tiles,
                       .is_signed = problem.input(0).type == DataType::kInt8,
                       .columns = AxisOf(operation, x, y, x.size() - 3),
                       .images = static_cast<std::size_t>(x[0]),
                       .groups = groups,
                       .sources = static_cast<std::size_t>(x[1]) / groups,
                       .results = static_cast<std::size_t>(y[1]) / groups,
                       .team = TeamSize()};
  if (x.size() == 4) run.rows = AxisOf(operation, x, y, 0);
  SLUICE_ASSIGN_OR_RETURN(run.output, ByteOutput::Of(operation, problem));
  if (run.depth() == 0) return std::nullopt;
  Kernel kernel;
  kernel.name = problem.KernelName("tiles of bytes");
  kernel.scratch = Bytes::Of(run.scratch());
  kernel.run = [run](std::span<const std::byte* const> inputs, std::byte* output,
                     std::byte* scratch) { run(inputs, output, scratch); };
  return kernel;
}

}  // namespace sluice::kernels
