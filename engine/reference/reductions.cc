#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <type_traits>
#include <vector>

#include "engine/reference/definitions.h"
#include "engine/reference/element.h"

namespace sluice::reference {
namespace {

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

// Integers wrap around: modulo 2^64, and so modulo any narrower range.
template <typename Sum>
Sum Accumulate(Reduce::Kind kind, Sum sum, Sum x) {
  using Wide = std::conditional_t<std::is_integral_v<Sum>, std::uint64_t, Sum>;
  const auto wide_sum = static_cast<Wide>(sum), wide_x = static_cast<Wide>(x);
  switch (kind) {
    case Reduce::Kind::kSum:
    case Reduce::Kind::kMean:
      return static_cast<Sum>(wide_sum + wide_x);
    case Reduce::Kind::kMax:
      return x != x || x > sum ? x : sum;
    case Reduce::Kind::kMin:
      return x != x || x < sum ? x : sum;
    case Reduce::Kind::kProduct:
      return static_cast<Sum>(wide_sum * wide_x);
    case Reduce::Kind::kL2:
      return static_cast<Sum>(wide_sum + wide_x * wide_x);
    case Reduce::Kind::kL1:
      return x < 0 ? static_cast<Sum>(wide_sum - wide_x) : static_cast<Sum>(wide_sum + wide_x);
  }
  return sum;
}

}  // namespace

void Define(const Reduce& operation, Operands inputs, const Result& y) {
  const Tensor& x = inputs[0];
  const auto reduced = [&](std::size_t d) {
    return std::ranges::find(operation.axes, static_cast<std::int64_t>(d)) != operation.axes.end();
  };
  Shape kept, gone;  // Both with the rank of x, so that a pair of indices adds up to one of x.
  for (std::size_t d = 0; d < x.rank(); ++d) {
    kept.push_back(reduced(d) ? 1 : x.shape[d]);
    gone.push_back(reduced(d) ? x.shape[d] : 1);
  }
  const auto count = ElementCount(gone);
  WithElementType(y.type, [&]<typename T>() {
    using Integer = std::conditional_t<std::is_signed_v<T>, std::int64_t, std::uint64_t>;
    using Sum = std::conditional_t<std::is_integral_v<T>, Integer, double>;
    T* to = y.as<T>();
    ForEachIndex(kept, [&](const Shape& outer) {
      Sum sum = Initial<Sum>(operation.kind);
      ForEachIndex(gone, [&](const Shape& inner) {
        Shape index = outer;
        for (std::size_t d = 0; d < x.rank(); ++d) index[d] += inner[d];
        sum = Accumulate(operation.kind, sum, Convert<Sum>(x.as<T>()[Offset(x.shape, index)]));
      });
      const bool divides = !std::is_integral_v<Sum> || count > 0;
      if (operation.kind == Reduce::Kind::kMean && divides) sum = sum / static_cast<Sum>(count);
      if (operation.kind == Reduce::Kind::kL2) {
        sum = static_cast<Sum>(std::sqrt(static_cast<double>(sum)));
      }
      *to++ = Convert<T>(sum);
    });
  });
}

void Define(const Normalize& operation, Operands inputs, const Result& y) {
  const auto axis = static_cast<std::size_t>(operation.per_channel ? 1 : operation.axis);
  std::int64_t rows = operation.per_channel ? operation.groups : 1, length = 1;
  for (std::size_t d = 0; d < axis; ++d) rows *= y.shape[d];
  if (y.count() > 0) length = y.count() / rows;
  std::int64_t pixels = 1;  // Elements that share a parameter.
  for (std::size_t d = 2; operation.per_channel && d < y.rank(); ++d) pixels *= y.shape[d];
  const std::int64_t channels = operation.per_channel ? y.shape[1] : length;
  const auto parameter = [&](std::size_t input, std::int64_t at, double otherwise) {
    if (input >= inputs.size() || !inputs[input].present()) return otherwise;
    return double{inputs[input].floats()[at / pixels % channels]};
  };
  for (std::int64_t row = 0; row < rows && y.count() > 0; ++row) {
    const float* x = inputs[0].floats() + row * length;
    double mean = 0, variance = 0;
    for (std::int64_t i = 0; operation.centred && i < length; ++i) mean += x[i];
    mean /= static_cast<double>(length);
    for (std::int64_t i = 0; i < length; ++i) variance += (x[i] - mean) * (x[i] - mean);
    const double deviation =
        std::sqrt(variance / static_cast<double>(length) + double{operation.epsilon});
    for (std::int64_t i = 0; i < length; ++i) {
      const std::int64_t at = row * length + i;
      y.floats()[at] =
          static_cast<float>((x[i] - mean) / deviation * parameter(1, at, 1) + parameter(2, at, 0));
    }
  }
}

void Define(const Softmax& operation, Operands inputs, const Result& y) {
  const auto axis = static_cast<std::size_t>(operation.axis);
  Shape lines(y.shape.begin(), y.shape.end());
  lines[axis] = 1;
  std::int64_t stride = 1;
  for (std::size_t d = axis + 1; d < y.rank(); ++d) stride *= y.shape[d];
  ForEachIndex(lines, [&](const Shape& index) {
    const std::int64_t start = Offset(y.shape, index);
    const float* x = inputs[0].floats() + start;
    double largest = -std::numeric_limits<double>::infinity(), sum = 0;
    for (std::int64_t i = 0; i < y.shape[axis]; ++i)
      largest = std::max(largest, double{x[i * stride]});
    for (std::int64_t i = 0; i < y.shape[axis]; ++i) sum += std::exp(x[i * stride] - largest);
    for (std::int64_t i = 0; i < y.shape[axis]; ++i) {
      const double distance = x[i * stride] - largest;
      y.floats()[start + i * stride] =
          static_cast<float>(operation.log ? distance - std::log(sum) : std::exp(distance) / sum);
    }
  });
}

void Define(const ArgReduce& operation, Operands inputs, const Result& y) {
  const Tensor& x = inputs[0];
  const auto axis = static_cast<std::size_t>(operation.axis);
  Shape lines(x.shape.begin(), x.shape.end());
  lines[axis] = 1;
  std::int64_t position = 0;
  WithElementType(x.type, [&]<typename T>() {
    // Long enough for every integer, and every float.
    const auto number = [&](Shape index, std::int64_t i) {
      index[axis] = i;
      const T element = x.as<T>()[Offset(x.shape, index)];
      if constexpr (kIsShortFloat<T>) {
        return static_cast<long double>(element.Get());
      } else {
        return static_cast<long double>(element);
      }
    };
    ForEachIndex(lines, [&](const Shape& line) {
      std::int64_t at = 0;
      for (std::int64_t i = 1; i < x.shape[axis]; ++i) {
        const long double best = number(line, at), v = number(line, i);
        const bool more = operation.kind == ArgReduce::Kind::kMax ? v > best : v < best;
        const bool same = v == best || (std::isnan(v) && std::isnan(best));
        const bool first_nan = std::isnan(v) && !std::isnan(best);
        if (first_nan || (more && !std::isnan(best)) || (same && operation.last)) at = i;
      }
      y.as<std::int64_t>()[position++] = at;
    });
  });
}

void Define(const Hardmax& operation, Operands inputs, const Result& y) {
  Shape lines(y.shape.begin(), y.shape.end());
  lines[static_cast<std::size_t>(operation.axis)] = 1;
  std::vector<std::int64_t> largest(static_cast<std::size_t>(ElementCount(lines)));
  Define(ArgReduce{.axis = operation.axis}, inputs,
         {.type = DataType::kInt64,
          .shape = lines,
          .data = reinterpret_cast<std::byte*>(largest.data())});
  WithElementType(y.type, [&]<typename T>() {
    std::int64_t position = 0;
    ForEachIndex(y.shape, [&](const Shape& index) {
      const std::int64_t at = largest[static_cast<std::size_t>(BroadcastOffset(lines, index))];
      const bool is = index[static_cast<std::size_t>(operation.axis)] == at;
      y.as<T>()[position++] = Convert<T>(is ? 1.0 : 0.0);
    });
  });
}

void Define(const CumulativeSum& operation, Operands inputs, const Result& y) {
  const auto axis = static_cast<std::size_t>(operation.axis);
  WithElementType(y.type, [&]<typename T>() {
    using Sum = std::conditional_t<std::is_integral_v<T>, std::uint64_t, double>;
    std::int64_t position = 0;
    ForEachIndex(y.shape, [&](const Shape& index) {
      Sum sum{};
      for (std::int64_t i = 0; i < y.shape[axis]; ++i) {
        const bool before = operation.reverse ? i > index[axis] : i < index[axis];
        if (!before && (operation.exclusive || i != index[axis])) continue;
        Shape from = index;
        from[axis] = i;
        sum += Convert<Sum>(inputs[0].as<T>()[Offset(y.shape, from)]);
      }
      y.as<T>()[position++] = Convert<T>(sum);
    });
  });
}

}  // namespace sluice::reference
