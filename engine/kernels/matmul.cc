// Matrix products of two computed operands: panels of columns, which are packed where they do not
// lie side by side, against all rows.

#include <algorithm>
#include <span>
#include <utility>
#include <vector>

#include "absl/strings/str_format.h"
#include "engine/kernels/makers.h"
#include "engine/kernels/parallel.h"
#include "engine/kernels/typed_products.h"
#include "model/matrix_view.h"

namespace sluice::kernels {
namespace {

constexpr std::size_t kDepth = 256;    // Of a packed panel: 32 KiB at most, on the stack.
constexpr std::size_t kRowBlock = 96;  // Rows of a task, where there are too few panels.

struct MatMulRun : ProductPlan {
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
                   .c = c + static_cast<std::ptrdiff_t>(row) * c_row + column,
                   .c_row = c_row,
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
      // Every permutation of the result has as many elements.
      std::fill_n(c, batches.size() * rows * columns, 0.0f);
      return;
    }
    const std::size_t panels = (columns + loops.panel_columns - 1) / loops.panel_columns;
    const bool split_rows = batches.size() * panels < 4 * TeamSize();
    const std::size_t row_block = split_rows ? kRowBlock : std::max<std::size_t>(1, rows);
    const std::size_t row_blocks = (rows + row_block - 1) / row_block;
    const std::size_t tasks = batches.size() * panels * row_blocks;
    ParallelFor(tasks, batches.size() * rows * columns * depth,
                [&](std::size_t begin, std::size_t end) {
                  for (std::size_t task = begin; task < end; ++task) {
                    const std::size_t batch = task / (panels * row_blocks);
                    const std::size_t panel = task / row_blocks % panels;
                    const std::size_t row = task % row_blocks * row_block;
                    Task(a + batches[batch].a, b + batches[batch].b, c + batches[batch].c, row,
                         std::min(row_block, rows - row), panel * loops.panel_columns);
                  }
                });
  }
};

// Where matrix number `batch` of a result with batch dimensions `result` starts in a view.
std::size_t StartOf(const MatrixView& view, std::span<const std::int64_t> result,
                    std::size_t batch) {
  std::size_t start = 0;
  for (std::size_t d = 0; d < result.size(); ++d) {
    const auto size = static_cast<std::size_t>(result[result.size() - 1 - d]);
    const std::size_t position = batch % size;
    batch /= size;
    if (d + 2 >= view.shape.size()) continue;
    const std::size_t own = view.shape.size() - 3 - d;
    if (view.shape[own] != 1) start += position * static_cast<std::size_t>(view.strides[own]);
  }
  return start;
}

}  // namespace

absl::StatusOr<Kernel> Make(const MatMul& operation, const Problem& problem) {
  if (IsOfBytes(problem)) return MakeOfBytes(operation, problem);
  const MatrixView a = ViewA(operation, problem.input(0).shape);
  const MatrixView b = ViewB(operation, problem.input(1).shape);
  const MatrixView y = ViewProduct(operation, problem.output().shape);
  const auto from_end = [](const std::vector<std::int64_t>& entries, std::size_t i) {
    return static_cast<std::ptrdiff_t>(entries[entries.size() - i]);
  };
  ProductPlan plan{.rows = static_cast<std::size_t>(from_end(y.shape, 2)),
                   .columns = static_cast<std::size_t>(from_end(y.shape, 1)),
                   .depth = static_cast<std::size_t>(from_end(a.shape, 1)),
                   .batches = {},
                   .a_row = from_end(a.strides, 2),
                   .a_depth = from_end(a.strides, 1),
                   .b_depth = from_end(b.strides, 2),
                   .b_column = from_end(b.strides, 1),
                   .c_row = from_end(y.strides, 2),
                   .alpha = operation.alpha};
  const std::span result(y.shape.data(), y.shape.size() - 2);
  const std::size_t batches = Product(y.shape, 0, y.shape.size() - 2);
  for (std::size_t i = 0; i < batches; ++i) {
    plan.batches.push_back({StartOf(a, result, i), StartOf(b, result, i), StartOf(y, result, i)});
  }
  if (problem.output().type != DataType::kFloat32) {
    return MakeTypedProduct(std::move(plan), problem);
  }
  Kernel kernel;
  kernel.name = problem.KernelName("panels");
  kernel.run = [run = MatMulRun{std::move(plan), problem.loops}](
                   std::span<const std::byte* const> inputs, std::byte* output, std::byte*) {
    run(Floats(inputs[0]), Floats(inputs[1]), Floats(output));
  };
  return kernel;
}

absl::StatusOr<Kernel> Make(const FullyConnected& operation, const Problem& problem) {
  if (!operation.epilogues.empty()) {
    return absl::UnimplementedError(
        absl::StrFormat("%s: no kernel with a tail", Name(problem.node.operation)));
  }
  const Shape& y = problem.output().shape;
  const std::size_t depth = Product(problem.input(0).shape, y.size() - 1, y.size());
  const std::size_t columns = Product(y, y.size() - 1, y.size());
  const auto stride = [](bool along, std::size_t size) {
    return static_cast<std::ptrdiff_t>(along ? 1 : size);
  };
  return MakeTypedProduct({.rows = Product(y, 0, y.size() - 1),
                           .columns = columns,
                           .depth = depth,
                           .batches = {{0, 0, 0}},
                           .a_row = static_cast<std::ptrdiff_t>(depth),
                           .a_depth = 1,
                           .b_depth = stride(operation.transposed_b, columns),
                           .b_column = stride(!operation.transposed_b, depth),
                           .c_row = static_cast<std::ptrdiff_t>(columns),
                           .alpha = 1},
                          problem);
}

}  // namespace sluice::kernels
