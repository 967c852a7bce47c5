// model/rewrite_stages.h
//
// The parts of Simplify.

#ifndef SLUICE_MODEL_REWRITE_STAGES_H_
#define SLUICE_MODEL_REWRITE_STAGES_H_

#include <cstddef>

#include "absl/status/status.h"
#include "model/graph.h"

namespace sluice {

// Between dequantised and quantised numbers, bytes are computed with. Runs before anything that
// would give the same operations tails. Fails: DATA_LOSS.
absl::Status FuseQuantized(Graph& graph, std::size_t& applied);

// Constants become affines, spelled-out activations one operation, pads part of what reads them.
// Fails: DATA_LOSS.
absl::Status Recognise(Graph& graph, std::size_t& applied);

// Normalisations of rows that were spelled out become one operation, their scale and shift in it.
// Runs before Recognise, which would make other things of their parts. Fails: DATA_LOSS.
absl::Status RecogniseNorms(Graph& graph, std::size_t& applied);

// The same for Gaussian error linear units; runs behind Recognise.
void RecogniseGelus(Graph& graph, std::size_t& applied);

// Transposes before and behind products of computed matrices become part of them.
void AbsorbTransposes(Graph& graph, std::size_t& applied);

// Activations, residuals and factors join the operation before them.
void FuseTails(Graph& graph, std::size_t& applied);

}  // namespace sluice

#endif  // SLUICE_MODEL_REWRITE_STAGES_H_
