// Convolutions and matrix products of bytes, exact in 32 bits (model/operation_rules.h says what
// they mean). Sums wrap as two's complement does.

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

#include "base/status_macros.h"
#include "engine/kernels/byte_output.h"
#include "engine/kernels/integer_product.h"
#include "engine/kernels/makers.h"
#include "engine/kernels/parallel.h"

namespace sluice::kernels {
namespace {

constexpr std::int64_t kChunk = 256;  // Elements of a row that are summed up at a time.
using Sums = std::array<std::uint32_t, kChunk>;

// Bytes of either type, widened and less their zero points.
struct Bytes8 {
  const std::byte* data = nullptr;
  const std::byte* zeros = nullptr;  // Null: 0.
  bool is_signed = false;
  bool one_zero = true;

  static std::int32_t Widen(std::byte byte, bool is_signed) {
    return is_signed ? static_cast<std::int8_t>(byte) : static_cast<std::int32_t>(byte);
  }
  std::int32_t Zero(std::int64_t i) const {
    return zeros == nullptr ? 0 : Widen(zeros[one_zero ? 0 : i], is_signed);
  }
};

// y[i] += factor * (x[i * stride] - zero).
template <typename T>
void AddScaled(const T* x, std::int64_t stride, std::int32_t zero, std::int32_t factor,
               std::int64_t count, std::uint32_t* y) {
  const auto by = static_cast<std::uint32_t>(factor);
  if (stride == 1) {
    for (std::int64_t i = 0; i < count; ++i) y[i] += by * static_cast<std::uint32_t>(x[i] - zero);
    return;
  }
  for (std::int64_t i = 0; i < count; ++i) {
    y[i] += by * static_cast<std::uint32_t>(x[i * stride] - zero);
  }
}

void AddScaled(const Bytes8& x, std::int64_t first, std::int64_t stride, std::int32_t zero,
               std::int32_t factor, std::int64_t count, std::uint32_t* y) {
  const std::byte* from = x.data + first;
  if (x.is_signed) {
    AddScaled(reinterpret_cast<const std::int8_t*>(from), stride, zero, factor, count, y);
  } else {
    AddScaled(reinterpret_cast<const std::uint8_t*>(from), stride, zero, factor, count, y);
  }
}

const std::byte* At(std::span<const std::byte* const> inputs, std::size_t i) {
  return i < inputs.size() ? inputs[i] : nullptr;
}

bool IsOneElement(const Problem& problem, std::size_t i) {
  return i >= problem.node.inputs.size() || !problem.node.inputs[i] ||
         ElementCount(problem.input(i).shape) == 1;
}

struct IntegerConvolution {
  std::vector<std::int64_t> in, out, kernel, strides, dilations, pads;  // Spatial.
  std::int64_t images = 0, groups = 1, sources = 0, results = 0;        // Channels of one group.
  Bytes8 x = {}, weights = {};
  ByteOutput output = {};

  static std::int64_t Count(const std::vector<std::int64_t>& sizes) {
    std::int64_t count = 1;
    for (const std::int64_t size : sizes) count *= size;
    return count;
  }

  // The row of the input for an output row and a tap, both without the last dimension; -1: none.
  std::int64_t SourceRow(std::int64_t row, std::int64_t tap) const {
    std::int64_t at = 0, stride = 1;
    for (std::size_t d = in.size() - 1; d-- > 0;) {
      const std::int64_t source =
          row % out[d] * strides[d] + tap % kernel[d] * dilations[d] - pads[d];
      if (source < 0 || source >= in[d]) return -1;
      at += source * stride;
      stride *= in[d];
      row /= out[d];
      tap /= kernel[d];
    }
    return at;
  }

  // Adds one tap of a row that begins at element `begin` to outputs [first, first + count).
  void AddTap(const Bytes8& from, std::int64_t begin, std::int32_t weight, std::int64_t tap,
              std::int64_t first, std::int64_t count, Sums& sums) const {
    const std::size_t d = in.size() - 1;
    const std::int64_t stride = strides[d], along = tap * dilations[d] - pads[d];
    const std::int64_t low = along >= 0 ? 0 : (-along + stride - 1) / stride;
    const std::int64_t high = along >= in[d] ? 0 : (in[d] - 1 - along) / stride + 1;
    const std::int64_t start = std::max(low, first), end = std::min(high, first + count);
    if (start >= end || weight == 0) return;
    AddScaled(from, begin + start * stride + along, stride, from.Zero(0), weight, end - start,
              sums.data() + (start - first));
  }

