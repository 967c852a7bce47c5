// Resize: for each dimension a table of input positions and weights; rows are blended along the
// outer dimensions, then sampled along the innermost.

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>
#include <vector>

#include "absl/strings/str_format.h"
#include "base/status_macros.h"
#include "engine/kernels/makers.h"
#include "engine/kernels/parallel.h"

namespace sluice::kernels {
namespace {

// What each output position of a dimension takes: taps lie side by side, at[tap * out + o].
struct Axis {
  std::size_t in, out, taps;
  std::vector<std::int32_t> at;
  std::vector<float> weights;
};

// In single precision, as the formats' runtimes compute it.
float Coordinate(Resize::Coordinates kind, float o, float scale, float in, float out) {
  switch (kind) {
    case Resize::Coordinates::kPytorchHalfPixel:
      if (out <= 1) return 0.0f;
      [[fallthrough]];
    case Resize::Coordinates::kHalfPixel:
      return (o + 0.5f) / scale - 0.5f;
    case Resize::Coordinates::kAlignCorners:
      return out <= 1 ? 0.0f : o * (in - 1) / (out - 1);
    case Resize::Coordinates::kAsymmetric:
      return o / scale;
  }
  return o;
}

float Rounded(Resize::Rounding rounding, float x) {
  switch (rounding) {
    case Resize::Rounding::kRoundPreferFloor:
      return std::ceil(x - 0.5f);
    case Resize::Rounding::kRoundPreferCeil:
      return std::floor(x + 0.5f);
    case Resize::Rounding::kFloor:
      return std::floor(x);
    case Resize::Rounding::kCeil:
      return std::ceil(x);
  }
  return x;
}

// Weights of the taps around a position that lies `t` behind the second of four.
void CubicWeights(float t, float a, float* weights) {
  const auto near = [a](float d) { return ((a + 2) * d - (a + 3)) * d * d + 1; };
  const auto far = [a](float d) { return ((a * d - 5 * a) * d + 8 * a) * d - 4 * a; };
  weights[0] = far(1 + t);
  weights[1] = near(t);
  weights[2] = near(1 - t);
  weights[3] = far(2 - t);
}

Axis MakeAxis(const Resize& operation, std::size_t d, std::int64_t in, std::int64_t out) {
  const bool same = in == out && operation.scales[d] == 1.0f;
  const std::size_t taps = same || operation.mode == Resize::Mode::kNearest ? 1
                           : operation.mode == Resize::Mode::kLinear        ? 2
                                                                            : 4;
  const auto count = static_cast<std::size_t>(out);
  Axis axis{static_cast<std::size_t>(in), count, taps, std::vector<std::int32_t>(taps * count),
            std::vector<float>(taps * count)};
  for (std::size_t o = 0; o < count; ++o) {
    const float x =
        same ? static_cast<float>(o)
             : Coordinate(operation.coordinates, static_cast<float>(o), operation.scales[d],
                          static_cast<float>(in), static_cast<float>(out));
    float weights[4] = {1, 0, 0, 0}, first = x;
    if (taps == 1) {
      first = same ? x : Rounded(operation.rounding, x);
    } else if (taps == 2) {
      first = std::floor(x);
      weights[1] = x - first;
      weights[0] = 1 - weights[1];
    } else {
      first = std::floor(x) - 1;
      CubicWeights(x - std::floor(x), operation.cubic_coefficient, weights);
    }
    for (std::size_t t = 0; t < taps; ++t) {
      const std::int64_t at = static_cast<std::int64_t>(first) + static_cast<std::int64_t>(t);
      axis.at[t * count + o] = static_cast<std::int32_t>(
          std::clamp(at, std::int64_t{0}, std::max(in, std::int64_t{1}) - 1));
      axis.weights[t * count + o] = weights[t];
    }
  }
  return axis;
}

constexpr std::size_t kMaxTaps = 64;  // Cubic in three dimensions.

struct ResizeRun {
  std::size_t outer;        // Dimensions before the first that changes.
  std::vector<Axis> axes;   // Those that are blended, outermost first.
  std::optional<Axis> row;  // The innermost, when it changes itself.
  std::size_t width;        // Elements of an input row.
  std::size_t rows;         // Input rows of one of `outer`.
  std::size_t team, elements;
  const Loops& loops;

