// Resize: for each dimension a table of input positions and weights; rows are blended along the
// outer dimensions, then sampled along the innermost.

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_format.h"
#include "base/status_macros.h"
#include "engine/kernels/makers.h"
#include "engine/kernels/parallel.h"
#include "engine/kernels/resize_axis.h"

namespace sluice::kernels {
namespace {

constexpr std::size_t kMaxTaps = 64;  // Cubic in three dimensions.

struct ResizeRun {
  std::size_t outer;              // Dimensions before the first that changes.
  std::vector<ResizeAxis> axes;   // Those that are blended, outermost first.
  std::optional<ResizeAxis> row;  // The innermost, when it changes itself.
  std::size_t width;              // Elements of an input row.
  std::size_t rows;               // Input rows of one of `outer`.
  std::size_t team, elements;
  const Loops& loops;

  // The rows that position `index` of the blended dimensions takes, and how much of each.
  std::size_t Gather(const float* x, std::size_t index, const float** from, float* weights) const {
    std::size_t count = 1, stride = width;
    from[0] = x;
    weights[0] = 1.0f;
    for (std::size_t d = axes.size(); d-- > 0;) {
      const ResizeAxis& axis = axes[d];
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
    for (const ResizeAxis& axis : axes) positions *= axis.out;
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
  const Shape &in = problem.input(0).shape, &out = problem.output().shape;
  const auto changes = [&](std::size_t d) { return !IsIdentity(operation, d, in[d], out[d]); };
  std::size_t begin = 0, end = in.size();
  while (begin < end && !changes(begin)) ++begin;
  while (end > begin && !changes(end - 1)) --end;
  std::size_t taps = 1;
  for (std::size_t d = begin; d < end; ++d) {
    if (std::max(in[d], out[d]) > kMostResized) {
      return absl::UnimplementedError(
          absl::StrFormat("resize: got a dimension of %d, resized to %d", in[d], out[d]));
    }
    taps *= ResizeTaps(operation, d, in[d], out[d]);
    if (taps > kMaxTaps) break;
  }
  if (problem.output().type != DataType::kFloat32 || taps > kMaxTaps || operation.antialias ||
      operation.coordinates == Resize::Coordinates::kTfCropAndResize) {
    return MakeAnyResize(operation, problem);
  }
  ResizeRun run{.outer = Product(out, 0, begin),
                .axes = {},
                .row = {},
                .width = Product(in, end, in.size()),
                .rows = 1,
                .team = TeamSize(),
                .elements = problem.count(),
                .loops = problem.loops};
  if (end == in.size() && end > begin) {
    run.row = MakeResizeAxis(operation, end - 1, in[end - 1], out[end - 1]);
    run.width = static_cast<std::size_t>(in[--end]);
  }
  bool blends = false;
  for (std::size_t d = begin; d < end; ++d) {
    run.axes.push_back(MakeResizeAxis(operation, d, in[d], out[d]));
    run.rows *= run.axes.back().in;
    blends = blends || run.axes.back().taps > 1;
  }
  Kernel kernel;
  kernel.name = problem.KernelName(run.row.has_value() ? "rows" : "blend");
  if (run.row.has_value() && blends) {
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
