// Operations that move elements of any type without looking at them.

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <utility>
#include <vector>

#include "absl/strings/str_format.h"
#include "engine/kernels/makers.h"
#include "engine/kernels/parallel.h"
#include "engine/kernels/strided_copy.h"

namespace sluice::kernels {
namespace {

std::size_t ElementSize(const Problem& problem) {
  return static_cast<std::size_t>(SizeOf(problem.output().type).count());
}

// How far apart neighbours along each dimension of a row-major tensor lie.
std::vector<std::ptrdiff_t> StridesOf(std::span<const std::int64_t> shape) {
  std::vector<std::ptrdiff_t> strides(shape.size());
  std::ptrdiff_t stride = 1;
  for (std::size_t d = shape.size(); d-- > 0;) {
    strides[d] = stride;
    stride *= static_cast<std::ptrdiff_t>(shape[d]);
  }
  return strides;
}

// Fills the whole output: `from` has the source's stride along each dimension of the output.
Kernel CopyKernel(const Problem& problem, std::span<const std::ptrdiff_t> from,
                  std::ptrdiff_t start) {
  const Shape& shape = problem.output().shape;
  const std::vector<std::ptrdiff_t> to = StridesOf(shape);
  std::vector<CopyDim> dims;
  for (std::size_t d = 0; d < shape.size(); ++d) {
    dims.push_back({static_cast<std::size_t>(shape[d]), from[d], to[d]});
  }
  StridedCopy copy(ElementSize(problem), std::move(dims), start, 0);
  Kernel kernel;
  kernel.name = problem.KernelName(copy.method());
  kernel.run = [copy = std::move(copy)](std::span<const std::byte* const> inputs, std::byte* output,
                                        std::byte*) { copy.Run(inputs[0], output); };
  return kernel;
}

}  // namespace

absl::StatusOr<Kernel> Make(const Reshape&, const Problem& problem) {
  Kernel kernel = CopyKernel(problem, StridesOf(problem.output().shape), 0);
  kernel.in_place_0 = true;
  kernel.run = [run = std::move(kernel.run)](std::span<const std::byte* const> inputs,
                                             std::byte* output, std::byte* scratch) {
    if (inputs[0] != output) run(inputs, output, scratch);
  };
  return kernel;
}

absl::StatusOr<Kernel> Make(const Transpose& operation, const Problem& problem) {
  const std::vector<std::ptrdiff_t> strides = StridesOf(problem.input(0).shape);
  std::vector<std::ptrdiff_t> from;
  for (const std::int64_t d : operation.perm) from.push_back(strides[static_cast<std::size_t>(d)]);
  return CopyKernel(problem, from, 0);
}

absl::StatusOr<Kernel> Make(const Slice& operation, const Problem& problem) {
  std::vector<std::ptrdiff_t> from = StridesOf(problem.input(0).shape);
  std::ptrdiff_t start = 0;
  for (std::size_t d = 0; d < from.size(); ++d) {
    start += operation.starts[d] * from[d];
    from[d] *= operation.steps[d];
  }
  return CopyKernel(problem, from, start);
}

absl::StatusOr<Kernel> Make(const Expand&, const Problem& problem) {
  const Shape &in = problem.input(0).shape, &out = problem.output().shape;
  const std::vector<std::ptrdiff_t> strides = StridesOf(in);
  std::vector<std::ptrdiff_t> from(out.size(), 0);
  const std::size_t missing = out.size() - in.size();
  for (std::size_t d = 0; d < in.size(); ++d) from[missing + d] = in[d] == 1 ? 0 : strides[d];
  return CopyKernel(problem, from, 0);
}

absl::StatusOr<Kernel> Make(const Concat& operation, const Problem& problem) {
  const Shape& out = problem.output().shape;
  const auto axis = static_cast<std::size_t>(operation.axis);
  const std::size_t outer = Product(out, 0, axis), inner = Product(out, axis + 1, out.size());
  const auto pitch = static_cast<std::ptrdiff_t>(inner * static_cast<std::size_t>(out[axis]));
  std::vector<StridedCopy> parts;
  std::ptrdiff_t start = 0;
  for (std::size_t i = 0; i < problem.node.inputs.size(); ++i) {
    const std::size_t run = inner * static_cast<std::size_t>(problem.input(i).shape[axis]);
    const auto length = static_cast<std::ptrdiff_t>(run);
    parts.emplace_back(ElementSize(problem),
                       std::vector<CopyDim>{{outer, length, pitch}, {run, 1, 1}}, 0, start);
    start += length;
  }
  Kernel kernel;
  kernel.name = problem.KernelName("rows");
  kernel.run = [parts = std::move(parts)](std::span<const std::byte* const> inputs,
                                          std::byte* output, std::byte*) {
    for (std::size_t i = 0; i < parts.size(); ++i) parts[i].Run(inputs[i], output);
  };
  return kernel;
}

absl::StatusOr<Kernel> Make(const Gather& operation, const Problem& problem) {
  const Value &x = problem.input(0), &indices = problem.input(1);
  if (indices.type != DataType::kInt32 && indices.type != DataType::kInt64) {
    return absl::UnimplementedError(absl::StrFormat(
        "gather: got indices of type %s, want INT32 or INT64", ProtocolName(indices.type)));
  }
  const auto axis = static_cast<std::size_t>(operation.axis);
  Kernel kernel;
  kernel.name = problem.KernelName("rows");
  kernel.run = [outer = Product(x.shape, 0, axis), size = x.shape[axis],
                count = static_cast<std::size_t>(ElementCount(indices.shape)),
                run = Product(x.shape, axis + 1, x.shape.size()) * ElementSize(problem),
                wide = indices.type == DataType::kInt64](std::span<const std::byte* const> inputs,
                                                         std::byte* output, std::byte*) {
    if (run == 0) return;
    ParallelFor(outer * count, outer * count * run, [&](std::size_t begin, std::size_t end) {
      for (std::size_t item = begin; item < end; ++item) {
        const std::size_t i = item % count;
        std::int64_t index = wide ? reinterpret_cast<const std::int64_t*>(inputs[1])[i]
                                  : reinterpret_cast<const std::int32_t*>(inputs[1])[i];
        if (index < 0) index += size;
        // Indices come from a caller: what is out of range must not be read.
        if (index < 0 || index >= size) {
          std::memset(output + item * run, 0, run);
          continue;
        }
        const std::size_t row =
            item / count * static_cast<std::size_t>(size) + static_cast<std::size_t>(index);
        std::memcpy(output + item * run, inputs[0] + row * run, run);
      }
    });
  };
  return kernel;
}

}  // namespace sluice::kernels
