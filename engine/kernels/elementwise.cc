// Unary, binary and per-channel arithmetic: rows of the innermost dimension go to the loops.

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <string_view>

#include "absl/strings/str_format.h"
#include "base/status_macros.h"
#include "engine/kernels/broadcast.h"
#include "engine/kernels/makers.h"
#include "engine/kernels/parallel.h"
#include "engine/kernels/typed_loops.h"
#include "model/element_cast.h"

namespace sluice::kernels {
namespace {

std::size_t Width(DataType type) { return static_cast<std::size_t>(SizeOf(type).count()); }

Broadcast<2> BroadcastOf(const Problem& problem) {
  return Broadcast<2>({problem.input(0).shape, problem.input(1).shape}, problem.output().shape);
}

// Which may overwrite an operand of the result's type and size.
Kernel InPlaceKernel(const Problem& problem, std::string_view variant) {
  const auto fits = [&](const Value& operand) {
    return operand.type == problem.output().type && ElementCount(operand.shape) == problem.count();
  };
  Kernel kernel;
  kernel.name = problem.KernelName(variant);
  kernel.in_place_0 = fits(problem.input(0));
  kernel.in_place_1 = fits(problem.input(1));
  return kernel;
}

template <typename T>
absl::StatusOr<Kernel> MakeBroadcast(const BinaryEntry<T>& entry, const Problem& problem) {
  if (entry.both == nullptr) {
    return absl::UnimplementedError(absl::StrFormat("%s: no kernel for element type %s", entry.name,
                                                    ProtocolName(problem.output().type)));
  }
  const Broadcast<2> broadcast = BroadcastOf(problem);
  const bool scalar_a = broadcast.steps()[0] == 0, scalar_b = broadcast.steps()[1] == 0;
  const auto loop = scalar_a ? entry.scalar_a : scalar_b ? entry.scalar_b : entry.both;
  Kernel kernel = InPlaceKernel(problem, scalar_a || scalar_b ? "by scalar" : "");
  kernel.run = [loop, broadcast](std::span<const std::byte* const> inputs, std::byte* output,
                                 std::byte*) {
    const auto* a = reinterpret_cast<const T*>(inputs[0]);
    const auto* b = reinterpret_cast<const T*>(inputs[1]);
    auto* to = reinterpret_cast<T*>(output);
    broadcast.ForEachRow([&](const auto& at, std::size_t y, std::size_t n) {
      loop(a + at[0], b + at[1], to + y, n);
    });
  };
  return kernel;
}

absl::StatusOr<Kernel> MakeTyped(TypedBinary loop, const Problem& problem) {
  const DataType type = problem.input(0).type;
  if (loop == nullptr) {
    return absl::UnimplementedError(absl::StrFormat(
        "%s: no kernel for element type %s", Name(problem.node.operation), ProtocolName(type)));
  }
  Kernel kernel = InPlaceKernel(problem, "");
  kernel.run = [loop, broadcast = BroadcastOf(problem), from = Width(type),
                to = Width(problem.output().type)](std::span<const std::byte* const> inputs,
                                                   std::byte* output, std::byte*) {
    broadcast.ForEachRow([&](const auto& at, std::size_t y, std::size_t n) {
      loop({inputs[0] + at[0] * from, broadcast.steps()[0]},
           {inputs[1] + at[1] * from, broadcast.steps()[1]}, output + y * to, n);
    });
  };
  return kernel;
}

// Of any two types but two of FP32: in double, which holds every base and exponent of interest.
absl::StatusOr<Kernel> MakePower(const Problem& problem) {
  const DataType base = problem.input(0).type, exponent = problem.input(1).type;
  Kernel kernel = InPlaceKernel(problem, "in double");
  kernel.run = [broadcast = BroadcastOf(problem), base_width = Width(base),
                exponent_width = Width(exponent), read_base = CastLoopFor(base, DataType::kFloat64),
                read_exponent = CastLoopFor(exponent, DataType::kFloat64),
                write = CastLoopFor(DataType::kFloat64, base)](
                   std::span<const std::byte* const> inputs, std::byte* output, std::byte*) {
    const std::size_t step_a = broadcast.steps()[0], step_b = broadcast.steps()[1];
    broadcast.ForEachRow([&](const auto& at, std::size_t y, std::size_t count) {
      constexpr std::size_t kChunk = 256;
      std::array<double, kChunk> bases, exponents;
      for (std::size_t i = 0; i < count; i += kChunk) {
        const std::size_t n = std::min(kChunk, count - i);
        read_base(inputs[0] + (at[0] + i * step_a) * base_width,
                  reinterpret_cast<std::byte*>(bases.data()), step_a == 0 ? 1 : n);
        read_exponent(inputs[1] + (at[1] + i * step_b) * exponent_width,
                      reinterpret_cast<std::byte*>(exponents.data()), step_b == 0 ? 1 : n);
        // From the last on, so that what repeats is read before it is overwritten.
        for (std::size_t j = n; j-- > 0;) {
          bases[j] = std::pow(bases[j * step_a], exponents[j * step_b]);
        }
        write(reinterpret_cast<const std::byte*>(bases.data()), output + (y + i) * base_width, n);
      }
    });
  };
  return kernel;
}

// Whether the exponent is the constant 2, for which a product is as exact and far faster.
absl::StatusOr<bool> Squares(const Binary& operation, const Problem& problem) {
  if (operation.kind != Binary::Kind::kPower) return false;
  const Value& exponent = problem.input(1);
  if (exponent.type != DataType::kFloat32 || exponent.constant == nullptr ||
      ElementCount(exponent.shape) != 1) {
    return false;
  }
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

Kernel MakeWideAffine(const Problem& problem) {
  const Shape& shape = problem.output().shape;
  Kernel kernel;
  kernel.name = problem.KernelName("");
  kernel.in_place_0 = true;
  kernel.run = [channels = static_cast<std::size_t>(shape[1]), planes = Product(shape, 0, 2),
                size = Product(shape, 2, shape.size())](std::span<const std::byte* const> inputs,
                                                        std::byte* output, std::byte*) {
    const auto* x = reinterpret_cast<const double*>(inputs[0]);
    const auto* scale = reinterpret_cast<const double*>(inputs[1]);
    const auto* shift = reinterpret_cast<const double*>(inputs[2]);
    auto* y = reinterpret_cast<double*>(output);
    ParallelFor(planes, planes * size, [&](std::size_t begin, std::size_t end) {
      for (std::size_t i = begin * size; i < end * size; ++i) {
        const std::size_t c = i / size % channels;
        y[i] = x[i] * scale[c] + shift[c];
      }
    });
  };
  return kernel;
}

void ApplyTo(const Loops& loops, const Unary& unary, float* y, std::size_t n) {
  if (const UnaryLoop loop = loops.unary[static_cast<std::size_t>(unary.kind)].loop) {
    loop(y, y, n, unary.alpha, unary.beta);
    return;
  }
  auto* bytes = reinterpret_cast<std::byte*>(y);
  TypedUnaryFor(unary.kind, DataType::kFloat32)(bytes, bytes, n, unary.alpha, unary.beta);
}

}  // namespace

absl::StatusOr<Kernel> Make(const Unary& operation, const Problem& problem) {
  const DataType type = problem.output().type;
  const UnaryLoop floats = problem.loops.unary[static_cast<std::size_t>(operation.kind)].loop;
  const TypedUnary typed = TypedUnaryFor(operation.kind, type);
  const bool vectorised = type == DataType::kFloat32 && floats != nullptr;
  if (!vectorised && typed == nullptr) {
    return absl::UnimplementedError(absl::StrFormat("%s: no kernel for element type %s",
                                                    Name(operation.kind), ProtocolName(type)));
  }
  Kernel kernel;
  kernel.name = problem.KernelName(vectorised ? "" : "scalar");
  kernel.in_place_0 = true;
  kernel.run = [vectorised, floats, typed, width = Width(type), n = problem.count(),
                alpha = operation.alpha, beta = operation.beta](
                   std::span<const std::byte* const> inputs, std::byte* output, std::byte*) {
    ParallelFor(n, n, [&](std::size_t begin, std::size_t end) {
      const std::byte* x = inputs[0] + begin * width;
      std::byte* y = output + begin * width;
      if (vectorised) {
        floats(Floats(x), Floats(y), end - begin, alpha, beta);
      } else {
        typed(x, y, end - begin, alpha, beta);
      }
    });
  };
  return kernel;
}

absl::StatusOr<Kernel> Make(const Binary& operation, const Problem& problem) {
  const auto kind = static_cast<std::size_t>(operation.kind);
  const DataType type = problem.output().type;
  if (operation.kind == Binary::Kind::kPower &&
      (type != DataType::kFloat32 || problem.input(1).type != DataType::kFloat32)) {
    return MakePower(problem);
  }
  if (kind < kBinaryKinds) {
    if (type == DataType::kInt32) return MakeBroadcast(problem.loops.binary_int32[kind], problem);
    if (type == DataType::kInt64) return MakeBroadcast(problem.loops.binary_int64[kind], problem);
  }
  if (kind >= kBinaryKinds || type != DataType::kFloat32) {
    return MakeTyped(TypedBinaryFor(operation.kind, type), problem);
  }
  SLUICE_ASSIGN_OR_RETURN(const bool squares, Squares(operation, problem));
  if (squares) return MakeSquare(problem);
  return MakeBroadcast(problem.loops.binary[kind], problem);
}

absl::StatusOr<Kernel> Make(const Compare& operation, const Problem& problem) {
  return MakeTyped(TypedCompareFor(operation.kind, problem.input(0).type), problem);
}

absl::StatusOr<Kernel> Make(const ChannelAffine& operation, const Problem& problem) {
  const Shape& shape = problem.output().shape;
  if (problem.output().type == DataType::kFloat64 && operation.epilogues.empty()) {
    return MakeWideAffine(problem);
  }
  SLUICE_RETURN_IF_ERROR(WantType(problem, DataType::kFloat32));
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
            ApplyTo(loops, epilogue.unary, y, n);
          }
        }
      }
    });
  };
  return kernel;
}

}  // namespace sluice::kernels
