// Pad: every output position of a dimension shows an input position, or the constant.

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <type_traits>
#include <utility>
#include <vector>

#include "engine/kernels/element.h"
#include "engine/kernels/makers.h"
#include "engine/kernels/parallel.h"

namespace sluice::kernels {
namespace {

constexpr std::int64_t kConstant = -1;

// The input position that position i - begin of the padded dimension shows, or kConstant.
std::int64_t SourceOf(std::int64_t i, std::int64_t size, Pad::Mode mode) {
  if (i >= 0 && i < size) return i;
  if (mode == Pad::Mode::kConstant || size == 0) return kConstant;
  if (mode == Pad::Mode::kEdge) return i < 0 ? 0 : size - 1;
  if (mode == Pad::Mode::kWrap) return (i % size + size) % size;
  while (size > 1 && (i < 0 || i >= size)) i = i < 0 ? -i : 2 * (size - 1) - i;
  return size == 1 ? 0 : i;
}

// One dimension that is padded, or lies between two that are.
struct Axis {
  std::vector<std::int64_t> source;
  std::size_t in_block, out_block;  // Bytes of one position, in the input and in the output.
};

struct PadRun {
  std::vector<Axis> axes;  // Outermost first.
  std::size_t outer, in_bytes, out_bytes;
  std::byte value[8];
  std::size_t element;

  void FillConstant(const std::byte* constant, std::byte* to, std::size_t bytes) const {
    for (std::size_t i = 0; i < bytes; i += element) std::memcpy(to + i, constant, element);
  }

  // Copies runs of neighbouring positions at once along the innermost dimension.
  void Row(const Axis& axis, const std::byte* constant, const std::byte* from,
           std::byte* to) const {
    const std::size_t n = axis.source.size();
    for (std::size_t i = 0; i < n;) {
      std::size_t j = i + 1;
      if (axis.source[i] == kConstant) {
        while (j < n && axis.source[j] == kConstant) ++j;
        FillConstant(constant, to + i * axis.out_block, (j - i) * axis.out_block);
      } else {
        while (j < n && axis.source[j] == axis.source[j - 1] + 1) ++j;
        std::memcpy(to + i * axis.out_block,
                    from + static_cast<std::size_t>(axis.source[i]) * axis.in_block,
                    (j - i) * axis.in_block);
      }
      i = j;
    }
  }

  void Fill(std::size_t d, const std::byte* constant, const std::byte* from, std::byte* to) const {
    const Axis& axis = axes[d];
    if (d + 1 == axes.size()) return Row(axis, constant, from, to);
    for (const std::int64_t source : axis.source) {
      if (source == kConstant) {
        FillConstant(constant, to, axis.out_block);
      } else {
        Fill(d + 1, constant, from + static_cast<std::size_t>(source) * axis.in_block, to);
      }
      to += axis.out_block;
    }
  }

  void operator()(const std::byte* x, const std::byte* constant, std::byte* y) const {
    ParallelFor(outer, outer * out_bytes / element, [&](std::size_t begin, std::size_t end) {
      for (std::size_t i = begin; i < end; ++i)
        Fill(0, constant, x + i * in_bytes, y + i * out_bytes);
    });
  }
};

// The constant in the element type.
void StoreConstant(DataType type, float x, std::byte* value) {
  WithElement(type, [&]<typename T>() {
    if constexpr (std::is_same_v<T, Truth>) {
      value[0] = std::byte{x != 0};
    } else {
      const T element = Convert<T>(x);
      std::memcpy(value, &element, sizeof(element));
    }
  });
}

}  // namespace

absl::StatusOr<Kernel> Make(const Pad& operation, const Problem& problem) {
  const Shape &in = problem.input(0).shape, &out = problem.output().shape;
  PadRun run{.axes = {}, .outer = 1, .in_bytes = 0, .out_bytes = 0, .value = {}, .element = 1};
  run.element = static_cast<std::size_t>(SizeOf(problem.output().type).count());
  StoreConstant(problem.output().type, operation.value, run.value);
  const auto padded = [&](std::size_t d) { return operation.begin[d] + operation.end[d] > 0; };
  std::size_t begin = 0, end = in.size();
  while (begin < end && !padded(begin)) ++begin;
  while (end > begin && !padded(end - 1)) --end;
  run.outer = Product(in, 0, begin);
  run.in_bytes = Product(in, begin, in.size()) * run.element;
  run.out_bytes = Product(out, begin, out.size()) * run.element;
  for (std::size_t d = begin; d < end; ++d) {
    Axis axis{.source = {},
              .in_block = Product(in, d + 1, in.size()) * run.element,
              .out_block = Product(out, d + 1, out.size()) * run.element};
    for (std::int64_t i = 0; i < out[d]; ++i) {
      axis.source.push_back(SourceOf(i - operation.begin[d], in[d], operation.mode));
    }
    run.axes.push_back(std::move(axis));
  }
  if (run.axes.empty()) return Make(Reshape{}, problem);
  Kernel kernel;
  kernel.name = problem.KernelName("");
  kernel.run = [run = std::move(run)](std::span<const std::byte* const> inputs, std::byte* output,
                                      std::byte*) {
    const bool given = inputs.size() > 1 && inputs[1] != nullptr;
    run(inputs[0], given ? inputs[1] : run.value, output);
  };
  return kernel;
}

}  // namespace sluice::kernels
