// Convolutions of bytes in tiles. Weights stay in the order of the file. Where a filter is more
// than a point, the input is first laid out so that every tap of a filter reads 64 pixels side by
// side:
//
//   planes, one for each place in a stride, of (out + taps) * stride pixels, padded:
//     stride 1   p p p p p      stride 2   columns 0 2 4 ..   columns 1 3 5 ..   (and so for rows)
//                p a b c p
//                p d e f p      pixel (r, c) of the output reads plane (tap % stride) at
//                p p p p p      (r + tap / stride, c + tap / stride): an offset for each tap
//
// Tiles go over rows of the planes' width; what lies behind the output's width is left out at the
// end.

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

  // Pixels of a plane along it, and how many planes its taps read.
  std::int64_t size() const { return out + (kernel - 1) * dilation / stride; }
  std::int64_t phases() const { return std::min(stride, (kernel - 1) * dilation + 1); }
  bool IsPointwise() const { return kernel == 1 && stride == 1 && pad == 0 && in == out; }
  // Pixels [first, second) of plane `phase` lie in the input, which others pad.
  std::pair<std::int64_t, std::int64_t> Inside(std::int64_t phase) const {
    const std::int64_t first = (pad - phase + stride - 1) / stride;
    const std::int64_t last = in - 1 + pad - phase;
    const std::int64_t end = last < 0 ? 0 : last / stride + 1;
    const std::int64_t low = std::clamp<std::int64_t>(first, 0, size());
    return {low, std::clamp<std::int64_t>(end, low, size())};
  }
};

std::size_t Rounded(std::size_t bytes) { return (bytes + 63) / 64 * 64; }

struct TiledConvolution {
  const ByteTiles& tiles;
  ByteOutput output = {};
  bool is_signed = false;
  Axis rows = {}, columns = {};
  std::size_t images = 0, groups = 0, sources = 0, results = 0;  // Channels of one group.
  std::size_t team = 1;
  bool pointwise = false;
  std::vector<std::size_t> offsets = {};  // Of each tap, in the planes of a channel.

  std::size_t taps() const { return static_cast<std::size_t>(rows.kernel * columns.kernel); }
  std::size_t depth() const { return sources * taps(); }
  std::size_t pixels() const { return static_cast<std::size_t>(rows.out * columns.out); }
  std::size_t in_pixels() const { return static_cast<std::size_t>(rows.in * columns.in); }
  std::size_t channels() const { return groups * results; }
  // What tiles go over: rows of the planes' width.
  std::size_t width() const {
    return pointwise ? pixels() : static_cast<std::size_t>(columns.size());
  }
  std::size_t valid_width() const {
    return pointwise ? pixels() : static_cast<std::size_t>(columns.out);
  }
  std::size_t places() const {
    return pointwise ? pixels() : static_cast<std::size_t>(rows.out) * width();
  }
  std::size_t tile_count() const { return (places() + kTilePixels - 1) / kTilePixels; }
  std::size_t plane() const { return static_cast<std::size_t>(rows.size() * columns.size()); }
  std::size_t channel_bytes() const {
    return plane() * static_cast<std::size_t>(rows.phases() * columns.phases());
  }
  // Of `count` channels, and what the last tile reads behind them.
  std::size_t planes_bytes(std::size_t count) const {
    if (pointwise) return 0;
    return Rounded(count * channel_bytes() + kTilePixels + width());
  }
  // Where there are many groups each worker lays out what it needs; else all do it together first.
  bool by_group() const { return groups * images >= 2 * team; }
  std::size_t packed_bytes() const { return (depth() + kTileRows - 1) / kTileRows * kPackedBytes; }
  std::size_t base_bytes() const { return Rounded(channels() * sizeof(std::int32_t)); }
  std::size_t shared_bytes() const { return by_group() ? 0 : planes_bytes(groups * sources); }
  std::size_t worker_bytes() const {
    return packed_bytes() + (by_group() ? planes_bytes(sources) : 0);
  }
  std::size_t scratch() const { return base_bytes() + shared_bytes() + team * worker_bytes(); }