  void SumRow(const Bytes8& from, const Bytes8& by, std::int64_t image, std::int64_t channel,
              std::int64_t row, std::int64_t first, std::int64_t count, Sums& sums) const {
    const std::int64_t taps = Count(kernel), width = kernel.back(), pixels = Count(in);
    const std::int32_t zero = by.Zero(channel);
    for (std::int64_t s = 0; s < sources; ++s) {
      const std::int64_t plane = (image * groups + channel / results) * sources + s;
      for (std::int64_t tap = 0; tap < taps; tap += width) {
        const std::int64_t source = SourceRow(row, tap / width);
        if (source < 0) continue;
        for (std::int64_t t = 0; t < width; ++t) {
          const std::byte weight = by.data[(channel * sources + s) * taps + tap + t];
          AddTap(from, plane * pixels + source * in.back(),
                 Bytes8::Widen(weight, by.is_signed) - zero, t, first, count, sums);
        }
      }
    }
  }

  void operator()(std::span<const std::byte* const> inputs, std::byte* to) const {
    Bytes8 from = x, by = weights;
    from.data = inputs[0];
    by.data = inputs[1];
    from.zeros = At(inputs, 4);
    by.zeros = At(inputs, 5);
    const auto* bias = reinterpret_cast<const std::uint32_t*>(At(inputs, 2));
    const auto* factors = reinterpret_cast<const float*>(At(inputs, 3));
    const std::int64_t length = out.back(), channels = groups * results;
    const std::int64_t rows = length == 0 ? 0 : Count(out) / length;
    const auto all = static_cast<std::size_t>(images * channels * rows);
    const auto work = all * static_cast<std::size_t>(length * sources * Count(kernel));
    ParallelFor(all, work, [&](std::size_t begin, std::size_t end) {
      Sums sums;
      for (auto i = static_cast<std::int64_t>(begin); i < static_cast<std::int64_t>(end); ++i) {
        const std::int64_t channel = i / rows % channels;
        for (std::int64_t first = 0; first < length; first += kChunk) {
          const std::int64_t count = std::min(kChunk, length - first);
          sums.fill(bias == nullptr ? 0 : bias[channel]);
          SumRow(from, by, i / rows / channels, channel, i % rows, first, count, sums);
          output.Write(sums.data(), count, factors == nullptr ? 1.0f : factors[channel],
                       At(inputs, 6), i * length + first, to);
        }
      }
    });
  }
};

struct IntegerMatMul : IntegerProduct {
  Bytes8 a = {}, b = {};

  void operator()(std::span<const std::byte* const> inputs, std::byte* to) const {
    Bytes8 left = a, right = b;
    left.data = inputs[0];
    right.data = inputs[1];
    left.zeros = At(inputs, 2);
    right.zeros = At(inputs, 3);
    const auto all = static_cast<std::size_t>(std::ssize(batches) * rows);
    ParallelFor(all, all * static_cast<std::size_t>(columns * depth),
                [&](std::size_t begin, std::size_t end) {
                  for (std::size_t i = begin; i < end; ++i) {
                    Row(left, right, static_cast<std::int64_t>(i), to);
                  }
                });
  }

