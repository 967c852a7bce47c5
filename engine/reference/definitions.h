// engine/reference/definitions.h
//
// The plain definition of each operation of model/operation.h on row-major tensors, in the most
// obvious loops: what every other kernel is checked against. Sums are taken in double and rounded
// once. Where the formats leave a case open, it is settled here:
//   - NaN goes through: maximum, minimum, clip, relu and max pool of NaN are NaN;
//   - a max pool's window without elements gives the lowest float, an average pool's gives 0;
//   - the largest (smallest) of several elements is a NaN, where there is one;
//   - integers: x / 0 is 0, and everything else wraps around;
//   - a gather's index out of range gives zeros;
//   - resize computes coordinates in single precision, as the runtimes of the formats do, so that
//     one that falls on a boundary falls on the same side.
//
// Threads: pure functions. Requires: shapes and types that fit the operation, as Supported says;
// the result's memory apart from the operands'.

#ifndef SLUICE_ENGINE_REFERENCE_DEFINITIONS_H_
#define SLUICE_ENGINE_REFERENCE_DEFINITIONS_H_

#include <span>

#include "absl/status/status.h"
#include "engine/reference/tensor.h"
#include "model/graph.h"

namespace sluice::reference {

using Operands = std::span<const Tensor>;

// Fails: UNIMPLEMENTED, what the reference does not define: a type, or a number of dimensions.
absl::Status Supported(const Graph& graph, const Node& node);

void Evaluate(const Operation& operation, Operands inputs, const Result& y);

void Define(const Unary& operation, Operands inputs, const Result& y);
void Define(const Binary& operation, Operands inputs, const Result& y);
void Define(const Convolution& operation, Operands inputs, const Result& y);
void Define(const FullyConnected& operation, Operands inputs, const Result& y);
void Define(const MatMul& operation, Operands inputs, const Result& y);
void Define(const Pool& operation, Operands inputs, const Result& y);
void Define(const ChannelAffine& operation, Operands inputs, const Result& y);
void Define(const Normalize& operation, Operands inputs, const Result& y);
void Define(const Softmax& operation, Operands inputs, const Result& y);
void Define(const Concat& operation, Operands inputs, const Result& y);
void Define(const Transpose& operation, Operands inputs, const Result& y);
void Define(const Reshape& operation, Operands inputs, const Result& y);
void Define(const Slice& operation, Operands inputs, const Result& y);
void Define(const Pad& operation, Operands inputs, const Result& y);
void Define(const Resize& operation, Operands inputs, const Result& y);
void Define(const Gather& operation, Operands inputs, const Result& y);
void Define(const Reduce& operation, Operands inputs, const Result& y);
void Define(const Cast& operation, Operands inputs, const Result& y);
void Define(const Expand& operation, Operands inputs, const Result& y);
void Define(const Lrn& operation, Operands inputs, const Result& y);
void Define(const Compare& operation, Operands inputs, const Result& y);
void Define(const Classify& operation, Operands inputs, const Result& y);
void Define(const Select& operation, Operands inputs, const Result& y);
void Define(const ArgReduce& operation, Operands inputs, const Result& y);
void Define(const Hardmax& operation, Operands inputs, const Result& y);
void Define(const CumulativeSum& operation, Operands inputs, const Result& y);
void Define(const Recurrent& operation, Operands inputs, const Result& y);

// One element through a unary function.
double Apply(const Unary& unary, double x);
// Element `position` of a result through a tail.
double Apply(std::span<const Epilogue> epilogues, Operands inputs, std::int64_t position,
             double value);

}  // namespace sluice::reference

#endif  // SLUICE_ENGINE_REFERENCE_DEFINITIONS_H_
