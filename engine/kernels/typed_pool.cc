#include "engine/kernels/typed_pool.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <limits>
#include <optional>
#include <type_traits>

#include "absl/strings/str_format.h"
#include "base/status_macros.h"
#include "engine/kernels/element.h"
#include "engine/kernels/parallel.h"

namespace sluice::kernels {
namespace {

constexpr std::size_t kMostDims = 6;

// The window of one output element: for each dimension the kernel positions inside the input.
class Windows {
 public:
  Windows(const Pool& pool, const Shape& in, const Shape& out) : dims_(pool.kernel.size()) {
    for (std::size_t d = 0; d < dims_; ++d) {
      axes_[d] = {in[2 + d],       out[2 + d],        pool.kernel[d],
                  pool.strides[d], pool.dilations[d], pool.pads_begin[d]};
      volume_ *= pool.kernel[d];
    }
  }

  std::int64_t volume() const { return volume_; }

  // Calls visit(place in the plane) for every element of the window of output `o`, in order.
  template <typename Visit>
  void ForEach(std::size_t o, const Visit& visit) const {
    std::array<std::int64_t, kMostDims> start = {};
    for (std::size_t d = dims_; d-- > 0;) {
      const auto size = static_cast<std::size_t>(axes_[d].out);
      start[d] = static_cast<std::int64_t>(o % size) * axes_[d].stride - axes_[d].pad;
      o /= size;
    }
    Walk(0, 0, start, visit);
  }

  // The same place counted with the first dimension fastest.
  std::int64_t ColumnMajor(std::int64_t place) const {
    std::int64_t index = 0, stride = 1;
    std::array<std::int64_t, kMostDims> at = {};
    for (std::size_t d = dims_; d-- > 0;) {
      at[d] = place % axes_[d].in;
      place /= axes_[d].in;
    }
    for (std::size_t d = 0; d < dims_; ++d) {
      index += at[d] * stride;
      stride *= axes_[d].in;
    }
    return index;
  }

 private:
  struct Axis {
    std::int64_t in = 1, out = 1, kernel = 1, stride = 1, dilation = 1, pad = 0;
  };

  template <typename Visit>
  void Walk(std::size_t d, std::int64_t place, const std::array<std::int64_t, kMostDims>& start,
            const Visit& visit) const {
    if (d == dims_) return visit(place);
    for (std::int64_t k = 0; k < axes_[d].kernel; ++k) {
      const std::int64_t at = start[d] + k * axes_[d].dilation;
      if (at >= 0 && at < axes_[d].in) Walk(d + 1, place * axes_[d].in + at, start, visit);
    }
  }

