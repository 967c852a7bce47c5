// server/inspect_model.h
//
// `sluiced inspect`: what a model is and what it will take, told without a daemon and without
// packing anything.

#ifndef SLUICE_SERVER_INSPECT_MODEL_H_
#define SLUICE_SERVER_INSPECT_MODEL_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/bytes.h"
#include "engine/program.h"
#include "model/onnx/onnx_importer.h"
#include "model/onnx/onnx_summary.h"
#include "server/config.h"

namespace sluice {

// What becomes of the model when it is lowered for this machine.
struct ModelPlan {
  std::vector<PortInfo> inputs, outputs;  // With the dimensions that were given.
  std::size_t steps = 0, extents = 0;
  Bytes file_weights;       // Constants that the network reads, in the file's own form.
  Bytes weights;            // Packed, whole pages.
  Bytes stored;             // The same as the disk will have them.
  Bytes largest_extent;     // The smallest ring.
  std::uint64_t macs = 0;   // Multiply-accumulate operations of one inference.
  Bytes activations;        // Height of the offset plan.
  Bytes naive_activations;  // The same buffers, each in a place of its own.
  Bytes smallest_budget, largest_useful_budget;  // Of the whole process.
};

struct ModelInspection {
  OnnxSummary file;
  std::vector<UnsupportedThing> unsupported;
  // Absent when the model cannot be lowered: `problem` says why, all of it at once.
  std::optional<ModelPlan> plan;
  absl::Status problem;
};

// Looks at the model as a daemon of this configuration would load it, alone. Takes memory for the
// structure of the model, its kernels, its activations and the largest extent.
// Fails: what SummarizeOnnx fails with; as StartComputeParts.
absl::StatusOr<ModelInspection> InspectModel(const Config& config, const ModelConfig& model);

// For people, and for programs.
std::string InspectionText(const ModelConfig& model, const ModelInspection& inspection);
std::string InspectionJson(const ModelConfig& model, const ModelInspection& inspection);

}  // namespace sluice

#endif  // SLUICE_SERVER_INSPECT_MODEL_H_
