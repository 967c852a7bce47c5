// Bytes that move through the main kernels, inputs and output together, with the machine's widest
// instruction set. Each proves its answer on a small case of the same kind before it is timed.

#include <benchmark/benchmark.h>

#include <functional>
#include <string>
#include <vector>

#include "engine/kernels/kernel_case.h"

namespace sluice::kernels {
namespace {

// A node of this kind, small (scale 1) or as networks have it.
using MakeCase = KernelCase (*)(Draw& draw, std::int64_t scale);

struct Entry {
  const char* name;
  MakeCase make;
  Tolerance tolerance;
};

KernelCase Map(Draw& draw, std::int64_t scale, Unary unary) {
  KernelCase node(unary);
  node.Input(draw, {1, 16 * scale, 7 * scale, 8 * scale});
  return node;
}

KernelCase Spread(Draw& draw, std::int64_t scale, const Shape& b) {
  KernelCase node(Binary{Binary::Kind::kAdd});
  node.Input(draw, {1, 16 * scale, 7 * scale, 8 * scale}).Input(draw, b);
  return node;
}

KernelCase Scale(Draw& draw, std::int64_t scale, Resize::Mode mode) {
  Resize resize;
  resize.mode = mode;
  resize.coordinates = Resize::Coordinates::kAsymmetric;
  resize.rounding = Resize::Rounding::kFloor;
  resize.scales = {1, 1, 2, 2};
  KernelCase node(resize);
  node.Input(draw, {1, 8 * scale, 5 * scale, 5 * scale});
  node.Output({1, 8 * scale, 10 * scale, 10 * scale});
  return node;
}

KernelCase Permute(Draw& draw, std::int64_t scale, const std::vector<std::int64_t>& perm) {
  KernelCase node(Transpose{perm});
  node.Input(draw, {1, 16 * scale, 7 * scale, 8 * scale});
  return node;
}

KernelCase Shrink(Draw& draw, std::int64_t scale, Reduce::Kind kind, bool spatial) {
  Reduce reduce{.kind = kind, .axes = {1}};
  if (spatial) reduce.axes = {2, 3};
  const Shape in = {1, 16 * scale, 7 * scale, 8 * scale};
  KernelCase node(reduce);
  node.Input(draw, in).Output(spatial ? Shape{1, in[1]} : Shape{1, in[2], in[3]});
  return node;
}

KernelCase Window(Draw& draw, std::int64_t scale, Pool::Kind kind, std::int64_t stride) {
  Pool pool;
  pool.kind = kind;
  pool.kernel = {3, 3};
  pool.strides = {stride, stride};
  pool.dilations = {1, 1};
  pool.pads_begin = pool.pads_end = {1, 1};
  KernelCase node(pool);
  node.Input(draw, {1, 8 * scale, 14 * scale, 14 * scale});
  return node;
}

constexpr Entry kEntries[] = {
    {"relu", [](Draw& d, std::int64_t s) { return Map(d, s, {.kind = Unary::Kind::kRelu}); }, {}},
    {"sigmoid",
     [](Draw& d, std::int64_t s) { return Map(d, s, {.kind = Unary::Kind::kSigmoid}); },
     {.ulp = 3}},
    {"tanh",
     [](Draw& d, std::int64_t s) { return Map(d, s, {.kind = Unary::Kind::kTanh}); },
     {.ulp = 3}},
    {"erf",
     [](Draw& d, std::int64_t s) { return Map(d, s, {.kind = Unary::Kind::kErf}); },
     {.ulp = 3}},
    {"add",
     [](Draw& d, std::int64_t s) {
       return Spread(d, s, {1, 16 * s, 7 * s, 8 * s});
     },
     {}},
    {"add_channel",
     [](Draw& d, std::int64_t s) {
       return Spread(d, s, {16 * s, 1, 1});
     },
     {}},
    {"add_row", [](Draw& d, std::int64_t s) { return Spread(d, s, {8 * s}); }, {}},
    {"softmax",
     [](Draw& d, std::int64_t s) {
       return std::move(KernelCase(Softmax{.axis = 1}).Input(d, {16 * s, 50 * s}));
     },
     {.ulp = 8}},
    {"softmax_channels",
     [](Draw& d, std::int64_t s) {
       return std::move(KernelCase(Softmax{.axis = 1}).Input(d, {1, 21, 40 * s, 4 * s}));
     },
     {.ulp = 8}},
    {"mean_spatial",
     [](Draw& d, std::int64_t s) { return Shrink(d, s, Reduce::Kind::kMean, true); },
     {.absolute = 1e-5f}},
    {"mean_channels",
     [](Draw& d, std::int64_t s) { return Shrink(d, s, Reduce::Kind::kMean, false); },
     {.absolute = 1e-5f}},
    {"transpose_nhwc",
     [](Draw& d, std::int64_t s) {
       return Permute(d, s, {0, 2, 3, 1});
     },
     {}},
    {"transpose_rows",
     [](Draw& d, std::int64_t s) {
       return Permute(d, s, {0, 2, 1, 3});
     },
     {}},
    {"concat",
     [](Draw& d, std::int64_t s) {
       KernelCase node(Concat{.axis = 1});
       node.Input(d, {1, 8 * s, 7 * s, 8 * s}).Input(d, {1, 4 * s, 7 * s, 8 * s});
       return node;
     },
     {}},
    {"slice_step_2",
     [](Draw& d, std::int64_t s) {
       KernelCase node(Slice{.starts = {0, 0, 0}, .steps = {1, 2, 2}});
       node.Input(d, {16 * s, 16 * s, 8 * s}).Output({16 * s, 8 * s, 4 * s});
       return node;
     },
     {}},
    {"resize_nearest",
     [](Draw& d, std::int64_t s) { return Scale(d, s, Resize::Mode::kNearest); },
     {}},
    {"resize_linear",
     [](Draw& d, std::int64_t s) { return Scale(d, s, Resize::Mode::kLinear); },
     {.absolute = 1e-5f}},
    {"max_pool", [](Draw& d, std::int64_t s) { return Window(d, s, Pool::Kind::kMax, 2); }, {}},
    {"average_pool",
     [](Draw& d, std::int64_t s) { return Window(d, s, Pool::Kind::kAverage, 1); },
     {.absolute = 1e-5f}},
    {"matmul",
     [](Draw& d, std::int64_t s) {
       return std::move(KernelCase(MatMul{}).Input(d, {32 * s, 32 * s}).Input(d, {32 * s, 32 * s}));
     },
     {.absolute = 1e-3f}},
    {"matmul_transposed",
     [](Draw& d, std::int64_t s) {
       KernelCase node(MatMul{.transposed_a = false, .transposed_b = true, .alpha = 1});
       node.Input(d, {32 * s, 32 * s}).Input(d, {32 * s, 32 * s});
       return node;
     },
     {.absolute = 1e-3f}},
    {"cast_half",
     [](Draw& d, std::int64_t s) {
       KernelCase node((Cast()));
       node.Input(d, {900 * s * s}).Output({900 * s * s}, DataType::kFloat16);
       return node;
     },
     {}},
};

void RunEntry(benchmark::State& state, const Entry& entry) {
  Draw small_draw(1), draw(1);
  const absl::Status right = entry.make(small_draw, 1).Check(BestLoops(), entry.tolerance);
  if (!right.ok()) {
    state.SkipWithError(std::string(right.message()).c_str());
    return;
  }
  KernelCase node = entry.make(draw, 8);
  absl::StatusOr<PreparedCase> prepared = node.Prepare(BestLoops());
  if (!prepared.ok()) {
    state.SkipWithError(std::string(prepared.status().message()).c_str());
    return;
  }
  for (auto _ : state) {
    prepared->Run();
    benchmark::ClobberMemory();
  }
  state.SetBytesProcessed(state.iterations() * static_cast<std::int64_t>(prepared->bytes()));
  if (node.Macs() > 0) {
    const double macs = static_cast<double>(node.Macs()) * static_cast<double>(state.iterations());
    state.counters["macs"] = benchmark::Counter(macs, benchmark::Counter::kIsRate);
  }
  state.SetLabel(prepared->kernel().name);
}

const int kRegistered = [] {
  for (const Entry& entry : kEntries) {
    benchmark::RegisterBenchmark(entry.name, &RunEntry, entry)->UseRealTime();
  }
  return 0;
}();

}  // namespace
}  // namespace sluice::kernels
