// Unary, binary and per-channel arithmetic: rows of the innermost dimension go to the loops.

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>
#include <vector>

#include "absl/strings/str_format.h"
#include "base/status_macros.h"
#include "engine/kernels/makers.h"
#include "engine/kernels/parallel.h"

namespace sluice::kernels {
namespace {

constexpr std::size_t kBlock = 4096;  // Elements that one call of a loop takes; fits L1.

// One dimension of the result, and how far its operands move along it: 0 where they repeat.
struct Dim {
  std::size_t size, a, b;
};

// The fewest dimensions that describe the broadcast, outermost first; at least one.
std::vector<Dim> Collapse(std::span<const std::int64_t> a, std::span<const std::int64_t> b,
                          std::span<const std::int64_t> y) {
  std::vector<Dim> dims;  // Innermost first while building.
  std::size_t stride_a = 1, stride_b = 1;
  const auto size_at = [](std::span<const std::int64_t> shape, std::size_t from_end) {
    return from_end < shape.size() ? static_cast<std::size_t>(shape[shape.size() - 1 - from_end])
                                   : std::size_t{1};
  };
  for (std::size_t d = 0; d < y.size(); ++d) {
    const std::size_t size = size_at(y, d), in_a = size_at(a, d), in_b = size_at(b, d);
    if (size != 1) {
      const Dim dim{size, in_a == 1 ? 0 : stride_a, in_b == 1 ? 0 : stride_b};
      if (!dims.empty() && dim.a == dims.back().a * dims.back().size &&
          dim.b == dims.back().b * dims.back().size) {
        dims.back().size *= size;
      } else {
        dims.push_back(dim);
      }
    }
    stride_a *= in_a;
    stride_b *= in_b;
  }
  if (dims.empty()) dims.push_back({1, 1, 1});
  std::ranges::reverse(dims);
  return dims;
}

template <typename T>
struct BroadcastRun {
  BinaryEntry<T> entry;
  std::vector<Dim> outer;
  Dim inner;
  std::size_t count;

