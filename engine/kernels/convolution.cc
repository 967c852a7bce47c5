// Convolutions in any number of dimensions, of any floating point type, with weights that may be
// computed: what the library does not have. Rows of the output are summed up in single precision
// (double for FP64), tap by tap, so that the innermost loop runs along a row.

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

#include "absl/strings/str_format.h"
#include "base/status_macros.h"
#include "engine/kernels/element.h"
#include "engine/kernels/makers.h"
#include "engine/kernels/parallel.h"

namespace sluice::kernels {
namespace {

constexpr std::int64_t kChunk = 256;  // Elements of a row that are summed up at a time.

struct ConvolutionRun {
  std::vector<std::int64_t> in, out;  // Spatial sizes.
  std::vector<std::int64_t> kernel, strides, dilations, pads;
  std::int64_t images = 0, groups = 1, sources = 0, results = 0;  // Channels of one group.
  bool transposed = false;

  static std::int64_t Count(const std::vector<std::int64_t>& sizes) {
    std::int64_t count = 1;
    for (const std::int64_t size : sizes) count *= size;
    return count;
  }

  // Where in the input the window's tap of dimension d lies for an output's place; -1 where
  // outside.
  std::int64_t Source(std::size_t d, std::int64_t place, std::int64_t tap) const {
    const std::int64_t along = tap * dilations[d] - pads[d];
    if (!transposed) {
      const std::int64_t at = place * strides[d] + along;
      return at >= 0 && at < in[d] ? at : -1;
    }
    const std::int64_t at = place - along;
    return at >= 0 && at % strides[d] == 0 && at / strides[d] < in[d] ? at / strides[d] : -1;
  }

  // The row of the input for an output row and a tap, both without the last dimension; -1: none.
  std::int64_t SourceRow(std::int64_t row, std::int64_t tap) const {
    std::int64_t at = 0, stride = 1;
    for (std::size_t d = in.size() - 1; d-- > 0;) {
      const std::int64_t source = Source(d, row % out[d], tap % kernel[d]);
      if (source < 0) return -1;
      at += source * stride;
      stride *= in[d];
      row /= out[d];
      tap /= kernel[d];
    }
    return at;
  }

  // Adds one tap of the last dimension to outputs [first, first + count) of a row.
  template <typename T>
  void AddTap(const T* x, Wide<T> weight, std::int64_t tap, std::int64_t first, std::int64_t count,
              Wide<T>* sums) const {
    const std::size_t d = in.size() - 1;
    const std::int64_t stride = strides[d], along = tap * dilations[d] - pads[d];
    if (transposed) {
      for (std::int64_t i = 0; i < in[d]; ++i) {
        const std::int64_t place = i * stride + along - first;
        if (place >= 0 && place < count) sums[place] += weight * Convert<Wide<T>>(x[i]);
      }
      return;
    }
    // Places whose tap lies in the row: 0 <= place * stride + along < in.
    const std::int64_t low = along >= 0 ? 0 : (-along + stride - 1) / stride;
    const std::int64_t high = along >= in[d] ? 0 : (in[d] - 1 - along) / stride + 1;
    const std::int64_t begin = std::max(low, first), end = std::min(high, first + count);
    for (std::int64_t place = begin; place < end; ++place) {
      sums[place - first] += weight * Convert<Wide<T>>(x[place * stride + along]);
    }
  }

  // One row of an output channel: `channel` counts through the groups.
  template <typename T>
  void Row(const T* x, const T* weights, Wide<T> bias, std::int64_t channel, std::int64_t row,
           T* y) const {
    const std::int64_t group = channel / results, result = channel % results;
    const std::int64_t taps = Count(kernel), width = kernel.back();
    const std::int64_t pixels = Count(in), length = out.back();
    std::array<Wide<T>, kChunk> sums;
    for (std::int64_t first = 0; first < length; first += kChunk) {
      const std::int64_t count = std::min(kChunk, length - first);
      std::fill_n(sums.begin(), count, bias);
      for (std::int64_t s = 0; s < sources; ++s) {
        const std::int64_t source = group * sources + s;
        const T* window =
            weights + (transposed ? source * results + result : channel * sources + s) * taps;
        for (std::int64_t tap = 0; tap < taps; tap += width) {
          const std::int64_t from = SourceRow(row, tap / width);
          if (from < 0) continue;
          for (std::int64_t t = 0; t < width; ++t) {
            AddTap(x + source * pixels + from * in.back(), Convert<Wide<T>>(window[tap + t]), t,
                   first, count, sums.data());
          }
        }
      }
      for (std::int64_t i = 0; i < count; ++i)
        y[first + i] = Convert<T>(sums[static_cast<std::size_t>(i)]);
    }
  }

  template <typename T>
  void Run(std::span<const std::byte* const> inputs, std::byte* output) const {
    const auto at = [&](std::size_t i) {
      return i < inputs.size() ? reinterpret_cast<const T*>(inputs[i]) : nullptr;
    };
    const T *x = at(0), *weights = at(1), *bias = at(2);
    auto* y = reinterpret_cast<T*>(output);
    const std::int64_t length = out.back(), channels = groups * results;
    const std::int64_t rows = length == 0 ? 0 : Count(out) / length;
    const std::int64_t image = groups * sources * Count(in);
    const auto all = static_cast<std::size_t>(images * channels * rows);
    ParallelFor(
        all, all * static_cast<std::size_t>(length * sources * Count(kernel)),
        [&](std::size_t begin, std::size_t end) {
          for (auto i = static_cast<std::int64_t>(begin); i < static_cast<std::int64_t>(end); ++i) {
            const std::int64_t channel = i / rows % channels;
            const Wide<T> start = bias == nullptr ? Wide<T>(0) : Convert<Wide<T>>(bias[channel]);
            Row(x + i / rows / channels * image, weights, start, channel, i % rows, y + i * length);
          }
        });
  }
};

}  // namespace

absl::StatusOr<Kernel> Make(const Convolution& operation, const Problem& problem) {
  if (IsOfBytes(problem)) return MakeOfBytes(operation, problem);
  if (!operation.epilogues.empty() || (problem.node.inputs.size() > 3 && problem.node.inputs[3])) {
    return absl::UnimplementedError("convolution: no row-major kernel with a tail");
  }
  const Shape &x = problem.input(0).shape, &y = problem.output().shape;
  ConvolutionRun run{.in = {x.begin() + 2, x.end()},
                     .out = {y.begin() + 2, y.end()},
                     .kernel = operation.kernel,
                     .strides = operation.strides,
                     .dilations = operation.dilations,
                     .pads = operation.pads_begin,
                     .images = x[0],
                     .groups = operation.groups,
                     .sources = x[1] / operation.groups,
                     .results = y[1] / operation.groups,
                     .transposed = operation.transposed};
  Kernel kernel;
  kernel.name = problem.KernelName(operation.transposed ? "rows transposed" : "rows");
  const auto bind = [&]<typename T>() {
    kernel.run = [run = std::move(run)](std::span<const std::byte* const> inputs, std::byte* output,
                                        std::byte*) { run.Run<T>(inputs, output); };
  };
  switch (problem.output().type) {
    case DataType::kFloat64:
      bind.template operator()<double>();
      return kernel;
    case DataType::kFloat16:
      bind.template operator()<Half>();
      return kernel;
    case DataType::kBfloat16:
      bind.template operator()<Bfloat16>();
      return kernel;
    default:
      SLUICE_RETURN_IF_ERROR(WantType(problem, DataType::kFloat32));
      bind.template operator()<float>();
      return kernel;
  }
}

}  // namespace sluice::kernels
