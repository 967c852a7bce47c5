// engine/kernels/makers.h
//
// One maker for each operation that has kernels; MakeKernel chooses among them.

#ifndef SLUICE_ENGINE_KERNELS_MAKERS_H_
#define SLUICE_ENGINE_KERNELS_MAKERS_H_

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/kernels/kernel.h"
#include "engine/kernels/loops.h"

namespace sluice::kernels {

// The node that a kernel is wanted for. Borrowed for the call.
struct Problem {
  const Graph& graph;
  const Node& node;
  const Loops& loops;  // Static: kernels may keep a reference.

  // Requires: the input is present.
  const Value& input(std::size_t i) const { return graph.value(*node.inputs[i]); }
  const Value& output() const { return graph.value(node.output); }
  std::size_t count() const { return static_cast<std::size_t>(ElementCount(output().shape)); }
  // "softmax rows fp32 avx2"
  std::string KernelName(std::string_view variant) const;
};

// Fails: UNIMPLEMENTED unless the output is of the type.
absl::Status WantType(const Problem& problem, DataType type);

// The product of dimensions [begin, end).
std::size_t Product(std::span<const std::int64_t> shape, std::size_t begin, std::size_t end);

inline const float* Floats(const std::byte* data) { return reinterpret_cast<const float*>(data); }
inline float* Floats(std::byte* data) { return reinterpret_cast<float*>(data); }

absl::StatusOr<Kernel> Make(const Unary& operation, const Problem& problem);
absl::StatusOr<Kernel> Make(const Binary& operation, const Problem& problem);
absl::StatusOr<Kernel> Make(const Compare& operation, const Problem& problem);
absl::StatusOr<Kernel> Make(const Classify& operation, const Problem& problem);
absl::StatusOr<Kernel> Make(const Select& operation, const Problem& problem);
absl::StatusOr<Kernel> Make(const ChannelAffine& operation, const Problem& problem);
absl::StatusOr<Kernel> Make(const Cast& operation, const Problem& problem);
absl::StatusOr<Kernel> Make(const Softmax& operation, const Problem& problem);
absl::StatusOr<Kernel> Make(const Normalize& operation, const Problem& problem);
absl::StatusOr<Kernel> Make(const Reduce& operation, const Problem& problem);
absl::StatusOr<Kernel> Make(const ArgReduce& operation, const Problem& problem);
absl::StatusOr<Kernel> Make(const Hardmax& operation, const Problem& problem);
absl::StatusOr<Kernel> Make(const CumulativeSum& operation, const Problem& problem);
absl::StatusOr<Kernel> Make(const Pool& operation, const Problem& problem);
absl::StatusOr<Kernel> Make(const Lrn& operation, const Problem& problem);
absl::StatusOr<Kernel> Make(const Convolution& operation, const Problem& problem);
absl::StatusOr<Kernel> Make(const MatMul& operation, const Problem& problem);
absl::StatusOr<Kernel> Make(const Quantize& operation, const Problem& problem);
absl::StatusOr<Kernel> Make(const Dequantize& operation, const Problem& problem);
absl::StatusOr<Kernel> Make(const Recurrent& operation, const Problem& problem);
absl::StatusOr<Kernel> Make(const FullyConnected& operation, const Problem& problem);
absl::StatusOr<Kernel> Make(const Resize& operation, const Problem& problem);
absl::StatusOr<Kernel> Make(const Concat& operation, const Problem& problem);
absl::StatusOr<Kernel> Make(const Transpose& operation, const Problem& problem);
absl::StatusOr<Kernel> Make(const Reshape& operation, const Problem& problem);
absl::StatusOr<Kernel> Make(const Slice& operation, const Problem& problem);
absl::StatusOr<Kernel> Make(const Pad& operation, const Problem& problem);
absl::StatusOr<Kernel> Make(const Gather& operation, const Problem& problem);
absl::StatusOr<Kernel> Make(const Expand& operation, const Problem& problem);
absl::StatusOr<Kernel> Make(const GatherElements& operation, const Problem& problem);
absl::StatusOr<Kernel> Make(const GatherNd& operation, const Problem& problem);
absl::StatusOr<Kernel> Make(const ScatterElements& operation, const Problem& problem);
absl::StatusOr<Kernel> Make(const ScatterNd& operation, const Problem& problem);
absl::StatusOr<Kernel> Make(const ReverseSequence& operation, const Problem& problem);
absl::StatusOr<Kernel> Make(const Triangle& operation, const Problem& problem);
absl::StatusOr<Kernel> Make(const OneHot& operation, const Problem& problem);
absl::StatusOr<Kernel> Make(const TopK& operation, const Problem& problem);
absl::StatusOr<Kernel> Make(const NonZero& operation, const Problem& problem);
absl::StatusOr<Kernel> Make(const Compress& operation, const Problem& problem);
absl::StatusOr<Kernel> Make(const Unique& operation, const Problem& problem);
absl::StatusOr<Kernel> Make(const NonMaxSuppression& operation, const Problem& problem);
absl::StatusOr<Kernel> Make(const PoolIndices& operation, const Problem& problem);
absl::StatusOr<Kernel> Make(const GridSample& operation, const Problem& problem);
absl::StatusOr<Kernel> Make(const RoiAlign& operation, const Problem& problem);
absl::StatusOr<Kernel> Make(const MaxRoiPool& operation, const Problem& problem);
absl::StatusOr<Kernel> Make(const Determinant& operation, const Problem& problem);

// Whether the first input is INT8 or UINT8, and what Make makes of such convolutions and products.
bool IsOfBytes(const Problem& problem);
absl::StatusOr<Kernel> MakeOfBytes(const Convolution& operation, const Problem& problem);
absl::StatusOr<Kernel> MakeOfBytes(const MatMul& operation, const Problem& problem);

// MakeKernel with loops of one's choice, for tests and benchmarks.
absl::StatusOr<Kernel> MakeKernelWith(const Loops& loops, const Graph& graph, const Node& node);

}  // namespace sluice::kernels

#endif  // SLUICE_ENGINE_KERNELS_MAKERS_H_
