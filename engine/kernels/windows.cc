// Pools and local response normalisation on row-major tensors.

#include <algorithm>
#include <array>
#include <limits>
#include <utility>
#include <vector>

#include "absl/strings/str_format.h"
#include "base/status_macros.h"
#include "engine/kernels/makers.h"
#include "engine/kernels/parallel.h"
#include "engine/kernels/typed_pool.h"

namespace sluice::kernels {
namespace {

// One spatial dimension; missing outer ones have size 1.
struct Axis {
  std::ptrdiff_t in = 1, out = 1, kernel = 1, stride = 1, dilation = 1, pad = 0;

  std::ptrdiff_t Position(std::ptrdiff_t o, std::ptrdiff_t k) const {
    return o * stride - pad + k * dilation;
  }
  bool Inside(std::ptrdiff_t o, std::ptrdiff_t k) const {
    return Position(o, k) >= 0 && Position(o, k) < in;
  }
  // The outputs for which kernel position k is inside: [first, last).
  std::pair<std::ptrdiff_t, std::ptrdiff_t> Outputs(std::ptrdiff_t k) const {
    const std::ptrdiff_t offset = k * dilation - pad;  // Position is o * stride + offset.
    const std::ptrdiff_t first = offset >= 0 ? 0 : (-offset + stride - 1) / stride;
    const std::ptrdiff_t last = offset >= in ? 0 : (in - 1 - offset) / stride + 1;
    return {std::min(first, out), std::clamp(last, std::min(first, out), out)};
  }
  // How many kernel positions are inside.
  std::ptrdiff_t Count(std::ptrdiff_t o) const {
    const std::ptrdiff_t start = o * stride - pad;
    const std::ptrdiff_t first = start >= 0 ? 0 : (-start + dilation - 1) / dilation;
    const std::ptrdiff_t last = start >= in ? 0 : (in - 1 - start) / dilation + 1;
    return std::max<std::ptrdiff_t>(0, std::min(last, kernel) - first);
  }
};

struct PoolRun {
  Pool::Kind kind;
  bool count_include_pad;
  std::array<Axis, 3> axes;            // Outermost first.
  std::vector<std::ptrdiff_t> counts;  // Along the innermost dimension, by output.
  std::size_t planes;
  const Loops& loops;

  const ReduceEntry& Reduction() const {
    return loops.reduce[static_cast<std::size_t>(kind == Pool::Kind::kMax ? Reduce::Kind::kMax
                                                                          : Reduce::Kind::kSum)];
  }

  // Adds one row of the input to one row of the output.
  void AddRow(const float* x, float* y) const {
    const Axis& axis = axes[2];
    const auto fold = kind == Pool::Kind::kMax ? loops.pool_max : loops.pool_sum;
    if (axis.dilation == 1 && axis.kernel > axis.out) {  // Few long windows.
      const ReduceEntry& entry = Reduction();
      for (std::ptrdiff_t o = 0; o < axis.out; ++o) {
        const std::ptrdiff_t begin = std::max<std::ptrdiff_t>(0, axis.Position(o, 0));
        const std::ptrdiff_t end = std::min(axis.in, axis.Position(o, axis.kernel));
        if (begin >= end) continue;
        const auto n = static_cast<std::size_t>(end - begin);
        y[o] = entry.combine(y[o], entry.total(x + begin, n, entry.initial));
      }
      return;
    }
    for (std::ptrdiff_t k = 0; k < axis.kernel; ++k) {
      const auto [first, last] = axis.Outputs(k);
      if (first >= last) continue;
      fold(x + axis.Position(first, k), axis.stride, y + first,
           static_cast<std::size_t>(last - first));
    }
  }

  // Turns sums into averages, and empty windows into what they give. `rows` is how many kernel
  // positions of the outer dimensions were inside.
  void Finish(float* y, std::ptrdiff_t rows) const {
    const std::ptrdiff_t all = axes[0].kernel * axes[1].kernel * axes[2].kernel;
    for (std::ptrdiff_t o = 0; o < axes[2].out; ++o) {
      const std::ptrdiff_t count = rows * counts[static_cast<std::size_t>(o)];
      if (kind == Pool::Kind::kMax) {
        if (count == 0) y[o] = std::numeric_limits<float>::lowest();
      } else {
        y[o] = count == 0 ? 0.0f : y[o] / static_cast<float>(count_include_pad ? all : count);
      }
    }
  }

