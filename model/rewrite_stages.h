// model/rewrite_stages.h
//
// FuseEpilogues in two parts, so that affines fold between them.

#ifndef SLUICE_MODEL_REWRITE_STAGES_H_
#define SLUICE_MODEL_REWRITE_STAGES_H_

#include <cstddef>

#include "absl/status/status.h"
#include "model/graph.h"

namespace sluice {

// Constants become affines, spelled-out activations one operation, pads part of what reads them.
// Fails: DATA_LOSS.
absl::Status Recognise(Graph& graph, std::size_t& applied);

// Activations, residuals and factors join the operation before them.
void FuseTails(Graph& graph, std::size_t& applied);

}  // namespace sluice

#endif  // SLUICE_MODEL_REWRITE_STAGES_H_
