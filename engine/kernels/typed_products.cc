#include "engine/kernels/typed_products.h"

#include <algorithm>
#include <cstdint>
#include <type_traits>
#include <utility>

#include "absl/strings/str_format.h"
#include "engine/kernels/element.h"
#include "engine/kernels/parallel.h"

namespace sluice::kernels {
namespace {

struct Operands {
  const std::byte *a, *b;
  const std::byte *bias, *scale;  // May be null.
};

using ProductLoop = void (*)(const ProductPlan& plan, const Operands& operands, std::byte* y,
                             std::size_t begin, std::size_t end);

// Rows [begin, end) of all results.
template <typename T>
void MultiplyRows(const ProductPlan& plan, const Operands& operands, std::byte* y,
                  std::size_t begin, std::size_t end) {
  using W = std::conditional_t<std::is_floating_point_v<T>, T,
                               std::conditional_t<sizeof(T) <= 4, std::uint32_t, std::uint64_t>>;
  const auto* bias = reinterpret_cast<const T*>(operands.bias);
  const auto* scale = reinterpret_cast<const T*>(operands.scale);
  for (std::size_t row = begin; row < end; ++row) {
    const ProductPlan::Batch& batch = plan.batches[row / plan.rows];
    const auto within = static_cast<std::ptrdiff_t>(row % plan.rows);
    const T* a = reinterpret_cast<const T*>(operands.a) + batch.a + within * plan.a_row;
    const T* b = reinterpret_cast<const T*>(operands.b) + batch.b;
    T* to = reinterpret_cast<T*>(y) + batch.c + within * plan.c_row;
    std::fill_n(to, plan.columns, T{});
    for (std::size_t k = 0; k < plan.depth; ++k) {
      const W left = static_cast<W>(a[static_cast<std::ptrdiff_t>(k) * plan.a_depth]);
      const T* right = b + static_cast<std::ptrdiff_t>(k) * plan.b_depth;
      for (std::size_t j = 0; j < plan.columns; ++j) {
        const T factor = right[static_cast<std::ptrdiff_t>(j) * plan.b_column];
        to[j] = static_cast<T>(static_cast<W>(to[j]) + left * static_cast<W>(factor));
      }
    }
    if constexpr (std::is_floating_point_v<T>) {
      for (std::size_t j = 0; j < plan.columns; ++j) {
        to[j] *= scale != nullptr ? scale[j] : static_cast<T>(plan.alpha);
      }
    }
    for (std::size_t j = 0; bias != nullptr && j < plan.columns; ++j) {
      to[j] = static_cast<T>(static_cast<W>(to[j]) + static_cast<W>(bias[j]));
    }
  }
}

}  // namespace

absl::StatusOr<Kernel> MakeTypedProduct(ProductPlan plan, const Problem& problem) {
  const DataType type = problem.output().type;
  const auto loop = WithElement(type, []<typename T>() -> ProductLoop {
    if constexpr (std::is_arithmetic_v<T>) {
      return &MultiplyRows<T>;
    } else {
      return nullptr;
    }
  });
  const bool floats = type == DataType::kFloat32 || type == DataType::kFloat64;
  const bool scaled = problem.node.inputs.size() > 3 && problem.node.inputs[3].has_value();
  if (loop == nullptr || (!floats && (scaled || plan.alpha != 1))) {
    return absl::UnimplementedError(
        absl::StrFormat("%s: no kernel for element type %s%s", Name(problem.node.operation),
                        ProtocolName(type), loop == nullptr ? "" : " with a factor"));
  }
  Kernel kernel;
  kernel.name = problem.KernelName("");
  kernel.run = [loop, plan = std::move(plan)](std::span<const std::byte* const> inputs,
                                              std::byte* output, std::byte*) {
    const auto optional = [&](std::size_t i) { return i < inputs.size() ? inputs[i] : nullptr; };
    const Operands operands{inputs[0], inputs[1], optional(2), optional(3)};
    const std::size_t rows = plan.batches.size() * plan.rows;
    ParallelFor(rows, rows * plan.columns * plan.depth, [&](std::size_t begin, std::size_t end) {
      loop(plan, operands, output, begin, end);
    });
  };
  return kernel;
}

}  // namespace sluice::kernels