  void Row(const float* x, float* y, std::ptrdiff_t o0, std::ptrdiff_t o1) const {
    std::fill_n(y, axes[2].out, Reduction().initial);
    std::ptrdiff_t rows = 0;
    for (std::ptrdiff_t k0 = 0; k0 < axes[0].kernel; ++k0) {
      if (!axes[0].Inside(o0, k0)) continue;
      for (std::ptrdiff_t k1 = 0; k1 < axes[1].kernel; ++k1) {
        if (!axes[1].Inside(o1, k1)) continue;
        const std::ptrdiff_t row = axes[0].Position(o0, k0) * axes[1].in + axes[1].Position(o1, k1);
        AddRow(x + row * axes[2].in, y);
        ++rows;
      }
    }
    Finish(y, rows);
  }

  void operator()(const float* x, float* y) const {
    const auto in = static_cast<std::size_t>(axes[0].in * axes[1].in * axes[2].in);
    const auto rows = static_cast<std::size_t>(axes[0].out * axes[1].out);
    const auto width = static_cast<std::size_t>(axes[2].out);
    ParallelFor(planes * rows, planes * in, [&](std::size_t begin, std::size_t end) {
      for (std::size_t item = begin; item < end; ++item) {
        const auto row = static_cast<std::ptrdiff_t>(item % rows);
        Row(x + item / rows * in, y + item * width, row / axes[1].out, row % axes[1].out);
      }
    });
  }
};

}  // namespace

absl::StatusOr<Kernel> Make(const Pool& operation, const Problem& problem) {
  const Shape &in = problem.input(0).shape, &out = problem.output().shape;
  const std::size_t spatial = operation.kernel.size();
  if (problem.output().type != DataType::kFloat32 || spatial > 3) {
    return MakeTypedPool(operation, problem);
  }
  PoolRun run{.kind = operation.kind,
              .count_include_pad = operation.count_include_pad,
              .axes = {},
              .counts = {},
              .planes = Product(out, 0, 2),
              .loops = problem.loops};
  for (std::size_t d = 0; d < spatial; ++d) {
    run.axes[3 - spatial + d] = {.in = in[2 + d],
                                 .out = out[2 + d],
                                 .kernel = operation.kernel[d],
                                 .stride = operation.strides[d],
                                 .dilation = operation.dilations[d],
                                 .pad = operation.pads_begin[d]};
  }
  for (std::ptrdiff_t o = 0; o < run.axes[2].out; ++o) run.counts.push_back(run.axes[2].Count(o));
  Kernel kernel;
  kernel.name = problem.KernelName("");
  kernel.run = [run = std::move(run)](std::span<const std::byte* const> inputs, std::byte* output,
                                      std::byte*) { run(Floats(inputs[0]), Floats(output)); };
  return kernel;
}

absl::StatusOr<Kernel> Make(const Lrn& operation, const Problem& problem) {
  SLUICE_RETURN_IF_ERROR(WantType(problem, DataType::kFloat32));
  const Shape& shape = problem.output().shape;
  Kernel kernel;
  kernel.name = problem.KernelName("");
  kernel.run = [operation, planes = Product(shape, 0, 2), channels = shape[1],
                size = Product(shape, 2, shape.size()), &loops = problem.loops](
                   std::span<const std::byte* const> inputs, std::byte* output, std::byte*) {
    constexpr std::size_t kChunk = 1024;
    const auto square = loops.reduce[static_cast<std::size_t>(Reduce::Kind::kL2)].fold;
    const std::size_t chunks = (size + kChunk - 1) / kChunk;
    ParallelFor(planes * chunks, planes * size, [&](std::size_t begin, std::size_t end) {
      std::array<float, kChunk> squares;
      for (std::size_t item = begin; item < end; ++item) {
        const std::size_t plane = item / chunks, start = item % chunks * kChunk;
        const std::size_t n = std::min(kChunk, size - start);
        const auto c = static_cast<std::int64_t>(plane) % channels;
        const std::int64_t first = std::max<std::int64_t>(0, c - (operation.size - 1) / 2);
        const std::int64_t last = std::min(channels - 1, c + operation.size / 2);
        const float* x = Floats(inputs[0]) + plane * size + start;
        std::fill_n(squares.begin(), n, 0.0f);
        for (std::int64_t k = first; k <= last; ++k) {
          square(x + (k - c) * static_cast<std::int64_t>(size), squares.data(), n);
        }
        loops.normalise(x, squares.data(), Floats(output) + plane * size + start, n, operation.bias,
                        operation.alpha / static_cast<float>(operation.size), operation.beta);
      }
    });
  };
  return kernel;
}

}  // namespace sluice::kernels
