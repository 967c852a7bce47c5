// server/plan_command.h
//
// `sluiced plan`: where a model's intermediate tensors, or the usage records of a CSV file, go in
// one arena; every strategy beside the plan that is taken.

#ifndef SLUICE_SERVER_PLAN_COMMAND_H_
#define SLUICE_SERVER_PLAN_COMMAND_H_

#include <cstddef>
#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "base/clock.h"
#include "planner/offset_plan.h"
#include "planner/usage_csv.h"

namespace sluice {

// One row of the table.
struct StrategyResult {
  std::string_view name;
  Bytes bytes;
  Duration took{};
};

struct PlanReport {
  NamedRecords problem;
  std::vector<StrategyResult> offsets;  // One for each strategy that the time was enough for.
  std::vector<StrategyResult> objects;  // Shared objects, for comparison; empty for large problems.
  Bytes naive;                          // Each record in a place of its own.
  Bytes objects_bound;                  // With `objects`.
  CertifiedPlan best;
  Duration took{};  // By `best`, the strategies that it began with included.
};

struct PlanRequest {
  Duration time_limit =
      std::chrono::seconds(10);  // Without a strategy that ends in half of it, records are stacked.
  std::uint64_t work_limit = ~std::uint64_t{0};  // Of the search, as PlanLimits has it.
  std::size_t threads = 1;                       // As PlanLimits has it.
  std::optional<OffsetStrategy> strategy = {};   // This one alone, without a search.
};

// The strategy of that name. Fails: INVALID_ARGUMENT, with all names.
absl::StatusOr<OffsetStrategy> FindOffsetStrategy(std::string_view name);

// Fails: INVALID_ARGUMENT, fixed records overlap, or sizes that no memory holds.
absl::StatusOr<PlanReport> MakePlanReport(NamedRecords problem, const PlanRequest& request);

// For people, and for programs.
std::string PlanReportText(const PlanReport& report);
nlohmann::ordered_json PlanReportJson(const PlanReport& report);

// Reads a CSV file of usage records. Fails: NOT_FOUND, and as ParseUsageCsv; INVALID_ARGUMENT for a
// file above 256 MiB.
absl::StatusOr<NamedRecords> ReadUsageCsv(const std::string& path);

// A file that is there stays as it is unless all of the text can be written. Fails: UNAVAILABLE,
// what the system says.
absl::Status WriteTextFile(const std::string& path, std::string_view text);

}  // namespace sluice

#endif  // SLUICE_SERVER_PLAN_COMMAND_H_
