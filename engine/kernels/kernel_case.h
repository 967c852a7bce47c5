// engine/kernels/kernel_case.h
//
// For tests: one node with contents for its inputs, run by a kernel and by the reference, and the
// two compared.

#ifndef SLUICE_ENGINE_KERNELS_KERNEL_CASE_H_
#define SLUICE_ENGINE_KERNELS_KERNEL_CASE_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "engine/kernels/kernel.h"
#include "engine/kernels/loops.h"

namespace sluice::kernels {

// A source of choices: the same seed, the same choices.
class Draw {
 public:
  explicit Draw(std::uint64_t seed) : engine_(seed) {}
  // In [0, n). Requires: n > 0.
  std::int64_t Below(std::int64_t n) {
    return static_cast<std::int64_t>(engine_() % static_cast<std::uint64_t>(n));
  }
  // In [low, high].
  std::int64_t Between(std::int64_t low, std::int64_t high) { return low + Below(high - low + 1); }
  float Float(float low, float high) {
    return low + (high - low) * static_cast<float>(engine_() >> 40) * 0x1p-24f;
  }
  bool Coin() { return Below(2) == 1; }
  // `rank` sizes, now and then 0 or 1 or beside the width of a vector.
  Shape AnyShape(std::int64_t rank, std::int64_t largest);

 private:
  std::mt19937_64 engine_;
};

// A float may differ from the reference by either, a double by what a few roundings cost;
// everything else must be the same bits.
struct Tolerance {
  float ulp = 0;
  float absolute = 0;
};

struct RunOptions {
  std::size_t misalignment = 0;         // Elements by which every tensor starts off a cache line.
  std::optional<std::size_t> in_place;  // The input that the output overwrites.
};

// A tensor in memory that starts `misaligned` bytes after a cache line, with guards on both sides.
class GuardedTensor {
 public:
  GuardedTensor(std::size_t size, std::size_t misaligned);
  std::byte* data() { return storage_.data() + begin_; }
  std::size_t size() const { return size_; }
  bool intact() const;  // Nothing was written around it.

 private:
  std::vector<std::byte> storage_;
  std::size_t size_, begin_ = 0;
};

// A kernel with memory for all that it reads and writes.
class PreparedCase {
 public:
  PreparedCase(Kernel kernel, std::vector<GuardedTensor> inputs, std::vector<bool> present,
               GuardedTensor output, std::optional<std::size_t> in_place);

  void Run();
  absl::Status CheckGuards() const;
  std::vector<std::byte> result();
  const Kernel& kernel() const { return kernel_; }
  std::size_t bytes() const;  // Of inputs and output.

 private:
  Kernel kernel_;
  std::vector<GuardedTensor> inputs_;
  GuardedTensor output_, scratch_;
  std::optional<std::size_t> in_place_;
  std::vector<const std::byte*> addresses_;
};

class KernelCase {
 public:
  explicit KernelCase(Operation operation) { node_.operation = std::move(operation); }

  // Random contents: floats in [low, high], integers too, indices as they come.
  KernelCase& Input(Draw& draw, Shape shape, DataType type = DataType::kFloat32, float low = -4,
                    float high = 4);
  KernelCase& Floats(Shape shape, const std::vector<float>& contents);
  KernelCase& Doubles(Shape shape, const std::vector<double>& contents);
  KernelCase& Integers(Shape shape, const std::vector<std::int64_t>& contents);
  KernelCase& Absent();
  KernelCase& Constant();  // Makes the last input one.
  // Where the operation leaves a choice; otherwise the shape that follows is taken.
  KernelCase& Output(Shape shape, std::optional<DataType> type = {});

  // Fails: what MakeKernel fails with; INTERNAL, the first difference from the reference, or bytes
  // written outside the output.
  absl::Status Check(const Loops& loops, Tolerance tolerance, RunOptions options = {});
  // What the kernel computes. Requires: one that is supported.
  std::vector<std::byte> Run(const Loops& loops, RunOptions options = {});
  absl::StatusOr<Kernel> Make(const Loops& loops);
  absl::StatusOr<PreparedCase> Prepare(const Loops& loops, RunOptions options = {});
  std::string Describe() const;
  // Multiplications, of a matrix product. Requires: prepared.
  std::uint64_t Macs() const { return MacCount(graph_, node_); }

 private:
  KernelCase& Add(DataType type, Shape shape, std::vector<std::byte> contents);
  absl::Status Finish();  // Settles the output's shape.
  absl::StatusOr<std::vector<std::byte>> RunChecked(const Loops& loops, RunOptions options);
  std::vector<std::byte> Expected() const;
  absl::Status CompareDoubles(std::span<const std::byte> got,
                              std::span<const std::byte> want) const;

  Graph graph_;
  Node node_;
  std::vector<std::vector<std::byte>> contents_;  // By input; empty where absent.
  std::optional<Shape> shape_;
  std::optional<DataType> type_;
};

// Units in the last place between two floats; 0 when both are NaN.
double UlpDistance(float a, float b);

// The instruction sets that this machine can run.
std::vector<const Loops*> AvailableLoops();

}  // namespace sluice::kernels

#endif  // SLUICE_ENGINE_KERNELS_KERNEL_CASE_H_