  // The rows that position `index` of the blended dimensions takes, and how much of each.
  std::size_t Gather(const float* x, std::size_t index, const float** from, float* weights) const {
    std::size_t count = 1, stride = width;
    from[0] = x;
    weights[0] = 1.0f;
    for (std::size_t d = axes.size(); d-- > 0;) {
      const Axis& axis = axes[d];
      const std::size_t o = index % axis.out;
      index /= axis.out;
      for (std::size_t t = axis.taps; t-- > 0;) {  // The first last: it overwrites what is read.
        const std::size_t at = static_cast<std::size_t>(axis.at[t * axis.out + o]) * stride;
        for (std::size_t i = 0; i < count; ++i) {
          from[t * count + i] = from[i] + at;
          weights[t * count + i] = weights[i] * axis.weights[t * axis.out + o];
        }
      }
      count *= axis.taps;
      stride *= axis.in;
    }
    return count;
  }

  void operator()(const float* x, float* y, float* scratch) const {
    std::size_t positions = 1;
    for (const Axis& axis : axes) positions *= axis.out;
    const std::size_t out_width = row.has_value() ? row->out : width;
    const auto part = [&](std::size_t begin, std::size_t end, std::size_t worker) {
      const float* from[kMaxTaps];
      float weights[kMaxTaps];
      float* blended = scratch + worker * width;
      for (std::size_t item = begin; item < end; ++item) {
        const float* plane = x + item / positions * rows * width;
        const std::size_t count = Gather(plane, item % positions, from, weights);
        float* to = y + item * out_width;
        if (!row.has_value()) {
          loops.blend(from, weights, count, to, width);
          continue;
        }
        const float* line = from[0];
        if (count > 1) {
          loops.blend(from, weights, count, blended, width);
          line = blended;
        }
        loops.sample(line, row->at.data(), row->weights.data(), row->taps, to, row->out);
      }
    };
    ParallelForWorkers(outer * positions, elements, team, part);
  }
};

}  // namespace

absl::StatusOr<Kernel> Make(const Resize& operation, const Problem& problem) {
  SLUICE_RETURN_IF_ERROR(WantType(problem, DataType::kFloat32));
  const Shape &in = problem.input(0).shape, &out = problem.output().shape;
  const auto changes = [&](std::size_t d) {
    return in[d] != out[d] || operation.scales[d] != 1.0f;
  };
  std::size_t begin = 0, end = in.size();
  while (begin < end && !changes(begin)) ++begin;
  while (end > begin && !changes(end - 1)) --end;
  ResizeRun run{.outer = Product(out, 0, begin),
                .axes = {},
                .row = {},
                .width = Product(in, end, in.size()),
                .rows = 1,
                .team = TeamSize(),
                .elements = problem.count(),
                .loops = problem.loops};
  if (end == in.size() && end > begin) {
    run.row = MakeAxis(operation, end - 1, in[end - 1], out[end - 1]);
    run.width = static_cast<std::size_t>(in[--end]);
  }
  std::size_t taps = 1;
  for (std::size_t d = begin; d < end; ++d) {
    if (in[d] > std::numeric_limits<std::int32_t>::max()) {
      return absl::UnimplementedError(absl::StrFormat("resize: got a dimension of %d", in[d]));
    }
    run.axes.push_back(MakeAxis(operation, d, in[d], out[d]));
    run.rows *= run.axes.back().in;
    taps *= run.axes.back().taps;
  }
  if (taps > kMaxTaps) {
    return absl::UnimplementedError(absl::StrFormat(
        "resize: got %d rows for each output row, want at most %d", taps, kMaxTaps));
  }
  Kernel kernel;
  kernel.name = problem.KernelName(run.row.has_value() ? "rows" : "blend");
  if (run.row.has_value() && taps > 1) {
    kernel.scratch = Bytes::Of(run.team * run.width * sizeof(float));
  }
  kernel.run = [run = std::move(run), empty = problem.count() == 0](
                   std::span<const std::byte* const> inputs, std::byte* output,
                   std::byte* scratch) {
    if (!empty) run(Floats(inputs[0]), Floats(output), Floats(scratch));
  };
  return kernel;
}

}  // namespace sluice::kernels
