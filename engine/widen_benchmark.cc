// Floats that Widen writes, by encoding and channels: the reader must stay ahead of the disk.

#include <benchmark/benchmark.h>

#include <array>
#include <vector>

#include "base/check.h"
#include "engine/weight_encoding.h"

namespace sluice {
namespace {

struct Shape {
  const char* name;
  Encoding encoding;
  ChannelMap scales;
};

constexpr std::array<Shape, 7> kShapes = {{
    {"fp16", Encoding::kFloat16, {}},
    {"fp16 scaled, 16 channels", Encoding::kFloat16, {2304 * 16, 16}},
    {"bf16", Encoding::kBfloat16, {}},
    {"int8, 16 channels", Encoding::kInt8, {2304 * 16, 16}},
    {"int8, 64 channels", Encoding::kInt8, {768 * 64, 64}},
    {"int8, rows", Encoding::kInt8, {768, 1}},
    {"int8, small groups", Encoding::kInt8, {144, 16}},
}};

void BM_Widen(benchmark::State& state) {
  const Shape& shape = kShapes[static_cast<std::size_t>(state.range(0))];
  state.SetLabel(shape.name);
  const std::uint64_t group = shape.scales.group == 0 ? 4096 : shape.scales.group;
  const std::array<EncodedRun, 1> runs = {
      {{.floats = (1u << 20) / group * group, .encoding = shape.encoding, .scales = shape.scales}}};
  const Bytes size = Bytes::Of(runs[0].floats * sizeof(float));
  SLUICE_CHECK(CheckRuns(size, runs).ok());
  std::vector<float> place(runs[0].floats);
  for (auto _ : state) {
    Widen(std::as_writable_bytes(std::span(place)), size, runs);
    benchmark::DoNotOptimize(place.data());
    benchmark::ClobberMemory();
  }
  state.SetBytesProcessed(state.iterations() * static_cast<std::int64_t>(size.count()));
}
BENCHMARK(BM_Widen)->DenseRange(0, kShapes.size() - 1);

}  // namespace
}  // namespace sluice