  void operator()(std::span<const std::byte* const> inputs, std::byte* output) const {
    const auto* a = reinterpret_cast<const T*>(inputs[0]);
    const auto* b = reinterpret_cast<const T*>(inputs[1]);
    auto* y = reinterpret_cast<T*>(output);
    if (count == 0) return;
    const auto loop = inner.a == 0 ? entry.scalar_a : inner.b == 0 ? entry.scalar_b : entry.both;
    const std::size_t rows = count / inner.size, blocks = (inner.size + kBlock - 1) / kBlock;
    ParallelFor(rows * blocks, count, [&](std::size_t begin, std::size_t end) {
      for (std::size_t item = begin; item < end; ++item) {
        const std::size_t row = item / blocks, start = item % blocks * kBlock;
        std::size_t rest = row, at_a = 0, at_b = 0;
        for (std::size_t d = outer.size(); d-- > 0;) {
          const std::size_t index = rest % outer[d].size;
          rest /= outer[d].size;
          at_a += index * outer[d].a;
          at_b += index * outer[d].b;
        }
        loop(a + at_a + start * inner.a, b + at_b + start * inner.b, y + row * inner.size + start,
             std::min(kBlock, inner.size - start));
      }
    });
  }
};

template <typename T>
absl::StatusOr<Kernel> MakeBroadcast(const BinaryEntry<T>& entry, const Problem& problem) {
  if (entry.both == nullptr) {
    return absl::UnimplementedError(absl::StrFormat("%s: no kernel for element type %s", entry.name,
                                                    ProtocolName(problem.output().type)));
  }
  const Value &a = problem.input(0), &b = problem.input(1);
  std::vector<Dim> dims = Collapse(a.shape, b.shape, problem.output().shape);
  const Dim inner = dims.back();
  dims.pop_back();
  Kernel kernel;
  kernel.name = problem.KernelName(inner.a == 0 || inner.b == 0 ? "by scalar" : "");
  kernel.in_place_0 = ElementCount(a.shape) == problem.count();
  kernel.in_place_1 = ElementCount(b.shape) == problem.count();
  const BroadcastRun<T> run{entry, std::move(dims), inner, problem.count()};
  kernel.run = [run](std::span<const std::byte* const> inputs, std::byte* output, std::byte*) {
    run(inputs, output);
  };
  return kernel;
}

// Whether the exponent is the constant 2, for which a product is as exact and far faster.
absl::StatusOr<bool> Squares(const Binary& operation, const Problem& problem) {
  if (operation.kind != Binary::Kind::kPower) return false;
  const Value& exponent = problem.input(1);
  if (exponent.constant == nullptr || ElementCount(exponent.shape) != 1) return false;
  if (exponent.shape.size() > problem.input(0).shape.size()) return false;
  std::array<std::byte, sizeof(float)> bytes{};
  SLUICE_RETURN_IF_ERROR(exponent.constant->Read(Bytes(), bytes));
  float value = 0;
  std::memcpy(&value, bytes.data(), bytes.size());
  return value == 2.0f;
}

Kernel MakeSquare(const Problem& problem) {
  Kernel kernel;
  kernel.name = problem.KernelName("square");
  kernel.in_place_0 = true;
  kernel.run = [loop = problem.loops.binary[static_cast<std::size_t>(Binary::Kind::kMultiply)].both,
                n = problem.count()](std::span<const std::byte* const> inputs, std::byte* output,
                                     std::byte*) {
    const float* x = Floats(inputs[0]);
    ParallelFor(n, n, [&](std::size_t begin, std::size_t end) {
      loop(x + begin, x + begin, Floats(output) + begin, end - begin);
    });
  };
  return kernel;
}

}  // namespace

absl::StatusOr<Kernel> Make(const Unary& operation, const Problem& problem) {
  SLUICE_RETURN_IF_ERROR(WantType(problem, DataType::kFloat32));
  if (static_cast<std::size_t>(operation.kind) >= kUnaryKinds) {
    return absl::UnimplementedError(absl::StrFormat("%s: no kernel", Name(problem.node.operation)));
  }
  Kernel kernel;
  kernel.name = problem.KernelName("");
  kernel.in_place_0 = true;
  kernel.run = [loop = problem.loops.unary[static_cast<std::size_t>(operation.kind)].loop,
                n = problem.count(), alpha = operation.alpha, beta = operation.beta](
                   std::span<const std::byte* const> inputs, std::byte* output, std::byte*) {
    ParallelFor(n, n, [&](std::size_t begin, std::size_t end) {
      loop(Floats(inputs[0]) + begin, Floats(output) + begin, end - begin, alpha, beta);
    });
  };
  return kernel;
}

absl::StatusOr<Kernel> Make(const Binary& operation, const Problem& problem) {
  const auto kind = static_cast<std::size_t>(operation.kind);
  const DataType type = problem.output().type;
  if (kind >= kBinaryKinds) {
    return absl::UnimplementedError(absl::StrFormat("%s: no kernel", Name(problem.node.operation)));
  }
  if (type == DataType::kInt32) return MakeBroadcast(problem.loops.binary_int32[kind], problem);
  if (type == DataType::kInt64) return MakeBroadcast(problem.loops.binary_int64[kind], problem);
  SLUICE_RETURN_IF_ERROR(WantType(problem, DataType::kFloat32));
  SLUICE_ASSIGN_OR_RETURN(const bool squares, Squares(operation, problem));
  if (squares) return MakeSquare(problem);
  return MakeBroadcast(problem.loops.binary[kind], problem);
}

absl::StatusOr<Kernel> Make(const ChannelAffine& operation, const Problem& problem) {
  SLUICE_RETURN_IF_ERROR(WantType(problem, DataType::kFloat32));
  const Shape& shape = problem.output().shape;
  Kernel kernel;
  kernel.name = problem.KernelName("");
  kernel.in_place_0 = true;
  kernel.run = [&loops = problem.loops, epilogues = operation.epilogues,
                planes = Product(shape, 0, 2), channels = static_cast<std::size_t>(shape[1]),
                size = Product(shape, 2, shape.size())](std::span<const std::byte* const> inputs,
                                                        std::byte* output, std::byte*) {
    const auto affine = loops.unary[static_cast<std::size_t>(Unary::Kind::kLinear)].loop;
    const auto add = loops.binary[static_cast<std::size_t>(Binary::Kind::kAdd)].both;
    const std::size_t blocks = (size + kBlock - 1) / kBlock;
    ParallelFor(planes * blocks, planes * size, [&](std::size_t begin, std::size_t end) {
      for (std::size_t item = begin; item < end; ++item) {
        const std::size_t plane = item / blocks, start = item % blocks * kBlock;
        const std::size_t at = plane * size + start, n = std::min(kBlock, size - start);
        const std::size_t c = plane % channels;
        float* y = Floats(output) + at;
        affine(Floats(inputs[0]) + at, y, n, Floats(inputs[1])[c], Floats(inputs[2])[c]);
        for (const Epilogue& epilogue : epilogues) {
          if (epilogue.kind == Epilogue::Kind::kAdd) {
            add(y, Floats(inputs[epilogue.input]) + at, y, n);
          } else {
            const auto kind = static_cast<std::size_t>(epilogue.unary.kind);
            loops.unary[kind].loop(y, y, n, epilogue.unary.alpha, epilogue.unary.beta);
          }
        }
      }
    });
  };
  return kernel;
}

}  // namespace sluice::kernels