 private:
  void Row(const Bytes8& left, const Bytes8& right, std::int64_t i, std::byte* to) const {
    const std::int64_t row = i % rows;
    const auto [a_at, b_at] = batches[static_cast<std::size_t>(i / rows)];
    const bool many_zeros = right.zeros != nullptr && !right.one_zero;
    Sums sums;
    for (std::int64_t first = 0; first < columns; first += kChunk) {
      const std::int64_t count = std::min(kChunk, columns - first);
      sums.fill(0);
      std::uint32_t total = 0;  // Of the row of a.
      for (std::int64_t k = 0; k < depth; ++k) {
        const std::byte byte = left.data[a_at + row * a_row + k * a_depth];
        const std::int32_t factor = Bytes8::Widen(byte, left.is_signed) - left.Zero(row);
        total += static_cast<std::uint32_t>(factor);
        AddScaled(right, b_at + k * b_depth + first * b_column, b_column,
                  many_zeros ? 0 : right.Zero(0), factor, count, sums.data());
      }
      for (std::int64_t j = 0; many_zeros && j < count; ++j) {
        sums[static_cast<std::size_t>(j)] -=
            total * static_cast<std::uint32_t>(right.Zero(first + j));
      }
      ByteOutput{}.Write(sums.data(), count, 1.0f, nullptr, i * columns + first, to);
    }
  }
};

// Where the operand of a result matrix starts, in matrices.
std::int64_t BatchIndex(std::span<const std::int64_t> operand, std::span<const std::int64_t> result,
                        std::int64_t batch) {
  std::int64_t index = 0, stride = 1;
  for (std::size_t d = 0; d < result.size(); ++d) {
    const std::int64_t size = result[result.size() - 1 - d];
    const std::int64_t position = batch % size;
    batch /= size;
    if (d >= operand.size()) continue;
    const std::int64_t own = operand[operand.size() - 1 - d];
    if (own != 1) index += position * stride;
    stride *= own;
  }
  return index;
}

}  // namespace

bool IsOfBytes(const Problem& problem) {
  const DataType type = problem.input(0).type;
  return type == DataType::kInt8 || type == DataType::kUint8;
}

absl::StatusOr<Kernel> MakeOfBytes(const Convolution& operation, const Problem& problem) {
  SLUICE_ASSIGN_OR_RETURN(std::optional<Kernel> tiled, MakeTiled(operation, problem));
  if (tiled) return *std::move(tiled);
  const Shape &x = problem.input(0).shape, &y = problem.output().shape;
  IntegerConvolution run{.in = {x.begin() + 2, x.end()},
                         .out = {y.begin() + 2, y.end()},
                         .kernel = operation.kernel,
                         .strides = operation.strides,
                         .dilations = operation.dilations,
                         .pads = operation.pads_begin,
                         .images = x[0],
                         .groups = operation.groups,
                         .sources = x[1] / operation.groups,
                         .results = y[1] / operation.groups};
  run.x.is_signed = problem.input(0).type == DataType::kInt8;
  run.weights.is_signed = problem.input(1).type == DataType::kInt8;
  run.weights.one_zero = IsOneElement(problem, 5);
  SLUICE_ASSIGN_OR_RETURN(run.output, ByteOutput::Of(operation, problem));
  Kernel kernel;
  kernel.name = problem.KernelName("rows of bytes");
  kernel.run = [run = std::move(run)](std::span<const std::byte* const> inputs, std::byte* output,
                                      std::byte*) { run(inputs, output); };
  return kernel;
}

absl::StatusOr<Kernel> MakeOfBytes(const MatMul& operation, const Problem& problem) {
  const std::span<const std::int64_t> a = problem.input(0).shape, b = problem.input(1).shape;
  const std::span<const std::int64_t> y = problem.output().shape;
  IntegerMatMul run;
  run.rows = y[y.size() - 2];
  run.columns = y[y.size() - 1];
  run.depth = a[a.size() - (operation.transposed_a ? 2 : 1)];
  run.a_row = operation.transposed_a ? 1 : run.depth;
  run.a_depth = operation.transposed_a ? run.rows : 1;
  run.b_depth = operation.transposed_b ? 1 : run.columns;
  run.b_column = operation.transposed_b ? run.depth : 1;
  run.a.is_signed = problem.input(0).type == DataType::kInt8;
  run.a.one_zero = IsOneElement(problem, 2);
  run.b.is_signed = problem.input(1).type == DataType::kInt8;
  run.b.one_zero = IsOneElement(problem, 3);
  const auto batches = static_cast<std::int64_t>(Product(y, 0, y.size() - 2));
  const auto result = y.first(y.size() - 2);
  for (std::int64_t i = 0; i < batches; ++i) {
    run.batches.emplace_back(
        BatchIndex(a.first(a.size() - 2), result, i) * run.rows * run.depth,
        BatchIndex(b.first(b.size() - 2), result, i) * run.depth * run.columns);
  }
  if (std::optional<Kernel> tiled = MakeTiled(operation, run, problem)) return *std::move(tiled);
  Kernel kernel;
  kernel.name = problem.KernelName("rows of bytes");
  kernel.run = [run = std::move(run)](std::span<const std::byte* const> inputs, std::byte* output,
                                      std::byte*) { run(inputs, output); };
  return kernel;
}

}  // namespace sluice::kernels
