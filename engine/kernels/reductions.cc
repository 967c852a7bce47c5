// Reductions and softmax.

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "engine/kernels/makers.h"
#include "engine/kernels/parallel.h"
#include "engine/kernels/reduce_groups.h"
#include "engine/kernels/typed_reductions.h"

namespace sluice::kernels {
namespace {

constexpr std::size_t kColumns = 1024;  // Partial results of a fold, so that they stay in L1.

struct ReduceRun {
  ReduceEntry entry;
  Reduce::Kind kind;
  std::vector<Group> kept, reduced;  // Without the innermost.
  bool inner_reduced;
  std::size_t inner, divisor, elements;

  void Finish(float* y, std::size_t n) const {
    if (kind == Reduce::Kind::kMean) {
      const auto count = static_cast<float>(divisor);
      for (std::size_t i = 0; i < n; ++i) y[i] /= count;
    } else if (kind == Reduce::Kind::kL2) {
      for (std::size_t i = 0; i < n; ++i) y[i] = std::sqrt(y[i]);
    }
  }

  // Each result is the combined total of rows that lie side by side.
  void Rows(const float* x, float* y) const {
    const std::size_t repeats = CountOf(reduced);
    ParallelFor(CountOf(kept), elements, [&](std::size_t begin, std::size_t end) {
      for (std::size_t i = begin; i < end; ++i) {
        const float* from = x + StartOf(kept, i);
        float sum = entry.initial;
        for (std::size_t r = 0; r < repeats; ++r) {
          const float total = entry.total(from + StartOf(reduced, r), inner, entry.initial);
          sum = r == 0 ? total : entry.combine(sum, total);
        }
        y[i] = sum;
      }
      Finish(y + begin, end - begin);
    });
  }

  // Rows of results are folded from rows of the input.
  void Columns(const float* x, float* y) const {
    const std::size_t repeats = CountOf(reduced), blocks = (inner + kColumns - 1) / kColumns;
    ParallelFor(CountOf(kept) * blocks, elements, [&](std::size_t begin, std::size_t end) {
      for (std::size_t item = begin; item < end; ++item) {
        const std::size_t row = item / blocks, start = item % blocks * kColumns;
        const std::size_t n = std::min(kColumns, inner - start);
        const float* from = x + StartOf(kept, row) + start;
        float* to = y + row * inner + start;
        std::fill_n(to, n, entry.initial);
        for (std::size_t r = 0; r < repeats; ++r) entry.fold(from + StartOf(reduced, r), to, n);
        Finish(to, n);
      }
    });
  }
};

}  // namespace

absl::StatusOr<Kernel> Make(const Reduce& operation, const Problem& problem) {
  if (problem.output().type != DataType::kFloat32) return MakeTypedReduce(operation, problem);
  const Shape& shape = problem.input(0).shape;
  std::vector<Group> groups = GroupsOf(operation, shape);
  // Rows of one element where nothing is left of the shape.
  if (groups.empty()) groups.push_back({true, 1, 1});
  const auto elements = static_cast<std::size_t>(ElementCount(shape));
  ReduceRun run{.entry = problem.loops.reduce[static_cast<std::size_t>(operation.kind)],
                .kind = operation.kind,
                .kept = {},
                .reduced = {},
                .inner_reduced = groups.back().reduced,
                .inner = groups.back().size,
                .divisor = 1,
                .elements = elements};
  for (const Group& group : groups) {
    if (group.reduced) run.divisor *= group.size;
  }
  groups.pop_back();
  for (const Group& group : groups) (group.reduced ? run.reduced : run.kept).push_back(group);
  Kernel kernel;
  kernel.name = problem.KernelName(run.inner_reduced ? "rows" : "columns");
  kernel.run = [run = std::move(run)](std::span<const std::byte* const> inputs, std::byte* output,
                                      std::byte*) {
    if (run.inner_reduced) {
      run.Rows(Floats(inputs[0]), Floats(output));
    } else {
      run.Columns(Floats(inputs[0]), Floats(output));
    }
  };
  return kernel;
}

absl::StatusOr<Kernel> Make(const Softmax& operation, const Problem& problem) {
  if (problem.output().type != DataType::kFloat32) return MakeTypedSoftmax(operation, problem);
  const Shape& shape = problem.output().shape;
  const auto axis = static_cast<std::size_t>(operation.axis);
  const std::size_t outer = Product(shape, 0, axis), n = static_cast<std::size_t>(shape[axis]);
  const std::size_t inner = Product(shape, axis + 1, shape.size());
  Kernel kernel;
  kernel.name = problem.KernelName(inner == 1 ? "rows" : "columns");
  kernel.in_place_0 = true;
  kernel.run = [&loops = problem.loops, outer, n, inner, log = operation.log](
                   std::span<const std::byte* const> inputs, std::byte* output, std::byte*) {
    const float* x = Floats(inputs[0]);
    float* y = Floats(output);
    if (n == 0) return;
    const std::size_t blocks = (inner + kSoftmaxColumns - 1) / kSoftmaxColumns;
    ParallelFor(outer * blocks, outer * n * inner, [&](std::size_t begin, std::size_t end) {
      for (std::size_t item = begin; item < end; ++item) {
        const std::size_t start = item % blocks * kSoftmaxColumns;
        const std::size_t at = item / blocks * n * inner + start;
        if (inner == 1) {
          loops.softmax(x + at, y + at, n, log);
        } else {
          const std::size_t width = std::min(kSoftmaxColumns, inner - start);
          loops.softmax_columns(x + at, y + at, n, inner, width, log);
        }
      }
    });
  };
  return kernel;
}

}  // namespace sluice::kernels
