// Determinants, by elimination with the largest pivot of each column.

#include <cmath>
#include <cstdint>
#include <type_traits>
#include <utility>

#include "engine/kernels/element.h"
#include "engine/kernels/makers.h"
#include "engine/kernels/parallel.h"

namespace sluice::kernels {
namespace {

// Destroys the matrix.
double DeterminantOf(double* matrix, std::size_t n) {
  double result = 1;
  for (std::size_t column = 0; column < n; ++column) {
    std::size_t pivot = column;
    for (std::size_t row = column + 1; row < n; ++row) {
      if (std::fabs(matrix[row * n + column]) > std::fabs(matrix[pivot * n + column])) pivot = row;
    }
    if (matrix[pivot * n + column] == 0) return 0;
    if (pivot != column) {
      for (std::size_t k = column; k < n; ++k) {
        std::swap(matrix[pivot * n + k], matrix[column * n + k]);
      }
      result = -result;
    }
    result *= matrix[column * n + column];
    for (std::size_t row = column + 1; row < n; ++row) {
      const double factor = matrix[row * n + column] / matrix[column * n + column];
      for (std::size_t k = column + 1; k < n; ++k) {
        matrix[row * n + k] -= factor * matrix[column * n + k];
      }
    }
  }
  return result;
}

}  // namespace

absl::StatusOr<Kernel> Make(const Determinant&, const Problem& problem) {
  const Value& x = problem.input(0);
  const auto n = static_cast<std::size_t>(x.shape.back());
  const std::size_t team = TeamSize();
  Kernel kernel;
  kernel.name = problem.KernelName("");
  kernel.scratch = Bytes::Of(team) * (n * n * sizeof(double));
  kernel.run = [n, team, type = x.type, count = problem.count()](
                   std::span<const std::byte* const> inputs, std::byte* output,
                   std::byte* scratch) {
    WithElement(type, [&]<typename T>() {
      if constexpr (kIsShort<T> || std::is_floating_point_v<T>) {
        const T* from = reinterpret_cast<const T*>(inputs[0]);
        T* to = reinterpret_cast<T*>(output);
        const auto part = [&](std::size_t begin, std::size_t end, std::size_t worker) {
          double* matrix = reinterpret_cast<double*>(scratch) + worker * n * n;
          for (std::size_t i = begin; i < end; ++i) {
            for (std::size_t k = 0; k < n * n; ++k) {
              matrix[k] = static_cast<double>(Convert<Wide<T>>(from[i * n * n + k]));
            }
            to[i] = Convert<T>(DeterminantOf(matrix, n));
          }
        };
        ParallelForWorkers(count, count * n * n * n, team, part);
      }
    });
  };
  return kernel;
}

}  // namespace sluice::kernels