  struct Given {
    const std::byte* x;
    const std::int8_t* weights;
    const std::int32_t* bias;
    const float* factors;
    const std::byte *zero, *output_zero;
    const std::int32_t* bases;
    std::byte* to;
  };

  // What is added to every sum of a channel: its bias, less what the zero point of x has brought
  // in. Sums wrap around as two's complement does.
  void FillBases(const Given& given, std::int32_t* bases) const {
    const std::uint32_t zero = Moved(given.zero == nullptr ? std::byte{} : *given.zero);
    for (std::size_t m = 0; m < channels(); ++m) {
      const std::int8_t* weights = given.weights + m * depth();
      std::int32_t sum = 0;
      for (std::size_t k = 0; k < depth(); ++k) sum += weights[k];
      const std::uint32_t bias =
          given.bias == nullptr ? 0 : static_cast<std::uint32_t>(given.bias[m]);
      bases[m] = static_cast<std::int32_t>(bias - zero * static_cast<std::uint32_t>(sum));
    }
  }

  // Of so many tiles, in elements of ParallelFor: two million products are worth waking the team
  // for. Packing a tile costs as much as some of its channels.
  std::size_t Work(std::size_t count) const {
    constexpr std::size_t kPacking = 16, kProductsPerElement = 128;
    return count * kTilePixels * depth() * (results + kPacking) / kProductsPerElement;
  }

  // A byte of x as an unsigned number; signed ones are moved by 128.
  std::uint32_t Moved(std::byte byte) const {
    return std::to_integer<std::uint32_t>(is_signed ? byte ^ std::byte{0x80} : byte);
  }

  void operator()(std::span<const std::byte* const> inputs, std::byte* to,
                  std::byte* memory) const {
    const auto at = [&](std::size_t i) { return i < inputs.size() ? inputs[i] : nullptr; };
    auto* bases = reinterpret_cast<std::int32_t*>(memory);
    const Given given{.x = inputs[0],
                      .weights = reinterpret_cast<const std::int8_t*>(inputs[1]),
                      .bias = reinterpret_cast<const std::int32_t*>(at(2)),
                      .factors = reinterpret_cast<const float*>(at(3)),
                      .zero = at(4),
                      .output_zero = at(6),
                      .bases = bases,
                      .to = to};
    FillBases(given, bases);
    if (by_group()) return ByGroup(given, memory);
    for (std::size_t image = 0; image < images; ++image) ByTile(given, image, memory);
  }

  void ByGroup(const Given& given, std::byte* memory) const {
    ParallelForWorkers(images * groups, Work(images * groups * tile_count()), team,
                       [&](std::size_t begin, std::size_t end, std::size_t worker) {
                         std::byte* packed = memory + base_bytes() + worker * worker_bytes();
                         std::byte* planes = packed + packed_bytes();
                         for (std::size_t g = begin; g < end; ++g) {
                           for (std::size_t s = 0; !pointwise && s < sources; ++s) {
                             LayOut(given, g * sources + s, planes + s * channel_bytes());
                           }
                           for (std::size_t tile = 0; tile < tile_count(); ++tile) {
                             Pack(given, g, tile * kTilePixels, planes, packed);
                             Multiply(given, g, tile * kTilePixels, {0, results}, packed);
                           }
                         }
                       });
  }

  void ByTile(const Given& given, std::size_t image, std::byte* memory) const {
    std::byte* planes = memory + base_bytes();
    const std::size_t all = groups * sources;
    if (!pointwise) {
      ParallelFor(all, all * channel_bytes() / kTileRows, [&](std::size_t begin, std::size_t end) {
        for (std::size_t c = begin; c < end; ++c) {
          LayOut(given, image * all + c, planes + c * channel_bytes());
        }
      });
    }
    const std::size_t units = groups * tile_count();
    // Few tiles: threads share one, each with some of its channels.
    const std::size_t most = (results + kTileChannels - 1) / kTileChannels;
    const std::size_t parts = units >= 2 * team ? 1 : std::min(most, 2 * team);
    ParallelForWorkers(units * parts, Work(units), team,
                       [&](std::size_t begin, std::size_t end, std::size_t worker) {
                         std::byte* packed = planes + shared_bytes() + worker * worker_bytes();
                         for (std::size_t i = begin; i < end; ++i) {
                           const std::size_t unit = i / parts, part = i % parts;
                           const std::size_t group = unit / tile_count();
                           const std::size_t first = unit % tile_count() * kTilePixels;
                           const std::size_t g = image * groups + group;
                           if (i == begin || part == 0) {
                             Pack(given, g, first, planes + group * sources * channel_bytes(),
                                  packed);
                           }
                           Multiply(given, g, first,
                                    {most * part / parts * kTileChannels,
                                     std::min(results, most * (part + 1) / parts * kTileChannels)},
                                    packed);
                         }
                       });
  }

