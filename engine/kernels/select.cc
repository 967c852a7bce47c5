// Choices by a condition, and classes of floating point numbers.

#include <cmath>
#include <cstdint>

#include "absl/strings/str_format.h"
#include "engine/kernels/broadcast.h"
#include "engine/kernels/makers.h"
#include "engine/kernels/typed_loops.h"

namespace sluice::kernels {
namespace {

using SelectLoop = void (*)(StepOperand condition, StepOperand a, StepOperand b, std::byte* y,
                            std::size_t n);

// T: anything of the elements' size.
template <typename T>
void Choose(StepOperand condition, StepOperand a, StepOperand b, std::byte* y, std::size_t n) {
  const auto* chosen = reinterpret_cast<const std::uint8_t*>(condition.data);
  const auto* left = reinterpret_cast<const T*>(a.data);
  const auto* right = reinterpret_cast<const T*>(b.data);
  auto* to = reinterpret_cast<T*>(y);
  for (std::size_t i = 0; i < n; ++i) {
    const T if_true = left[i * a.step], if_false = right[i * b.step];
    to[i] = chosen[i * condition.step] != 0 ? if_true : if_false;
  }
}

SelectLoop SelectLoopFor(std::size_t width) {
  switch (width) {
    case 1:
      return &Choose<std::uint8_t>;
    case 2:
      return &Choose<std::uint16_t>;
    case 4:
      return &Choose<std::uint32_t>;
    default:
      return &Choose<std::uint64_t>;
  }
}

template <typename T>
void FindClasses(const Classify& classes, const std::byte* x, std::byte* y, std::size_t begin,
                 std::size_t end) {
  const auto* from = reinterpret_cast<const T*>(x);
  auto* to = reinterpret_cast<std::uint8_t*>(y);
  for (std::size_t i = begin; i < end; ++i) {
    const T v = from[i];
    const bool infinite = std::isinf(v);
    to[i] = (classes.nan && std::isnan(v)) || (classes.positive_infinity && infinite && v > 0) ||
            (classes.negative_infinity && infinite && v < 0);
  }
}

}  // namespace

absl::StatusOr<Kernel> Make(const Select&, const Problem& problem) {
  const auto width = static_cast<std::size_t>(SizeOf(problem.output().type).count());
  Kernel kernel;
  kernel.name = problem.KernelName("");
  kernel.run = [loop = SelectLoopFor(width), width,
                broadcast = Broadcast<3>(
                    {problem.input(0).shape, problem.input(1).shape, problem.input(2).shape},
                    problem.output().shape)](std::span<const std::byte* const> inputs,
                                             std::byte* output, std::byte*) {
    const auto& steps = broadcast.steps();
    broadcast.ForEachRow([&](const auto& at, std::size_t y, std::size_t n) {
      loop({inputs[0] + at[0], steps[0]}, {inputs[1] + at[1] * width, steps[1]},
           {inputs[2] + at[2] * width, steps[2]}, output + y * width, n);
    });
  };
  return kernel;
}

absl::StatusOr<Kernel> Make(const Classify& operation, const Problem& problem) {
  const DataType type = problem.input(0).type;
  if (type != DataType::kFloat32 && type != DataType::kFloat64) {
    return absl::UnimplementedError(absl::StrFormat(
        "%s: no kernel for element type %s", Name(problem.node.operation), ProtocolName(type)));
  }
  Kernel kernel;
  kernel.name = problem.KernelName("");
  kernel.run = [operation, n = problem.count(), wide = type == DataType::kFloat64](
                   std::span<const std::byte* const> inputs, std::byte* output, std::byte*) {
    ParallelFor(n, n, [&](std::size_t begin, std::size_t end) {
      if (wide) {
        FindClasses<double>(operation, inputs[0], output, begin, end);
      } else {
        FindClasses<float>(operation, inputs[0], output, begin, end);
      }
    });
  };
  return kernel;
}

}  // namespace sluice::kernels