  std::size_t dims_;
  std::int64_t volume_ = 1;
  std::array<Axis, kMostDims> axes_ = {};
};

struct Planes {
  std::size_t count, in, out;
};

Planes PlanesOf(const Shape& in, const Shape& out) {
  return {Product(in, 0, 2), Product(in, 2, in.size()), Product(out, 2, out.size())};
}

// Calls body(plane, output) for all outputs.
template <typename Body>
void ForEachOutput(const Planes& planes, const Body& body) {
  ParallelFor(planes.count * planes.out, planes.count * planes.in,
              [&](std::size_t begin, std::size_t end) {
                for (std::size_t i = begin; i < end; ++i) body(i / planes.out, i % planes.out);
              });
}

// The first largest element of a window; nullopt where it has none.
template <typename T>
std::optional<std::int64_t> Largest(const Windows& windows, const T* plane, std::size_t o) {
  std::optional<std::int64_t> best;
  windows.ForEach(o, [&](std::int64_t place) {
    if (!best || Convert<Wide<T>>(plane[*best]) < Convert<Wide<T>>(plane[place])) best = place;
  });
  return best;
}

template <typename T>
T Lowest() {
  if constexpr (kIsShort<T>) {
    return Convert<T>(-std::numeric_limits<float>::infinity());
  } else {
    return std::numeric_limits<T>::lowest();
  }
}

template <typename T>
void Average(const Windows& windows, const Planes& planes, bool all, const T* x, T* y) {
  ForEachOutput(planes, [&](std::size_t plane, std::size_t o) {
    Wide<T> sum = 0;
    std::int64_t count = 0;
    windows.ForEach(o, [&](std::int64_t place) {
      sum += Convert<Wide<T>>(x[plane * planes.in + static_cast<std::size_t>(place)]);
      ++count;
    });
    if (all) count = windows.volume();
    y[plane * planes.out + o] = count == 0 ? T{} : Convert<T>(sum / static_cast<Wide<T>>(count));
  });
}

absl::Status CheckDims(const Pool& operation, const Problem& problem) {
  if (operation.kernel.size() <= kMostDims) return absl::OkStatus();
  return absl::UnimplementedError(absl::StrFormat("%s: got %u spatial dimensions, want at most %u",
                                                  Name(problem.node.operation),
                                                  operation.kernel.size(), kMostDims));
}

}  // namespace

absl::StatusOr<Kernel> MakeTypedPool(const Pool& operation, const Problem& problem) {
  SLUICE_RETURN_IF_ERROR(CheckDims(operation, problem));
  const DataType type = problem.output().type;
  const bool real = type == DataType::kFloat32 || type == DataType::kFloat64 ||
                    type == DataType::kFloat16 || type == DataType::kBfloat16;
  if (type == DataType::kBool || (!real && operation.kind == Pool::Kind::kAverage)) {
    return absl::UnimplementedError(absl::StrFormat(
        "%s: got element type %s", Name(problem.node.operation), ProtocolName(type)));
  }
  const Shape &in = problem.input(0).shape, &out = problem.output().shape;
  Kernel kernel;
  kernel.name = problem.KernelName("windows");
  kernel.run = [windows = Windows(operation, in, out), planes = PlanesOf(in, out), type,
                kind = operation.kind, all = operation.count_include_pad](
                   std::span<const std::byte* const> inputs, std::byte* output, std::byte*) {
    WithElement(type, [&]<typename T>() {
      if constexpr (!std::is_same_v<T, Truth>) {
        const T* x = reinterpret_cast<const T*>(inputs[0]);
        T* y = reinterpret_cast<T*>(output);
        if constexpr (kIsShort<T> || std::is_floating_point_v<T>) {
          if (kind == Pool::Kind::kAverage) return Average(windows, planes, all, x, y);
        }
        ForEachOutput(planes, [&](std::size_t plane, std::size_t o) {
          const T* from = x + plane * planes.in;
          const auto best = Largest(windows, from, o);
          y[plane * planes.out + o] = best ? from[*best] : Lowest<T>();
        });
      }
    });
  };
  return kernel;
}

absl::StatusOr<Kernel> Make(const PoolIndices& operation, const Problem& problem) {
  SLUICE_RETURN_IF_ERROR(CheckDims(operation.pool, problem));
  const Shape &in = problem.input(0).shape, &out = problem.output().shape;
  Kernel kernel;
  kernel.name = problem.KernelName("");
  kernel.run = [windows = Windows(operation.pool, in, out), planes = PlanesOf(in, out),
                type = problem.input(0).type, column_major = operation.column_major](
                   std::span<const std::byte* const> inputs, std::byte* output, std::byte*) {
    WithElement(type, [&]<typename T>() {
      if constexpr (!std::is_same_v<T, Truth>) {
        ForEachOutput(planes, [&](std::size_t plane, std::size_t o) {
          const T* from = reinterpret_cast<const T*>(inputs[0]) + plane * planes.in;
          const std::int64_t best = Largest(windows, from, o).value_or(0);
          reinterpret_cast<std::int64_t*>(output)[plane * planes.out + o] =
              static_cast<std::int64_t>(plane * planes.in) +
              (column_major ? windows.ColumnMajor(best) : best);
        });
      }
    });
  };
  return kernel;
}

}  // namespace sluice::kernels
