// engine/kernels/kernel.h
//
// Kernels of our own on row-major tensors, for what a vendor's library lacks or does no better:
// element-wise with broadcasting, moves (transpose, slice, concat, pad, gather, expand), resize,
// reductions, softmax, pools, matrix products. The arithmetic of each element is a functor
// (functors.h) that a GPU kernel can share.
//
// Threads: a kernel runs on the compute team's leader and splits its work over the team (OpenMP);
// the same shapes and team give the same bits.

#ifndef SLUICE_ENGINE_KERNELS_KERNEL_H_
#define SLUICE_ENGINE_KERNELS_KERNEL_H_

#include <cstddef>
#include <functional>
#include <span>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "model/graph.h"

namespace sluice {

struct Kernel {
  std::string name;  // Such as "softmax rows fp32".
  // Bytes of scratch that `run` needs beside inputs and output.
  Bytes scratch;
  // `output` may be the address of input 0 or of input 1, when that input has the output's size.
  bool in_place_0 = false;
  bool in_place_1 = false;
  // inputs[i] is the node's input i, null where it is absent; constants come like any other.
  std::function<void(std::span<const std::byte* const> inputs, std::byte* output,
                     std::byte* scratch)>
      run;
};

// Binds shapes, types and attributes; does not keep the graph.
// Fails: UNIMPLEMENTED, no kernel for this operation or type; the message says which.
absl::StatusOr<Kernel> MakeKernel(const Graph& graph, const Node& node);

// The instruction set of the kernels on this machine, for fingerprints: their results differ in the
// last bits between one and another.
std::string_view KernelIsa();

}  // namespace sluice

#endif  // SLUICE_ENGINE_KERNELS_KERNEL_H_
