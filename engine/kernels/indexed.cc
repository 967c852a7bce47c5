// Gathering and scattering by index, and moves that depend on contents: reversed sequences,
// triangles, one-hot vectors. Indices come from a caller: what is out of range is never touched.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <optional>
#include <type_traits>
#include <utility>
#include <vector>

#include "absl/strings/str_format.h"
#include "base/status_macros.h"
#include "engine/kernels/element.h"
#include "engine/kernels/makers.h"
#include "engine/kernels/parallel.h"

namespace sluice::kernels {
namespace {

std::size_t ElementSize(const Value& value) {
  return static_cast<std::size_t>(SizeOf(value.type).count());
}

// A vector of INT32 or INT64.
struct Indices {
  bool wide;
  explicit Indices(const Value& value) : wide(value.type == DataType::kInt64) {}

  // nullopt where it is not in [-size, size).
  std::optional<std::size_t> At(const std::byte* data, std::size_t i, std::int64_t size) const {
    std::int64_t index = wide ? reinterpret_cast<const std::int64_t*>(data)[i]
                              : reinterpret_cast<const std::int32_t*>(data)[i];
    if (index < 0) index += size;
    if (index < 0 || index >= size) return std::nullopt;
    return static_cast<std::size_t>(index);
  }
};

// Walks the elements of `part`, whose indices along `axis` are replaced by others, in `whole`.
struct ElementWalk {
  Shape part;
  std::vector<std::size_t> strides;  // In the whole; 0 along the axis.
  std::size_t along;                 // The stride along the axis.
  std::int64_t size;                 // Of the whole, along the axis.

  ElementWalk(const Shape& part_shape, const Shape& whole, std::int64_t axis)
      : part(part_shape), strides(whole.size()), along(0), size(0) {
    std::size_t stride = 1;
    for (std::size_t d = whole.size(); d-- > 0;) {
      strides[d] = stride;
      stride *= static_cast<std::size_t>(whole[d]);
    }
    along = std::exchange(strides[static_cast<std::size_t>(axis)], 0);
    size = whole[static_cast<std::size_t>(axis)];
  }

  // Where element `i` of the part lies in the whole, at index 0 of the axis.
  std::size_t Base(std::size_t i) const {
    std::size_t base = 0;
    for (std::size_t d = part.size(); d-- > 0;) {
      const auto length = static_cast<std::size_t>(part[d]);
      base += i % length * strides[d];
      i /= length;
    }
    return base;
  }
};

// Positions that are rows of indices into the dimensions of x behind the first few.
struct PositionWalk {
  std::vector<std::int64_t> sizes;    // Of the dimensions that a position names.
  std::vector<std::size_t> strides;   // In slices.
  std::size_t slice;                  // Elements of what it names.
  std::size_t per_batch, batch_size;  // Positions of a batch, and slices.
  Indices indices;

  PositionWalk(const Value& x, const Value& positions, std::int64_t batch_dims)
      : slice(0), per_batch(0), batch_size(0), indices(positions) {
    const auto batch = static_cast<std::size_t>(batch_dims);
    const std::size_t named = static_cast<std::size_t>(positions.shape.back());
    sizes.assign(x.shape.begin() + batch_dims,
                 x.shape.begin() + static_cast<std::ptrdiff_t>(batch + named));
    strides.resize(named);
    std::size_t stride = 1;
    for (std::size_t d = named; d-- > 0;) {
      strides[d] = stride;
      stride *= static_cast<std::size_t>(sizes[d]);
    }
    batch_size = stride;
    slice = Product(x.shape, batch + named, x.shape.size());
    per_batch = Product(positions.shape, batch, positions.shape.size() - 1);
  }

