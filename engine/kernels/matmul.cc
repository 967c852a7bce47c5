// Matrix products of two computed operands: panels of columns, which are packed where they do not
// lie side by side, against all rows.

#include <algorithm>
#include <utility>
#include <vector>

#include "base/status_macros.h"
#include "engine/kernels/makers.h"
#include "engine/kernels/parallel.h"

namespace sluice::kernels {
namespace {

constexpr std::size_t kDepth = 256;    // Of a packed panel: 32 KiB at most, on the stack.
constexpr std::size_t kRowBlock = 96;  // Rows of a task, where there are too few panels.

struct MatMulRun {
  std::size_t rows, columns, depth;
  std::vector<std::pair<std::size_t, std::size_t>> batches;  // Where each pair of operands starts.
  std::ptrdiff_t a_row, a_depth, b_depth, b_column;          // Strides in elements.
  float alpha;
  const Loops& loops;

  void Pack(const float* b, std::size_t depth_count, std::size_t count, float* packed) const {
    const std::size_t width = loops.panel_columns;
    for (std::size_t j = 0; j < width; ++j) {
      const float* from = b + static_cast<std::ptrdiff_t>(j) * b_column;
      for (std::size_t k = 0; k < depth_count; ++k) {
        packed[k * width + j] = j < count ? from[static_cast<std::ptrdiff_t>(k) * b_depth] : 0.0f;
      }
    }
  }

  // Rows [row, row + row_count) of one panel of columns.
  void Task(const float* a, const float* b, float* c, std::size_t row, std::size_t row_count,
            std::size_t column) const {
    const std::size_t width = loops.panel_columns, count = std::min(width, columns - column);
    const bool in_place = b_column == 1 && count == width;
    alignas(64) float packed[kDepth * kMaxPanelColumns];
    for (std::size_t k = 0; k < depth; k += kDepth) {
      const std::size_t depth_count = std::min(kDepth, depth - k);
      const float* from = b + static_cast<std::ptrdiff_t>(k) * b_depth +
                          static_cast<std::ptrdiff_t>(column) * b_column;
      if (!in_place) Pack(from, depth_count, count, packed);
      loops.panel({.a = a + static_cast<std::ptrdiff_t>(row) * a_row +
                        static_cast<std::ptrdiff_t>(k) * a_depth,
                   .a_row = a_row,
                   .a_depth = a_depth,
                   .b = in_place ? from : packed,
                   .b_row = in_place ? b_depth : static_cast<std::ptrdiff_t>(width),
                   .c = c + row * columns + column,
                   .c_row = static_cast<std::ptrdiff_t>(columns),
                   .rows = row_count,
                   .depth = depth_count,
                   .columns = count,
                   .alpha = alpha,
                   .first = k == 0,
                   .last = k + kDepth >= depth});
    }
  }

  void operator()(const float* a, const float* b, float* c) const {
    if (depth == 0) {
      std::fill_n(c, batches.size() * rows * columns, 0.0f);
      return;
    }
    const std::size_t panels = (columns + loops.panel_columns - 1) / loops.panel_columns;
    const bool split_rows = batches.size() * panels < 4 * TeamSize();
    const std::size_t row_block = split_rows ? kRowBlock : std::max<std::size_t>(1, rows);
    const std::size_t row_blocks = (rows + row_block - 1) / row_block;
    const std::size_t tasks = batches.size() * panels * row_blocks;
    ParallelFor(
        tasks, batches.size() * rows * columns * depth, [&](std::size_t begin, std::size_t end) {
          for (std::size_t task = begin; task < end; ++task) {
            const std::size_t batch = task / (panels * row_blocks);
            const std::size_t panel = task / row_blocks % panels;
            const std::size_t row = task % row_blocks * row_block;
            Task(a + batches[batch].first, b + batches[batch].second, c + batch * rows * columns,
                 row, std::min(row_block, rows - row), panel * loops.panel_columns);
          }
        });
  }
};

// Where the operand of each result matrix starts, in matrices.
std::size_t BatchIndex(std::span<const std::int64_t> operand, std::span<const std::int64_t> result,
                       std::size_t batch) {
  std::size_t index = 0, stride = 1;
  for (std::size_t d = 0; d < result.size(); ++d) {
    const auto size = static_cast<std::size_t>(result[result.size() - 1 - d]);
    const std::size_t position = batch % size;
    batch /= size;
    if (d >= operand.size()) continue;
    const auto own = static_cast<std::size_t>(operand[operand.size() - 1 - d]);
    if (own != 1) index += position * stride;
    stride *= own;
  }
  return index;
}

}  // namespace

absl::StatusOr<Kernel> Make(const MatMul& operation, const Problem& problem) {
  SLUICE_RETURN_IF_ERROR(WantType(problem, DataType::kFloat32));
  const std::span<const std::int64_t> a = problem.input(0).shape, b = problem.input(1).shape;
  const std::span<const std::int64_t> y = problem.output().shape;
  const auto rows = static_cast<std::size_t>(y[y.size() - 2]);
  const auto columns = static_cast<std::size_t>(y[y.size() - 1]);
  const auto depth = static_cast<std::size_t>(a[a.size() - (operation.transposed_a ? 2 : 1)]);
  const auto stride = [](bool along, std::size_t size) {
    return static_cast<std::ptrdiff_t>(along ? 1 : size);
  };
  MatMulRun run{.rows = rows,
                .columns = columns,
                .depth = depth,
                .batches = {},
                .a_row = stride(operation.transposed_a, depth),
                .a_depth = stride(!operation.transposed_a, rows),
                .b_depth = stride(operation.transposed_b, columns),
                .b_column = stride(!operation.transposed_b, depth),
                .alpha = operation.alpha,
                .loops = problem.loops};
  const std::size_t batches = Product(y, 0, y.size() - 2);
  for (std::size_t i = 0; i < batches; ++i) {
    const auto result = y.first(y.size() - 2);
    run.batches.emplace_back(BatchIndex(a.first(a.size() - 2), result, i) * rows * depth,
                             BatchIndex(b.first(b.size() - 2), result, i) * depth * columns);
  }
  Kernel kernel;
  kernel.name = problem.KernelName("panels");
  kernel.run = [run = std::move(run)](std::span<const std::byte* const> inputs, std::byte* output,
                                      std::byte*) {
    run(Floats(inputs[0]), Floats(inputs[1]), Floats(output));
  };
  return kernel;
}

}  // namespace sluice::kernels
