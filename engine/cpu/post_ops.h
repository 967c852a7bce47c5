// engine/cpu/post_ops.h
//
// Epilogues in oneDNN's words.

#ifndef SLUICE_ENGINE_CPU_POST_OPS_H_
#define SLUICE_ENGINE_CPU_POST_OPS_H_

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "engine/cpu/dnnl_kernel.h"
#include "engine/cpu/lowering.h"
#include "model/operation.h"

namespace sluice {

// The chain of element-wise operations that computes `unary`; empty when oneDNN has none.
std::vector<PostOp> EltwiseChain(const Unary& unary);

// Whether zero stays zero, and with it the filling of blocks.
bool PreservesZero(const Unary& unary);

// Adds, multiplies, ... Nothing for what oneDNN lacks.
std::optional<dnnl::algorithm> BinaryAlgorithm(Binary::Kind kind);

// The tail of a primitive whose result has shape `shape`. When `sum` is set, the first epilogue is
// an addition to what the destination holds already.
// Nothing when one of the epilogues has no equivalent.
std::optional<std::vector<PostOp>> PostOpsOf(std::span<const Epilogue> epilogues,
                                             const dnnl::memory::desc& result, bool sum);

// Arguments that the tail adds to the primitive, in order: one for each kBinary.
std::vector<DnnlKernel::Argument> PostOpArguments(std::span<const PostOp> post_ops);

// Names everything that a primitive takes from `post_ops`, for SharedKernel.
std::string KeyOf(std::span<const PostOp> post_ops);
// Names shape, strides and blocks.
std::string KeyOf(const dnnl::memory::desc& desc);

// False for oneDNN's reference implementations, which are slower than anything else.
bool IsFast(std::string_view impl);

}  // namespace sluice

#endif  // SLUICE_ENGINE_CPU_POST_OPS_H_
