// Conversion between all element types (element.h says what it means).

#include "base/check.h"
#include "engine/kernels/element.h"
#include "engine/kernels/makers.h"
#include "engine/kernels/parallel.h"

namespace sluice::kernels {
namespace {

using CastLoop = void (*)(const std::byte* x, std::byte* y, std::size_t n);

template <typename From, typename To>
void Loop(const std::byte* x, std::byte* y, std::size_t n) {
  const auto* __restrict from = reinterpret_cast<const From*>(x);
  auto* __restrict to = reinterpret_cast<To*>(y);
  for (std::size_t i = 0; i < n; ++i) to[i] = Convert<To>(from[i]);
}

template <typename From>
CastLoop LoopTo(DataType to) {
  switch (to) {
    case DataType::kFloat32:
      return &Loop<From, float>;
    case DataType::kFloat64:
      return &Loop<From, double>;
    case DataType::kFloat16:
      return &Loop<From, Half>;
    case DataType::kBfloat16:
      return &Loop<From, Bfloat16>;
    case DataType::kInt8:
      return &Loop<From, std::int8_t>;
    case DataType::kInt16:
      return &Loop<From, std::int16_t>;
    case DataType::kInt32:
      return &Loop<From, std::int32_t>;
    case DataType::kInt64:
      return &Loop<From, std::int64_t>;
    case DataType::kUint8:
      return &Loop<From, std::uint8_t>;
    case DataType::kUint16:
      return &Loop<From, std::uint16_t>;
    case DataType::kUint32:
      return &Loop<From, std::uint32_t>;
    case DataType::kUint64:
      return &Loop<From, std::uint64_t>;
    case DataType::kBool:
      return &Loop<From, bool>;
  }
  SLUICE_CHECK(false);
  return nullptr;
}

CastLoop LoopFor(DataType from, DataType to) {
  switch (from) {
    case DataType::kFloat32:
      return LoopTo<float>(to);
    case DataType::kFloat64:
      return LoopTo<double>(to);
    case DataType::kFloat16:
      return LoopTo<Half>(to);
    case DataType::kBfloat16:
      return LoopTo<Bfloat16>(to);
    case DataType::kInt8:
      return LoopTo<std::int8_t>(to);
    case DataType::kInt16:
      return LoopTo<std::int16_t>(to);
    case DataType::kInt32:
      return LoopTo<std::int32_t>(to);
    case DataType::kInt64:
      return LoopTo<std::int64_t>(to);
    case DataType::kBool:
      return LoopTo<Truth>(to);
    case DataType::kUint8:
      return LoopTo<std::uint8_t>(to);
    case DataType::kUint16:
      return LoopTo<std::uint16_t>(to);
    case DataType::kUint32:
      return LoopTo<std::uint32_t>(to);
    case DataType::kUint64:
      return LoopTo<std::uint64_t>(to);
  }
  SLUICE_CHECK(false);
  return nullptr;
}

}  // namespace

absl::StatusOr<Kernel> Make(const Cast&, const Problem& problem) {
  const DataType from = problem.input(0).type, to = problem.output().type;
  Kernel kernel;
  kernel.name = problem.KernelName("");
  kernel.run = [loop = LoopFor(from, to), n = problem.count(),
                from_size = static_cast<std::size_t>(SizeOf(from).count()),
                to_size = static_cast<std::size_t>(SizeOf(to).count())](
                   std::span<const std::byte* const> inputs, std::byte* output, std::byte*) {
    ParallelFor(n, n, [&](std::size_t begin, std::size_t end) {
      loop(inputs[0] + begin * from_size, output + begin * to_size, end - begin);
    });
  };
  return kernel;
}

}  // namespace sluice::kernels
