// model/rewrite.h
//
// Rewrites that keep the answer (to rounding) and make it cheaper: each returns how often it
// applied. None reads a constant larger than a few thousand channels into memory.

#ifndef SLUICE_MODEL_REWRITE_H_
#define SLUICE_MODEL_REWRITE_H_

#include <cstddef>

#include "absl/status/status.h"
#include "model/graph.h"

namespace sluice {

// All of the ones below, in an order that lets each find the others' work, then drops what nothing
// reads. What load does after import.
// Fails: DATA_LOSS when a small constant cannot be read.
absl::Status Simplify(Graph& graph);

// x * scale + shift behind a convolution or matrix product goes into its weight scale and bias.
absl::Status FoldChannelAffines(Graph& graph, std::size_t& applied);
// Activations, and the addition of a residual, behind a convolution or matrix product become its
// epilogues; x * sigmoid(x) and its like become one activation; a zero pad goes into the
// convolution behind it; addition or multiplication of a per-channel constant becomes an affine.
absl::Status FuseEpilogues(Graph& graph, std::size_t& applied);
// Reshapes and transposes that cancel or do nothing, slices of everything, concats of one part.
std::size_t DropIdentities(Graph& graph);
// Nodes and values that no output needs.
std::size_t DropUnused(Graph& graph);

}  // namespace sluice

#endif  // SLUICE_MODEL_REWRITE_H_
