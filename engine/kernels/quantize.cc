// Conversion between real numbers and integers with a scale and a zero point.

#include <algorithm>
#include <limits>

#include "absl/strings/str_format.h"
#include "engine/kernels/element.h"
#include "engine/kernels/makers.h"
#include "engine/kernels/parallel.h"
#include "engine/kernels/rounding.h"

namespace sluice::kernels {
namespace {

// The scales and zero points of a tensor seen as [outer, count, inner].
struct Parameters {
  std::size_t inner = 1;
  std::size_t scales = 1, zeros = 1;  // 1, or one for each of `count`.
  std::size_t count = 1;

  std::size_t Scale(std::size_t run) const { return scales == 1 ? 0 : run % count; }
  std::size_t Zero(std::size_t run) const { return zeros == 1 ? 0 : run % count; }
};

Parameters ParametersOf(const Problem& problem, std::int64_t axis) {
  const Shape& shape = problem.input(0).shape;
  const auto elements = [&](std::size_t i) {
    return i < problem.node.inputs.size() && problem.node.inputs[i]
               ? static_cast<std::size_t>(ElementCount(problem.input(i).shape))
               : std::size_t{1};
  };
  Parameters parameters{.inner = problem.count(), .scales = elements(1), .zeros = elements(2)};
  if (parameters.scales > 1 || parameters.zeros > 1) {
    const auto at = static_cast<std::size_t>(axis);
    parameters.count = static_cast<std::size_t>(shape[at]);
    parameters.inner = Product(shape, at + 1, shape.size());
  }
  return parameters;
}

// Calls body(run, begin, end) for pieces of runs of elements with the same parameters.
template <typename Body>
void ForEachRun(const Parameters& parameters, std::size_t total, const Body& body) {
  ParallelFor(total, total, [&](std::size_t begin, std::size_t end) {
    while (begin < end) {
      const std::size_t run = begin / parameters.inner;
      const std::size_t stop = std::min(end, (run + 1) * parameters.inner);
      body(run, begin, stop);
      begin = stop;
    }
  });
}

const std::byte* At(std::span<const std::byte* const> inputs, std::size_t i) {
  return i < inputs.size() ? inputs[i] : nullptr;
}

template <typename Real, typename Q>
void RunQuantize(const Parameters& parameters, std::size_t total,
                 std::span<const std::byte* const> inputs, std::byte* output) {
  const auto* x = reinterpret_cast<const Real*>(inputs[0]);
  const auto* scales = reinterpret_cast<const Real*>(inputs[1]);
  const auto* zeros = reinterpret_cast<const Q*>(At(inputs, 2));
  auto* y = reinterpret_cast<Q*>(output);
  ForEachRun(parameters, total, [&](std::size_t run, std::size_t begin, std::size_t end) {
    const auto scale = Convert<float>(scales[parameters.Scale(run)]);
    const auto zero = static_cast<float>(zeros == nullptr ? Q{0} : zeros[parameters.Zero(run)]);
    const Saturation<Q> saturation(zero);
    for (std::size_t i = begin; i < end; ++i) {
      y[i] = saturation.Round(Convert<float>(x[i]) / scale);
    }
  });
}

template <typename Real, typename Q>
void RunDequantize(const Parameters& parameters, std::size_t total,
                   std::span<const std::byte* const> inputs, std::byte* output) {
  const auto* q = reinterpret_cast<const Q*>(inputs[0]);
  const auto* scales = reinterpret_cast<const Real*>(inputs[1]);
  const auto* zeros = reinterpret_cast<const Q*>(At(inputs, 2));
  auto* y = reinterpret_cast<Real*>(output);
  ForEachRun(parameters, total, [&](std::size_t run, std::size_t begin, std::size_t end) {
    const auto scale = Convert<float>(scales[parameters.Scale(run)]);
    const auto zero =
        zeros == nullptr ? std::int64_t{0} : Convert<std::int64_t>(zeros[parameters.Zero(run)]);
    for (std::size_t i = begin; i < end; ++i) {
      const auto moved = static_cast<std::int32_t>(Convert<std::int64_t>(q[i]) - zero);
      y[i] = Convert<Real>(static_cast<float>(moved) * scale);
    }
  });
}

using RunFunction = void (*)(const Parameters&, std::size_t, std::span<const std::byte* const>,
                             std::byte*);

template <typename Real>
RunFunction QuantizeTo(DataType q) {
  switch (q) {
    case DataType::kInt8:
      return &RunQuantize<Real, std::int8_t>;
    case DataType::kUint8:
      return &RunQuantize<Real, std::uint8_t>;
    case DataType::kInt16:
      return &RunQuantize<Real, std::int16_t>;
    case DataType::kUint16:
      return &RunQuantize<Real, std::uint16_t>;
    default:
      return nullptr;
  }
}

template <typename Real>
RunFunction DequantizeFrom(DataType q) {
  switch (q) {
    case DataType::kInt8:
      return &RunDequantize<Real, std::int8_t>;
    case DataType::kUint8:
      return &RunDequantize<Real, std::uint8_t>;
    case DataType::kInt16:
      return &RunDequantize<Real, std::int16_t>;
    case DataType::kUint16:
      return &RunDequantize<Real, std::uint16_t>;
    case DataType::kInt32:
      return &RunDequantize<Real, std::int32_t>;
    default:
      return nullptr;
  }
}

absl::StatusOr<Kernel> Bind(const Problem& problem, std::int64_t axis, RunFunction run) {
  if (run == nullptr) {
    return absl::UnimplementedError(
        absl::StrFormat("%s: no kernel from %s to %s", Name(problem.node.operation),
                        ProtocolName(problem.input(0).type), ProtocolName(problem.output().type)));
  }
  Kernel kernel;
  kernel.name = problem.KernelName("");
  kernel.run = [run, parameters = ParametersOf(problem, axis), total = problem.count()](
                   std::span<const std::byte* const> inputs, std::byte* output, std::byte*) {
    run(parameters, total, inputs, output);
  };
  return kernel;
}

}  // namespace

absl::StatusOr<Kernel> Make(const Quantize& operation, const Problem& problem) {
  const DataType q = problem.output().type;
  switch (problem.input(0).type) {
    case DataType::kFloat32:
      return Bind(problem, operation.axis, QuantizeTo<float>(q));
    case DataType::kFloat16:
      return Bind(problem, operation.axis, QuantizeTo<Half>(q));
    case DataType::kBfloat16:
      return Bind(problem, operation.axis, QuantizeTo<Bfloat16>(q));
    default:
      return Bind(problem, operation.axis, nullptr);
  }
}

absl::StatusOr<Kernel> Make(const Dequantize& operation, const Problem& problem) {
  const DataType q = problem.input(0).type;
  switch (problem.output().type) {
    case DataType::kFloat32:
      return Bind(problem, operation.axis, DequantizeFrom<float>(q));
    case DataType::kFloat16:
      return Bind(problem, operation.axis, DequantizeFrom<Half>(q));
    case DataType::kBfloat16:
      return Bind(problem, operation.axis, DequantizeFrom<Bfloat16>(q));
    default:
      return Bind(problem, operation.axis, nullptr);
  }
}

}  // namespace sluice::kernels
