// server/model_problem.h
//
// A model as the planner sees it: buffers, extents and steps with their costs, all named.

#ifndef SLUICE_SERVER_MODEL_PROBLEM_H_
#define SLUICE_SERVER_MODEL_PROBLEM_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "planner/joint_plan.h"
#include "planner/usage_csv.h"
#include "server/config.h"

namespace sluice {

enum class StepTimes {
  kEstimated,  // From multiplications and bytes: the same wherever it is asked.
  kMeasured,   // Kernels run here, on zeros; the median of a few rounds.
};

struct ModelProblem {
  NamedRecords buffers;
  std::vector<std::string> extent_names;  // The step that it belongs to, or the first and the last.
  std::vector<Bytes> extents;             // Whole pages.
  std::vector<StepCost> steps;
  StepTimes times = StepTimes::kEstimated;

  // Borrows from this.
  JointProblem Joint(const ReadCost& read) const {
    return {.buffers = buffers.records, .extents = extents, .steps = steps, .read = read};
  }
};

// What estimates count with.
inline constexpr double kMacsPerSecondAndThread = 40e9;
inline constexpr double kTouchedBytesPerSecond = 10e9;
inline constexpr Duration kStepOverhead = std::chrono::microseconds(3);

// Imports and lowers the model; nothing is packed.
// Fails: as PrepareModel, and RunOnZeros where times are measured.
absl::StatusOr<ModelProblem> ProblemOfModel(const Config& config, const ModelConfig& model,
                                            StepTimes times);

// The network as its file has it, after batch norms and activations have gone into the nodes before
// them: each value row-major in a buffer of its own, nodes in the file's order. What a planner has
// to do with that is not told of aliases, layouts and other orders.
// Fails: as ImportModel.
absl::StatusOr<NamedRecords> RecordsAsWritten(const ModelConfig& model);

}  // namespace sluice

#endif  // SLUICE_SERVER_MODEL_PROBLEM_H_
