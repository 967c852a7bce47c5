#include "server/joint_report.h"

#include <nlohmann/json.hpp>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_format.h"
#include "base/check.h"
#include "planner/joint_arena.h"
#include "planner/joint_check.h"
#include "planner/joint_frontier.h"
#include "planner/joint_repeat.h"

namespace sluice {
namespace {

using Json = nlohmann::ordered_json;

Duration Later(Duration latency, double share) {
  return latency + std::chrono::duration_cast<Duration>(
                       std::chrono::duration<double>(Seconds(latency) * share));
}

void FillSplit(const JointProblem& problem, Bytes height, Duration latency, JointReport& report) {
  const Bytes activations = AlignUp(height, kPageSize);
  report.activations = activations;
  report.split_least = activations + MinimumStreamMemory(problem.extents);
  if (report.plan.memory() >= report.split_least) {
    const auto split = ChooseResidents(problem.steps, problem.extents, problem.read,
                                       report.plan.memory() - activations);
    if (split) report.split_predicted = split->predicted;
  }
  report.split_memory = SmallestSplitWithin(problem, height, latency);
}

double Milliseconds(Duration duration) { return Seconds(duration) * 1000; }

double PercentLess(Bytes bytes, Bytes than) {
  if (than == Bytes()) return 0;
  return 100 * (1 - static_cast<double>(bytes.count()) / static_cast<double>(than.count()));
}

std::string TimesText(const JointReport& report) {
  if (report.times == StepTimes::kMeasured) return "step times measured here, on zeros";
  return absl::StrFormat(
      "step times are estimates: %.0f GMAC/s a thread, %.0f GB/s of memory, %d us a step; "
      "--measure takes them",
      kMacsPerSecondAndThread / 1e9, kTouchedBytesPerSecond / 1e9,
      std::chrono::duration_cast<std::chrono::microseconds>(kStepOverhead).count());
}

void AppendPlanRow(const JointPlan& plan, std::string& text) {
  absl::StrAppendFormat(&text, "%12s %12s %12s %12s %14.3f %14.3f\n", FormatBytes(plan.memory()),
                        FormatBytes(plan.arena), FormatBytes(plan.resident_bytes),
                        FormatBytes(plan.read_bytes), Milliseconds(plan.predicted),
                        Milliseconds(plan.stall));
}

void AppendTable(std::span<const JointPlan> plans, std::string& text) {
  absl::StrAppendFormat(&text, "%12s %12s %12s %12s %14s %14s\n", "memory", "arena", "resident",
                        "read", "predicted ms", "of it stalled");
  for (const JointPlan& plan : plans) AppendPlanRow(plan, text);
}

Json PointJson(const JointPlan& plan) {
  return {{"memory_bytes", plan.memory().count()},         {"arena_bytes", plan.arena.count()},
          {"resident_bytes", plan.resident_bytes.count()}, {"read_bytes", plan.read_bytes.count()},
          {"predicted_seconds", Seconds(plan.predicted)},  {"stall_seconds", Seconds(plan.stall)}};
}

Json PlanJson(const ModelProblem& model, const JointPlan& plan) {
  Json json = PointJson(plan);
  Json& buffers = json["buffers"] = Json::array();
  for (std::size_t i = 0; i < plan.buffer_offsets.size(); ++i) {
    const UsageRecord& record = model.buffers.records[i];
    buffers.push_back({{"id", model.buffers.ids[i]},
                       {"size", record.size.count()},
                       {"lower", Index(record.live.begin)},
                       {"upper", Index(record.live.end)},
                       {"offset", plan.buffer_offsets[i].count()}});
  }
  const JointTimeline timeline(model.Joint({}));
  Json& extents = json["extents"] = Json::array();
  for (std::size_t k = 0; k < plan.extents.size(); ++k) {
    const PlannedExtent& extent = plan.extents[k];
    extents.push_back({{"id", model.extent_names[k]},
                       {"size", model.extents[k].count()},
                       {"lower", Index(timeline.used[k].begin)},
                       {"upper", Index(timeline.used[k].end)},
                       {"resident", extent.resident}});
    if (extent.resident) continue;
    extents.back()["offset"] = extent.offset.count();
    extents.back()["gate"] = extent.gate ? Json(Index(*extent.gate)) : Json(nullptr);
  }
  return json;
}

}  // namespace

absl::StatusOr<JointReport> MakeJointReport(const ModelProblem& model,
                                            const JointRequest& request) {
  const Instant begin = SteadyClock().Now();
  const JointProblem problem = model.Joint(request.read);
  JointPlanner planner(problem);
  JointReport report;
  report.times = model.times;
  report.read = request.read;
  report.compute = JointTimeline(problem).compute;
  for (const Bytes extent : model.extents) report.weights += extent;
  report.least_memory = planner.least_memory();
  report.least_bound = planner.least_bound();
  Duration latency = Later(report.compute, kAcceptedDelay);
  if (request.memory) {
    std::optional<JointPlan> plan = planner.PlanWithin(*request.memory);
    if (!plan) {
      return absl::InvalidArgumentError(
          absl::StrFormat("--memory: got %s, want at least %d bytes (%s), the least that runs",
                          FormatBytes(*request.memory), planner.least_memory().count(),
                          FormatBytes(planner.least_memory())));
    }
    report.plan = *std::move(plan);
    latency = report.plan.predicted;
  } else {
    report.plan = SmallestWithin(planner, latency);
  }
  const absl::Status right = CheckJointPlan(problem, report.plan);
  SLUICE_CHECK(right.ok());
  report.back_to_back = BackToBack(problem, report.plan);
  FillSplit(problem, planner.most_memory() - report.weights, latency, report);
  if (request.frontier) report.frontier = JointFrontier(planner);
  report.took = SteadyClock().Now() - begin;
  return report;
}

std::string JointReportText(const JointReport& report) {
  const Bytes all = report.activations + report.weights;
  std::string text = absl::StrFormat(
      "\nactivations and weights in one arena (planned in %.0f ms; the daemon runs the split so "
      "far)\n%s; a read takes %.0f us and %.2f GB/s\n",
      Milliseconds(report.took), TimesText(report), Seconds(report.read.latency) * 1e6,
      report.read.bytes_per_second / 1e9);
  absl::StrAppendFormat(&text, "%-32s %12s, %s of activations; %.3f ms\n", "everything resident",
                        FormatBytes(all), FormatBytes(report.activations),
                        Milliseconds(report.compute));
  absl::StrAppendFormat(&text, "%-32s %12s, lower bound %s; split %s\n",
                        "least memory, all streamed", FormatBytes(report.least_memory),
                        FormatBytes(report.least_bound), FormatBytes(report.split_least));
  absl::StrAppendFormat(
      &text, "%-32s %12s, %.1f %% less than resident, %.1f %% later\n", "the plan",
      FormatBytes(report.plan.memory()), PercentLess(report.plan.memory(), all),
      100 * (Seconds(report.plan.predicted) / std::max(1e-12, Seconds(report.compute)) - 1));
  absl::StrAppendFormat(&text, "%-32s %9.3f ms, the first reads behind the last steps\n",
                        "one after the other", Milliseconds(report.back_to_back));
  absl::StrAppendFormat(&text, "%-32s %12s\n", "the split, as soon",
                        report.split_memory ? FormatBytes(*report.split_memory) : "all resident");
  absl::StrAppendFormat(&text, "%-32s %12s\n", "the split, as much memory",
                        report.split_predicted
                            ? absl::StrFormat("%.3f ms", Milliseconds(*report.split_predicted))
                            : "does not run");
  text += "\n";
  AppendTable(std::span(&report.plan, 1), text);
  if (report.frontier.empty()) return text;
  text += "\nfrontier\n";
  AppendTable(report.frontier, text);
  return text;
}

Json JointReportJson(const ModelProblem& model, const JointReport& report) {
  const auto optional_bytes = [](const std::optional<Bytes>& bytes) {
    return bytes ? Json(bytes->count()) : Json(nullptr);
  };
  Json json = {{"step_times", report.times == StepTimes::kMeasured ? "measured" : "estimated"},
               {"read_bytes_per_second", report.read.bytes_per_second},
               {"read_latency_seconds", Seconds(report.read.latency)},
               {"compute_seconds", Seconds(report.compute)},
               {"activation_bytes", report.activations.count()},
               {"weight_bytes", report.weights.count()},
               {"least_memory_bytes", report.least_memory.count()},
               {"least_bound_bytes", report.least_bound.count()},
               {"split_least_bytes", report.split_least.count()},
               {"split_memory_bytes", optional_bytes(report.split_memory)},
               {"plan", PlanJson(model, report.plan)}};
  json["back_to_back_seconds"] = Seconds(report.back_to_back);
  json["split_predicted_seconds"] =
      report.split_predicted ? Json(Seconds(*report.split_predicted)) : Json(nullptr);
  Json& frontier = json["frontier"] = Json::array();
  for (const JointPlan& plan : report.frontier) frontier.push_back(PointJson(plan));
  return json;
}

}  // namespace sluice
