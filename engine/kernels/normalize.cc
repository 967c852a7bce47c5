// Normalisations: the mean and variance of a row, then each element by them.
//
// The variance is the mean of squared distances from the mean: the difference of two means would
// lose all digits where the mean is large. Sums of short chunks are added in double, so that rows
// of any length are as exact as short ones.

#include <algorithm>
#include <cmath>

#include "base/status_macros.h"
#include "engine/kernels/element.h"
#include "engine/kernels/makers.h"
#include "engine/kernels/parallel.h"

namespace sluice::kernels {
namespace {

constexpr std::size_t kChunk = 4096;  // Elements whose sum is taken in float; fits L1.

struct NormalizeRun {
  std::size_t rows, groups;      // Rows, and how many of them have parameters of their own.
  std::size_t runs, run_length;  // Of a row: runs that have one parameter each, or one run.
  bool per_channel, centred;
  double epsilon;
  const Loops& loops;

  std::size_t row_length() const { return runs * run_length; }

  double Mean(const float* x) const {
    double sum = 0;
    for (std::size_t i = 0; i < row_length(); i += kChunk) {
      sum += double{loops.reduce[static_cast<std::size_t>(Reduce::Kind::kSum)].total(
          x + i, std::min(kChunk, row_length() - i), 0.0f)};
    }
    return sum / static_cast<double>(row_length());
  }

  double Variance(const float* x, float centre) const {
    double sum = 0;
    for (std::size_t i = 0; i < row_length(); i += kChunk) {
      sum += double{loops.deviation(x + i, std::min(kChunk, row_length() - i), centre)};
    }
    return sum / static_cast<double>(row_length());
  }

  void Row(const float* x, const float* scale, const float* shift, float* y,
           std::size_t row) const {
    const float centre = centred ? static_cast<float>(Mean(x)) : 0.0f;
    const auto factor = static_cast<float>(1.0 / std::sqrt(Variance(x, centre) + epsilon));
    if (!per_channel) {
      loops.standardise(x, scale, shift, y, row_length(), centre, factor);
      return;
    }
    const std::size_t first = row % groups * runs;
    for (std::size_t run = 0; run < runs; ++run) {
      const float by = scale == nullptr ? factor : factor * scale[first + run];
      const float* from = x + run * run_length;
      float* to = y + run * run_length;
      if (shift == nullptr) {
        loops.standardise(from, nullptr, nullptr, to, run_length, centre, by);
      } else {
        loops.standardise_to(from, to, run_length, centre, by, shift[first + run]);
      }
    }
  }

  void operator()(std::span<const std::byte* const> inputs, std::byte* output) const {
    const float* x = Floats(inputs[0]);
    const float* scale = inputs.size() > 1 ? Floats(inputs[1]) : nullptr;
    const float* shift = inputs.size() > 2 ? Floats(inputs[2]) : nullptr;
    float* y = Floats(output);
    ParallelFor(rows, rows * row_length(), [&](std::size_t begin, std::size_t end) {
      for (std::size_t row = begin; row < end; ++row) {
        Row(x + row * row_length(), scale, shift, y + row * row_length(), row);
      }
    });
  }
};

// The same for other types, element by element.
template <typename T>
void RunPlain(const NormalizeRun& run, std::span<const std::byte* const> inputs,
              std::byte* output) {
  const auto at = [&](std::size_t i) {
    return i < inputs.size() ? reinterpret_cast<const T*>(inputs[i]) : nullptr;
  };
  const T *x = at(0), *scale = at(1), *shift = at(2);
  auto* y = reinterpret_cast<T*>(output);
  const std::size_t n = run.row_length();
  ParallelFor(run.rows, run.rows * n, [&](std::size_t begin, std::size_t end) {
    for (std::size_t row = begin; row < end; ++row) {
      const T* from = x + row * n;
      double sum = 0, squares = 0;
      for (std::size_t i = 0; run.centred && i < n; ++i) sum += Convert<double>(from[i]);
      const double mean = sum / static_cast<double>(n);
      for (std::size_t i = 0; i < n; ++i) {
        const double distance = Convert<double>(from[i]) - mean;
        squares += distance * distance;
      }
      const double factor = 1.0 / std::sqrt(squares / static_cast<double>(n) + run.epsilon);
      for (std::size_t i = 0; i < n; ++i) {
        const std::size_t parameter =
            run.per_channel ? row % run.groups * run.runs + i / run.run_length : i;
        double value = (Convert<double>(from[i]) - mean) * factor;
        if (scale != nullptr) value *= Convert<double>(scale[parameter]);
        if (shift != nullptr) value += Convert<double>(shift[parameter]);
        y[row * n + i] = Convert<T>(value);
      }
    }
  });
}

using PlainRun = void (*)(const NormalizeRun&, std::span<const std::byte* const>, std::byte*);

// Null for FP32, which has loops, and for what is no floating point type.
PlainRun PlainRunFor(DataType type) {
  switch (type) {
    case DataType::kFloat64:
      return &RunPlain<double>;
    case DataType::kFloat16:
      return &RunPlain<Half>;
    case DataType::kBfloat16:
      return &RunPlain<Bfloat16>;
    default:
      return nullptr;
  }
}

}  // namespace

absl::StatusOr<Kernel> Make(const Normalize& operation, const Problem& problem) {
  const PlainRun plain = PlainRunFor(problem.output().type);
  if (plain == nullptr) SLUICE_RETURN_IF_ERROR(WantType(problem, DataType::kFloat32));
  const Shape& x = problem.output().shape;
  NormalizeRun run{.rows = 0,
                   .groups = 1,
                   .runs = 1,
                   .run_length = 0,
                   .per_channel = operation.per_channel,
                   .centred = operation.centred,
                   .epsilon = operation.epsilon,
                   .loops = problem.loops};
  if (operation.per_channel) {
    run.groups = static_cast<std::size_t>(operation.groups);
    run.rows = static_cast<std::size_t>(x[0]) * run.groups;
    run.runs = static_cast<std::size_t>(x[1]) / run.groups;
    run.run_length = Product(x, 2, x.size());
  } else {
    const auto axis = static_cast<std::size_t>(operation.axis);
    run.rows = Product(x, 0, axis);
    run.run_length = Product(x, axis, x.size());
  }
  if (run.row_length() == 0) run.rows = 0;
  Kernel kernel;
  kernel.name = problem.KernelName(operation.per_channel ? "channels" : "rows");
  kernel.in_place_0 = true;
  kernel.run = [run, plain](std::span<const std::byte* const> inputs, std::byte* output,
                            std::byte*) {
    if (plain == nullptr) {
      run(inputs, output);
    } else {
      plain(run, inputs, output);
    }
  };
  return kernel;
}

}  // namespace sluice::kernels
