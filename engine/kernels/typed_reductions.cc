#include "engine/kernels/typed_reductions.h"

#include <cmath>
#include <cstdint>
#include <limits>
#include <type_traits>
#include <utility>
#include <vector>

#include "absl/strings/str_format.h"
#include "engine/kernels/parallel.h"
#include "engine/kernels/reduce_groups.h"

namespace sluice::kernels {
namespace {

struct ReducePlan {
  Reduce::Kind kind = Reduce::Kind::kSum;
  std::vector<Group> kept, reduced;  // `reduced` without its innermost.
  Group inner{};                     // Of the reduced.
  std::size_t divisor = 1;
};

// What a sum is taken in. Integers wrap around: modulo 2^64, and so modulo any narrower range.
template <typename T>
using SumOf =
    std::conditional_t<std::is_floating_point_v<T>, double,
                       std::conditional_t<std::is_signed_v<T>, std::int64_t, std::uint64_t>>;

template <typename Sum>
Sum Initial(Reduce::Kind kind) {
  using Limits = std::numeric_limits<Sum>;
  switch (kind) {
    case Reduce::Kind::kProduct:
      return 1;
    case Reduce::Kind::kMax:
      return Limits::has_infinity ? -Limits::infinity() : Limits::lowest();
    case Reduce::Kind::kMin:
      return Limits::has_infinity ? Limits::infinity() : Limits::max();
    default:
      return 0;
  }
}

template <typename T, typename F>
SumOf<T> FoldRow(const T* x, const Group& row, SumOf<T> sum, const F& f) {
  for (std::size_t i = 0; i < row.size; ++i) sum = f(sum, SumOf<T>{x[i * row.stride]});
  return sum;
}

template <typename T>
SumOf<T> AddRow(Reduce::Kind kind, const T* x, const Group& row, SumOf<T> initial) {
  using Sum = SumOf<T>;
  using W = std::conditional_t<std::is_integral_v<Sum>, std::uint64_t, Sum>;
  switch (kind) {
    case Reduce::Kind::kSum:
    case Reduce::Kind::kMean:
      return FoldRow(x, row, initial, [](Sum a, Sum b) { return static_cast<Sum>(W(a) + W(b)); });
    case Reduce::Kind::kMax:
      return FoldRow(x, row, initial, [](Sum a, Sum b) { return b != b || b > a ? b : a; });
    case Reduce::Kind::kMin:
      return FoldRow(x, row, initial, [](Sum a, Sum b) { return b != b || b < a ? b : a; });
    case Reduce::Kind::kProduct:
      return FoldRow(x, row, initial, [](Sum a, Sum b) { return static_cast<Sum>(W(a) * W(b)); });
    case Reduce::Kind::kL2:
      return FoldRow(x, row, initial,
                     [](Sum a, Sum b) { return static_cast<Sum>(W(a) + W(b) * W(b)); });
    case Reduce::Kind::kL1:
      return FoldRow(x, row, initial, [](Sum a, Sum b) {
        return static_cast<Sum>(b < 0 ? W(a) - W(b) : W(a) + W(b));
      });
  }
  return initial;
}

template <typename T>
T Finish(const ReducePlan& plan, SumOf<T> sum) {
  using Sum = SumOf<T>;
  if (plan.kind == Reduce::Kind::kMean && (plan.divisor > 0 || std::is_floating_point_v<T>)) {
    return static_cast<T>(sum / static_cast<Sum>(plan.divisor));
  }
  if (plan.kind == Reduce::Kind::kL2) {
    return static_cast<T>(static_cast<Sum>(std::sqrt(static_cast<double>(sum))));
  }
  return static_cast<T>(sum);
}

using ReduceLoop = void (*)(const ReducePlan& plan, const std::byte* x, std::byte* y,
                            std::size_t begin, std::size_t end);

template <typename T>
void ReduceTo(const ReducePlan& plan, const std::byte* x, std::byte* y, std::size_t begin,
              std::size_t end) {
  const std::size_t repeats = CountOf(plan.reduced);
  for (std::size_t i = begin; i < end; ++i) {
    const T* from = reinterpret_cast<const T*>(x) + StartOf(plan.kept, i);
    auto sum = Initial<SumOf<T>>(plan.kind);
    for (std::size_t r = 0; r < repeats; ++r) {
      sum = AddRow(plan.kind, from + StartOf(plan.reduced, r), plan.inner, sum);
    }
    reinterpret_cast<T*>(y)[i] = Finish<T>(plan, sum);
  }
}

ReduceLoop ReduceLoopFor(DataType type) {
  switch (type) {
    case DataType::kFloat64:
      return &ReduceTo<double>;
    case DataType::kInt8:
      return &ReduceTo<std::int8_t>;
    case DataType::kInt16:
      return &ReduceTo<std::int16_t>;
    case DataType::kInt32:
      return &ReduceTo<std::int32_t>;
    case DataType::kInt64:
      return &ReduceTo<std::int64_t>;
    case DataType::kUint8:
      return &ReduceTo<std::uint8_t>;
    case DataType::kUint16:
      return &ReduceTo<std::uint16_t>;
    case DataType::kUint32:
      return &ReduceTo<std::uint32_t>;
    case DataType::kUint64:
      return &ReduceTo<std::uint64_t>;
    default:
      return nullptr;
  }
}

// n elements, `stride` apart.
void SoftmaxOf(const double* x, double* y, std::size_t n, std::size_t stride, bool log) {
  double largest = -std::numeric_limits<double>::infinity(), sum = 0;
  for (std::size_t i = 0; i < n; ++i) {
    const double v = x[i * stride];
    largest = v != v || v > largest ? v : largest;
  }
  for (std::size_t i = 0; i < n; ++i) sum += std::exp(x[i * stride] - largest);
  const double shift = std::log(sum);
  for (std::size_t i = 0; i < n; ++i) {
    const double distance = x[i * stride] - largest;
    y[i * stride] = log ? distance - shift : std::exp(distance) / sum;
  }
}

}  // namespace

absl::StatusOr<Kernel> MakeTypedReduce(const Reduce& operation, const Problem& problem) {
  const ReduceLoop loop = ReduceLoopFor(problem.output().type);
  if (loop == nullptr) {
    return absl::UnimplementedError(absl::StrFormat("%s: no kernel for element type %s",
                                                    Name(problem.node.operation),
                                                    ProtocolName(problem.output().type)));
  }
  const Shape& shape = problem.input(0).shape;
  ReducePlan plan{.kind = operation.kind, .kept = {}, .reduced = {}, .inner = {true, 1, 1}};
  for (const Group& group : GroupsOf(operation, shape)) {
    (group.reduced ? plan.reduced : plan.kept).push_back(group);
  }
  plan.divisor = CountOf(plan.reduced);
  if (!plan.reduced.empty()) {
    plan.inner = plan.reduced.back();
    plan.reduced.pop_back();
  }
  Kernel kernel;
  kernel.name = problem.KernelName("");
  kernel.run = [loop, plan = std::move(plan), results = problem.count(),
                elements = static_cast<std::size_t>(ElementCount(shape))](
                   std::span<const std::byte* const> inputs, std::byte* output, std::byte*) {
    ParallelFor(results, elements, [&](std::size_t begin, std::size_t end) {
      loop(plan, inputs[0], output, begin, end);
    });
  };
  return kernel;
}

absl::StatusOr<Kernel> MakeTypedSoftmax(const Softmax& operation, const Problem& problem) {
  if (absl::Status type = WantType(problem, DataType::kFloat64); !type.ok()) return type;
  const Shape& shape = problem.output().shape;
  const auto axis = static_cast<std::size_t>(operation.axis);
  const std::size_t outer = Product(shape, 0, axis), n = static_cast<std::size_t>(shape[axis]);
  const std::size_t inner = Product(shape, axis + 1, shape.size());
  Kernel kernel;
  kernel.name = problem.KernelName("");
  kernel.in_place_0 = true;
  kernel.run = [outer, n, inner, log = operation.log](std::span<const std::byte* const> inputs,
                                                      std::byte* output, std::byte*) {
    const auto* x = reinterpret_cast<const double*>(inputs[0]);
    auto* y = reinterpret_cast<double*>(output);
    ParallelFor(outer * inner, outer * n * inner, [&](std::size_t begin, std::size_t end) {
      for (std::size_t i = begin; i < end; ++i) {
        const std::size_t at = i / inner * n * inner + i % inner;
        SoftmaxOf(x + at, y + at, n, inner, log);
      }
    });
  };
  return kernel;
}

}  // namespace sluice::kernels