  // The planes of one channel of x.
  void LayOut(const Given& given, std::size_t channel, std::byte* to) const {
    const std::byte* x = given.x + channel * in_pixels();
    const std::byte fill = given.zero == nullptr ? std::byte{} : *given.zero;
    for (std::int64_t down = 0; down < rows.phases(); ++down) {
      const auto [top, bottom] = rows.Inside(down);
      for (std::int64_t along = 0; along < columns.phases(); ++along) {
        const auto [left, right] = columns.Inside(along);
        for (std::int64_t r = 0; r < rows.size(); ++r, to += columns.size()) {
          if (r < top || r >= bottom || left == right) {
            std::fill_n(to, columns.size(), fill);
            continue;
          }
          const std::int64_t source = r * rows.stride + down - rows.pad;
          std::fill_n(to, left, fill);
          CopyStrided(x + source * columns.in + left * columns.stride + along - columns.pad,
                      columns.stride, right - left, to + left);
          std::fill_n(to + right, columns.size() - right, fill);
        }
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

  // Places [first, first + kTilePixels) of group `g`, counted over all images. `planes`: of its
  // channels.
  void Pack(const Given& given, std::size_t g, std::size_t first, const std::byte* planes,
            std::byte* packed) const {
    if (pointwise) return PackPoints(given, g, first, packed);
    std::array<const std::byte*, kTileRows> four = {};
    std::size_t in_four = 0;
    for (std::size_t s = 0; s < sources; ++s, planes += channel_bytes()) {
      for (const std::size_t offset : offsets) {
        four[in_four++] = planes + offset + first;
        if (in_four < kTileRows) continue;
        tiles.pack(four.data(), is_signed, packed);
        packed += kPackedBytes;
        in_four = 0;
      }
    }
    if (in_four == 0) return;
    std::fill(four.begin() + static_cast<std::ptrdiff_t>(in_four), four.end(), nullptr);
    tiles.pack(four.data(), is_signed, packed);
  }

  // The same where each place reads the input's pixel there.
  void PackPoints(const Given& given, std::size_t g, std::size_t first, std::byte* packed) const {
    alignas(64) std::array<std::byte, kTileRows* kTilePixels> ends = {};
    const std::size_t all = images * groups * sources * pixels();
    std::array<const std::byte*, kTileRows> four = {};
    for (std::size_t k = 0; k < depth(); k += kTileRows, packed += kPackedBytes) {
      for (std::size_t i = 0; i < kTileRows; ++i) {
        four[i] = nullptr;
        if (k + i >= depth()) continue;
        const std::size_t begin = (g * sources + k + i) * pixels() + first;
        four[i] = given.x + begin;
        if (begin + kTilePixels <= all) continue;
        std::byte* end = ends.data() + i * kTilePixels;
        std::copy_n(given.x + begin, all - begin, end);
        four[i] = end;
      }
      tiles.pack(four.data(), is_signed, packed);
    }
  }

  using Range = std::pair<std::size_t, std::size_t>;
  // Finishing reads whole vectors.
  using Sums = std::array<std::int32_t, kTileChannels * kTilePixels + 16>;

  void Multiply(const Given& given, std::size_t g, std::size_t first, Range range,
                const std::byte* packed) const {
    alignas(64) Sums sums;
    const std::size_t end = std::min(places(), first + kTilePixels);
    for (std::size_t r = range.first; r < range.second; r += kTileChannels) {
      const std::size_t together = std::min(kTileChannels, range.second - r);
      const std::size_t channel = g % groups * results + r;
      tiles.multiply(packed, given.weights + channel * depth(), depth(), together, sums.data());
      for (std::size_t m = 0; m < together; ++m) {
        const std::size_t at = (g * results + r + m) * pixels();
        // Row by row, as far as the output goes.
        for (std::size_t p = first; p < end;) {
          const std::size_t row = p / width(), column = p % width();
          const std::size_t next = std::min(end, (row + 1) * width());
          if (column < valid_width()) {
            const std::size_t count = std::min(next - p, valid_width() - column);
            Finish(given, sums.data() + m * kTilePixels + (p - first), channel + m,
                   at + row * valid_width() + column, count);
          }
          p = next;
        }
      }
    }
  }

  void Finish(const Given& given, const std::int32_t* sums, std::size_t channel, std::size_t at,
              std::size_t count) const {
    const float factor = given.factors == nullptr ? 1.0f : given.factors[channel];
    const std::int32_t base = given.bases[channel];
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
                   sums, count, given.to + at);
      return;
    }
    std::array<std::uint32_t, kTilePixels> wrapped;
    for (std::size_t i = 0; i < count; ++i) {
      wrapped[i] = static_cast<std::uint32_t>(sums[i]) + static_cast<std::uint32_t>(base);
    }
    output.Write(wrapped.data(), static_cast<std::int64_t>(count), factor, given.output_zero,
                 static_cast<std::int64_t>(at), given.to);
  }
};

// Where each tap reads in the planes of a channel, for place 0.
std::vector<std::size_t> TapOffsets(const Axis& rows, const Axis& columns) {
  std::vector<std::size_t> offsets;
  offsets.reserve(static_cast<std::size_t>(rows.kernel * columns.kernel));
  const std::int64_t width = columns.size(), plane = rows.size() * width;
  for (std::int64_t i = 0; i < rows.kernel; ++i) {
    for (std::int64_t j = 0; j < columns.kernel; ++j) {
      const std::int64_t down = i * rows.dilation, along = j * columns.dilation;
      const std::int64_t phase = down % rows.stride * columns.phases() + along % columns.stride;
      offsets.push_back(static_cast<std::size_t>(phase * plane + down / rows.stride * width +
                                                 along / columns.stride));
    }
  }
  return offsets;
}

// Whether zero points are known to be 0.
absl::StatusOr<bool> IsZero(const Problem& problem, std::size_t i) {
  if (i >= problem.node.inputs.size() || !problem.node.inputs[i]) return true;
  if (problem.input(i).constant == nullptr) return false;
  SLUICE_ASSIGN_OR_RETURN(const std::vector<std::int64_t> zeros, ReadIntegers(problem.input(i)));
  return std::ranges::all_of(zeros, [](std::int64_t zero) { return zero == 0; });
}

// Whether the planes are not much larger than what is read and written: taps may lie far apart.
bool IsCompact(const TiledConvolution& run) {
  if (run.pointwise) return true;
  const auto area = [](std::int64_t a, std::int64_t b) {
    return static_cast<double>(a) * static_cast<double>(b);
  };
  const double planes =
      area(run.rows.size(), run.columns.size()) * area(run.rows.phases(), run.columns.phases());
  return planes <=
         16 * (area(run.rows.in, run.columns.in) + area(run.rows.out, run.columns.out)) + 4096;
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
  run.pointwise = run.rows.IsPointwise() && run.columns.IsPointwise();
  if (!IsCompact(run)) return std::nullopt;
  run.offsets = TapOffsets(run.rows, run.columns);
  Kernel kernel;
  kernel.name = problem.KernelName("tiles of bytes");
  kernel.scratch = Bytes::Of(run.scratch());
  kernel.run = [run = std::move(run)](std::span<const std::byte* const> inputs, std::byte* output,
                                      std::byte* scratch) { run(inputs, output, scratch); };
  return kernel;
}

}  // namespace sluice::kernels
