// server/joint_report.h
//
// What `sluiced plan` says of a model's weights and activations in one arena, and of the split that
// it replaces.
//
// Threads: pure functions, callable from anywhere.

#ifndef SLUICE_SERVER_JOINT_REPORT_H_
#define SLUICE_SERVER_JOINT_REPORT_H_

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "planner/joint_plan.h"
#include "server/model_problem.h"

namespace sluice {

// How much later than with everything resident a plan may be that nobody gave a memory for.
inline constexpr double kAcceptedDelay = 0.05;

struct JointRequest {
  ReadCost read{.latency = std::chrono::microseconds(100), .bytes_per_second = 1.5e9};
  std::optional<Bytes> memory;  // Of the plan: arena and residents. Empty: the least that is at
                                // most kAcceptedDelay later.
  bool frontier = false;
};

struct JointReport {
  StepTimes times = StepTimes::kEstimated;
  ReadCost read;
  Duration compute{};  // Latency with everything resident.
  Bytes activations;   // Alone.
  Bytes weights;
  Bytes least_memory, least_bound;  // Nothing resident.
  Bytes split_least;                // Activations, and a ring for the largest extent.
  JointPlan plan;
  Duration back_to_back{};  // Of the plan, from answer to answer while requests wait.
  std::optional<Duration> split_predicted;  // Of the split within the plan's memory, if it runs.
  std::optional<Bytes> split_memory;        // Of the split that keeps the same latency: the plan's
                                            // own, or what kAcceptedDelay allows. Empty where it
                                            // takes everything resident.
  std::vector<JointPlan> frontier;          // When it was asked for.
  Duration took{};
};

// Fails: INVALID_ARGUMENT, request.memory is below the least.
absl::StatusOr<JointReport> MakeJointReport(const ModelProblem& model, const JointRequest& request);

// For people, and for programs.
std::string JointReportText(const JointReport& report);
// Requires: `report` is of the model.
nlohmann::ordered_json JointReportJson(const ModelProblem& model, const JointReport& report);

}  // namespace sluice

#endif  // SLUICE_SERVER_JOINT_REPORT_H_