  // The slice that position `i` names.
  std::optional<std::size_t> At(const std::byte* positions, std::size_t i) const {
    std::size_t at = per_batch == 0 ? 0 : i / per_batch * batch_size;
    for (std::size_t d = 0; d < sizes.size(); ++d) {
      const auto index = indices.At(positions, i * sizes.size() + d, sizes[d]);
      if (!index) return std::nullopt;
      at += *index * strides[d];
    }
    return at;
  }
};

// Calls with a value of an unsigned integer type as wide as an element.
template <typename Visit>
decltype(auto) WithWidth(std::size_t width, const Visit& visit) {
  if (width == 1) return visit(std::uint8_t{});
  if (width == 2) return visit(std::uint16_t{});
  if (width == 4) return visit(std::uint32_t{});
  return visit(std::uint64_t{});
}

template <typename T>
T Reduced(ScatterReduction reduction, T a, T b) {
  if constexpr (std::is_same_v<T, Truth>) {
    return b;
  } else {
    if (reduction == ScatterReduction::kNone) return b;
    const auto x = Convert<Wide<T>>(a), y = Convert<Wide<T>>(b);
    switch (reduction) {
      case ScatterReduction::kNone:
        return b;
      case ScatterReduction::kAdd:
        if constexpr (std::is_integral_v<T>) {
          return static_cast<T>(static_cast<std::uint64_t>(x) + static_cast<std::uint64_t>(y));
        } else {
          return Convert<T>(x + y);
        }
      case ScatterReduction::kMultiply:
        if constexpr (std::is_integral_v<T>) {
          return static_cast<T>(static_cast<std::uint64_t>(x) * static_cast<std::uint64_t>(y));
        } else {
          return Convert<T>(x * y);
        }
      case ScatterReduction::kMaximum:
        return x < y ? b : a;
      case ScatterReduction::kMinimum:
        return y < x ? b : a;
    }
    return b;
  }
}

}  // namespace

absl::StatusOr<Kernel> Make(const GatherElements& operation, const Problem& problem) {
  const Value &x = problem.input(0), &indices = problem.input(1);
  Kernel kernel;
  kernel.name = problem.KernelName("");
  kernel.run = [walk = ElementWalk(indices.shape, x.shape, operation.axis), at = Indices(indices),
                count = problem.count(), width = ElementSize(x)](
                   std::span<const std::byte* const> inputs, std::byte* output, std::byte*) {
    WithWidth(width, [&]<typename T>(T) {
      const T* from = reinterpret_cast<const T*>(inputs[0]);
      T* to = reinterpret_cast<T*>(output);
      ParallelFor(count, count, [&](std::size_t begin, std::size_t end) {
        for (std::size_t i = begin; i < end; ++i) {
          const auto index = at.At(inputs[1], i, walk.size);
          to[i] = index ? from[walk.Base(i) + *index * walk.along] : T{0};
        }
      });
    });
  };
  return kernel;
}

absl::StatusOr<Kernel> Make(const GatherNd& operation, const Problem& problem) {
  const Value &x = problem.input(0), &indices = problem.input(1);
  Kernel kernel;
  kernel.name = problem.KernelName("");
  kernel.run = [walk = PositionWalk(x, indices, operation.batch_dims),
                positions = Product(indices.shape, 0, indices.shape.size() - 1),
                width = ElementSize(x)](std::span<const std::byte* const> inputs, std::byte* output,
                                        std::byte*) {
    const std::size_t run = walk.slice * width;
    if (run == 0) return;
    ParallelFor(positions, positions * walk.slice, [&](std::size_t begin, std::size_t end) {
      for (std::size_t i = begin; i < end; ++i) {
        const auto at = walk.At(inputs[1], i);
        if (at) {
          std::memcpy(output + i * run, inputs[0] + *at * run, run);
        } else {
          std::memset(output + i * run, 0, run);
        }
      }
    });
  };
  return kernel;
}

absl::StatusOr<Kernel> Make(const ScatterElements& operation, const Problem& problem) {
  const Value &x = problem.input(0), &indices = problem.input(1);
  Kernel kernel;
  kernel.name = problem.KernelName("");
  kernel.in_place_0 = true;
  // In order and on one thread: of two updates of one place, the last remains.
  kernel.run = [walk = ElementWalk(indices.shape, x.shape, operation.axis), at = Indices(indices),
                count = static_cast<std::size_t>(ElementCount(indices.shape)),
                bytes = problem.count() * ElementSize(x), type = x.type,
                reduction = operation.reduction](std::span<const std::byte* const> inputs,
                                                 std::byte* output, std::byte*) {
    if (bytes > 0 && inputs[0] != output) std::memcpy(output, inputs[0], bytes);
    WithElement(type, [&]<typename T>() {
      const T* updates = reinterpret_cast<const T*>(inputs[2]);
      T* to = reinterpret_cast<T*>(output);
      for (std::size_t i = 0; i < count; ++i) {
        const auto index = at.At(inputs[1], i, walk.size);
        if (!index) continue;
        T& place = to[walk.Base(i) + *index * walk.along];
        place = Reduced(reduction, place, updates[i]);
      }
    });
  };
  return kernel;
}

absl::StatusOr<Kernel> Make(const ScatterNd& operation, const Problem& problem) {
  const Value &x = problem.input(0), &indices = problem.input(1);
  Kernel kernel;
  kernel.name = problem.KernelName("");
  kernel.in_place_0 = true;
  kernel.run = [walk = PositionWalk(x, indices, 0),
                positions = Product(indices.shape, 0, indices.shape.size() - 1),
                bytes = problem.count() * ElementSize(x), type = x.type,
                reduction = operation.reduction](std::span<const std::byte* const> inputs,
                                                 std::byte* output, std::byte*) {
    if (bytes == 0) return;
    if (inputs[0] != output) std::memcpy(output, inputs[0], bytes);
    WithElement(type, [&]<typename T>() {
      const T* updates = reinterpret_cast<const T*>(inputs[2]);
      for (std::size_t i = 0; i < positions; ++i) {
        const auto at = walk.At(inputs[1], i);
        if (!at) continue;
        T* to = reinterpret_cast<T*>(output) + *at * walk.slice;
        const T* update = updates + i * walk.slice;
        for (std::size_t k = 0; k < walk.slice; ++k) to[k] = Reduced(reduction, to[k], update[k]);
      }
    });
  };
  return kernel;
}

absl::StatusOr<Kernel> Make(const ReverseSequence& operation, const Problem& problem) {
  const Value& x = problem.input(0);
  const auto batch = static_cast<std::size_t>(operation.batch_axis);
  const auto time = static_cast<std::size_t>(operation.time_axis);
  const std::size_t first = std::min(batch, time), second = std::max(batch, time);
  Kernel kernel;
  kernel.name = problem.KernelName("");
  // x is [outer, first, middle, second, inner].
  kernel.run = [outer = Product(x.shape, 0, first), middle = Product(x.shape, first + 1, second),
                run = Product(x.shape, second + 1, x.shape.size()) * ElementSize(x),
                sizes = std::pair(static_cast<std::size_t>(x.shape[first]),
                                  static_cast<std::size_t>(x.shape[second])),
                time_first = time < batch](std::span<const std::byte* const> inputs,
                                           std::byte* output, std::byte*) {
    const auto* lengths = reinterpret_cast<const std::int64_t*>(inputs[1]);
    const std::size_t items = outer * sizes.first * middle * sizes.second;
    const std::size_t steps = time_first ? sizes.first : sizes.second;
    if (run == 0) return;
    ParallelFor(items, items * run, [&](std::size_t begin, std::size_t end) {
      for (std::size_t item = begin; item < end; ++item) {
        std::size_t j = item % sizes.second;
        const std::size_t m = item / sizes.second % middle;
        std::size_t i = item / sizes.second / middle % sizes.first;
        const std::size_t o = item / sizes.second / middle / sizes.first;
        std::size_t& t = time_first ? i : j;
        const auto length = static_cast<std::size_t>(std::clamp<std::int64_t>(
            lengths[time_first ? j : i], 0, static_cast<std::int64_t>(steps)));
        if (t < length) t = length - 1 - t;
        const std::size_t from = ((o * sizes.first + i) * middle + m) * sizes.second + j;
        std::memcpy(output + item * run, inputs[0] + from * run, run);
      }
    });
  };
  return kernel;
}

absl::StatusOr<Kernel> Make(const Triangle& operation, const Problem& problem) {
  const Value& x = problem.input(0);
  const std::size_t rank = x.shape.size();
  Kernel kernel;
  kernel.name = problem.KernelName("");
  kernel.in_place_0 = true;
  kernel.run = [rows = x.shape[rank - 2], columns = x.shape[rank - 1],
                matrices = Product(x.shape, 0, rank - 2), width = ElementSize(x),
                upper = operation.upper](std::span<const std::byte* const> inputs,
                                         std::byte* output, std::byte*) {
    std::int64_t k = 0;
    if (inputs.size() > 1 && inputs[1] != nullptr) std::memcpy(&k, inputs[1], sizeof(k));
    k = std::clamp(k, -rows, columns);
    const auto pitch = static_cast<std::size_t>(columns) * width;
    const std::size_t count = matrices * static_cast<std::size_t>(rows);
    if (pitch == 0) return;
    ParallelFor(count, count * pitch, [&](std::size_t begin, std::size_t end) {
      for (std::size_t row = begin; row < end; ++row) {
        const auto i = static_cast<std::int64_t>(row % static_cast<std::size_t>(rows));
        // The first column on the diagonal, or the first behind it.
        const auto edge =
            static_cast<std::size_t>(std::clamp<std::int64_t>(i + k + (upper ? 0 : 1), 0, columns));
        const std::size_t kept = upper ? edge * width : 0, end_of = upper ? pitch : edge * width;
        std::byte* to = output + row * pitch;
        const std::byte* from = inputs[0] + row * pitch;
        if (from != to) std::memcpy(to + kept, from + kept, end_of - kept);
        std::memset(to, 0, kept);
        std::memset(to + end_of, 0, pitch - end_of);
      }
    });
  };
  return kernel;
}

absl::StatusOr<Kernel> Make(const OneHot& operation, const Problem& problem) {
  const Shape& y = problem.output().shape;
  const auto axis = static_cast<std::size_t>(operation.axis);
  Kernel kernel;
  kernel.name = problem.KernelName("");
  kernel.run = [inner = Product(y, axis + 1, y.size()), depth = y[axis], count = problem.count(),
                indices = static_cast<std::size_t>(ElementCount(problem.input(0).shape)),
                type = problem.input(0).type, width = ElementSize(problem.output())](
                   std::span<const std::byte* const> inputs, std::byte* output, std::byte*) {
    WithWidth(width, [&]<typename T>(T) {
      T values[2];  // Off and on.
      std::memcpy(values, inputs[1], sizeof(values));
      T* to = reinterpret_cast<T*>(output);
      ParallelFor(count, count, [&](std::size_t begin, std::size_t end) {
        std::fill(to + begin, to + end, values[0]);
      });
      WithElement(type, [&]<typename Index>() {
        if constexpr (!std::is_same_v<Index, Truth>) {
          for (std::size_t i = 0; i < indices; ++i) {
            const auto size = static_cast<double>(depth);
            auto index = static_cast<double>(
                Convert<Wide<Index>>(reinterpret_cast<const Index*>(inputs[0])[i]));
            if (index < 0) index += size;
            if (!(index >= 0 && index < size) || index != std::floor(index)) continue;
            const std::size_t place = static_cast<std::size_t>(index);
            to[(i / inner * static_cast<std::size_t>(depth) + place) * inner + i % inner] =
                values[1];
          }
        }
      });
    });
  };
  return kernel;
}

}  // namespace sluice::kernels
