#include "server/plan_command.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <system_error>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_format.h"
#include "base/check.h"
#include "base/status_macros.h"
#include "planner/offset_check.h"
#include "planner/shared_objects.h"

namespace sluice {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::uintmax_t kLargestFile = std::uintmax_t{256} << 20;
// Shared objects take cubic time.
constexpr std::size_t kMostForObjects = 500;

template <typename Make>
auto Timed(Make make, Duration& took) {
  const Instant begin = SteadyClock().Now();
  auto made = make();
  took = SteadyClock().Now() - begin;
  return made;
}

std::string_view CertificateText(Certificate certificate) {
  switch (certificate) {
    case Certificate::kMeetsBound:
      return "meets the lower bound";
    case Certificate::kProvenOptimal:
      return "proven optimal";
    case Certificate::kBestFound:
      return "best found";
  }
  return "unknown";
}

double Ratio(Bytes bytes, Bytes bound) {
  if (bound == Bytes()) return 1;
  return static_cast<double>(bytes.count()) / static_cast<double>(bound.count());
}

void AppendRow(std::string_view name, Bytes bytes, Bytes bound, std::string_view rest,
               std::string& text) {
  absl::StrAppendFormat(&text, "%-32s %14d %11s %8.4f  %s\n", name, bytes.count(),
                        FormatBytes(bytes), Ratio(bytes, bound), rest);
}

std::string Milliseconds(Duration took) {
  return absl::StrFormat("%9.3f ms", Seconds(took) * 1000);
}

void AppendRows(const std::vector<StrategyResult>& rows, Bytes bound, std::string& text) {
  for (const StrategyResult& row : rows) {
    AppendRow(row.name, row.bytes, bound, Milliseconds(row.took), text);
  }
}

Json Rows(const std::vector<StrategyResult>& rows) {
  Json json = Json::object();
  for (const StrategyResult& row : rows) {
    json[std::string(row.name)] = {{"bytes", row.bytes.count()}, {"seconds", Seconds(row.took)}};
  }
  return json;
}

// Fails: INVALID_ARGUMENT, fixed records that are live together overlap.
absl::Status CheckFixed(const NamedRecords& problem) {
  std::vector<UsageRecord> fixed;
  OffsetPlan plan;
  for (const UsageRecord& record : problem.records) {
    if (!record.fixed || record.size == Bytes()) continue;
    fixed.push_back(record);
    plan.offsets.push_back(*record.fixed);
    plan.height = std::max(plan.height, *record.fixed + record.size);
  }
  absl::Status valid = CheckOffsets(fixed, plan);
  if (valid.ok()) return valid;
  return absl::InvalidArgumentError(absl::StrFormat(
      "offset: counting fixed records alone, %s; want offsets that leave a plan", valid.message()));
}

// Each record above all others, fixed ones where they are: a plan in no time.
OffsetPlan Stack(std::span<const UsageRecord> records) {
  OffsetPlan plan;
  for (const UsageRecord& record : records) {
    if (record.fixed && record.size > Bytes()) {
      plan.height = std::max(plan.height, *record.fixed + record.size);
    }
  }
  for (const UsageRecord& record : records) {
    plan.offsets.push_back(record.fixed.value_or(AlignUp(plan.height, record.alignment)));
    if (record.fixed || record.size == Bytes()) continue;
    plan.height = plan.offsets.back() + record.size;
  }
  return plan;
}

}  // namespace

absl::StatusOr<OffsetStrategy> FindOffsetStrategy(std::string_view name) {
  std::string known;
  for (const OffsetStrategy strategy : kOffsetStrategies) {
    if (Name(strategy) == name) return strategy;
    absl::StrAppendFormat(&known, "%s%s", known.empty() ? "" : ", ", Name(strategy));
  }
  return absl::InvalidArgumentError(
      absl::StrFormat("--strategy: got \"%s\", want one of %s", name, known));
}

absl::StatusOr<PlanReport> MakePlanReport(NamedRecords problem, const PlanRequest& request) {
  const Instant begin = SteadyClock().Now();
  const PlanLimits limits{
      .work = request.work_limit,
      .stop = [end = begin + request.time_limit] { return SteadyClock().Now() >= end; },
      .threads = request.threads};
  PlanReport report;
  report.problem = std::move(problem);
  const std::vector<UsageRecord>& records = report.problem.records;
  if (PassesAllMemory(records)) {
    return absl::InvalidArgumentError(
        "records: sizes, alignments and offsets sum up to more than 2^62 bytes, want what a memory "
        "can hold");
  }
  SLUICE_RETURN_IF_ERROR(CheckFixed(report.problem));
  for (const UsageRecord& record : records) report.naive += AlignUp(record.size, record.alignment);
  // The other half of the time is for what lowers the best of them.
  const PlanLimits half{.work = ~std::uint64_t{0}, .stop = [end = begin + request.time_limit / 2] {
                          return SteadyClock().Now() >= end;
                        }};
  std::optional<OffsetPlan> best;
  const auto take = [&](OffsetStrategy strategy, const PlanLimits& until) {
    StrategyResult row{.name = Name(strategy), .bytes = {}};
    std::optional<OffsetPlan> plan =
        Timed([&] { return TryPlanOffsets(records, strategy, until); }, row.took);
    if (!plan) return;
    row.bytes = plan->height;
    report.offsets.push_back(row);
    if (!best || plan->height < best->height) best = std::move(plan);
  };
  for (const OffsetStrategy strategy : kOffsetStrategies) {
    if (request.strategy || half.stop()) break;
    take(strategy, half);
  }
  if (request.strategy) take(*request.strategy, {.work = ~std::uint64_t{0}});
  if (!best) best = Stack(records);
  const PlanLimits none{.work = 0};
  report.best = CertifyOffsets(records, *std::move(best), request.strategy ? none : limits);
  report.took = SteadyClock().Now() - begin;
  SLUICE_CHECK(CheckOffsets(records, report.best.plan).ok());
  if (records.size() <= kMostForObjects) {
    report.objects_bound = SharedObjectsLowerBound(records);
    for (const SharedObjectsStrategy strategy : kSharedObjectsStrategies) {
      StrategyResult row{.name = Name(strategy), .bytes = {}};
      row.bytes = Timed([&] { return PlanSharedObjects(records, strategy).total; }, row.took);
      report.objects.push_back(row);
    }
  }
  return report;
}

std::string PlanReportText(const PlanReport& report) {
  const Bytes bound = report.best.bound;
  std::string text = absl::StrFormat("%d records\n\n%-32s %14s %11s %8s\n",
                                     report.problem.records.size(), "", "bytes", "", "of bound");
  AppendRow("each in a place of its own", report.naive, bound, "", text);
  AppendRow("lower bound", bound, bound, "", text);
  AppendRows(report.offsets, bound, text);
  AppendRow("the plan", report.best.plan.height, bound,
            absl::StrFormat("%s  %s", Milliseconds(report.took),
                            CertificateText(report.best.certificate)),
            text);
  if (report.objects.empty()) return text;
  text += "\nshared objects, where memory has no offsets\n";
  AppendRow("lower bound", report.objects_bound, bound, "", text);
  AppendRows(report.objects, bound, text);
  return text;
}

Json PlanReportJson(const PlanReport& report) {
  std::vector<std::uint64_t> offsets;
  for (const Bytes offset : report.best.plan.offsets) offsets.push_back(offset.count());
  return {{"records", report.problem.records.size()},
          {"naive_bytes", report.naive.count()},
          {"lower_bound_bytes", report.best.bound.count()},
          {"offsets", Rows(report.offsets)},
          {"shared_objects", Rows(report.objects)},
          {"plan",
           {{"bytes", report.best.plan.height.count()},
            {"seconds", Seconds(report.took)},
            {"certificate", CertificateText(report.best.certificate)},
            {"offsets", offsets}}}};
}

absl::StatusOr<NamedRecords> ReadUsageCsv(const std::string& path) {
  std::error_code error;
  const std::uintmax_t size = std::filesystem::file_size(path, error);
  if (error) return absl::NotFoundError(absl::StrFormat("\"%s\": %s", path, error.message()));
  if (size > kLargestFile) {
    return absl::InvalidArgumentError(
        absl::StrFormat("\"%s\": got %d bytes, want at most %d", path, size, kLargestFile));
  }
  std::ifstream file(path, std::ios::binary);
  const std::string text((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  if (!file) return absl::NotFoundError(absl::StrFormat("\"%s\": cannot be read", path));
  absl::StatusOr<NamedRecords> problem = ParseUsageCsv(text);
  if (problem.ok()) return problem;
  return absl::InvalidArgumentError(
      absl::StrFormat("\"%s\": %s", path, problem.status().message()));
}

absl::Status WriteTextFile(const std::string& path, std::string_view text) {
  // A disk that is full must not cost what was there: whole under another name first, unless the
  // path is a device or a pipe.
  std::error_code error;
  const std::filesystem::path target = std::filesystem::weakly_canonical(path, error);
  const bool replaces = !error && (std::filesystem::is_regular_file(target, error) ||
                                   !std::filesystem::exists(target, error));
  const std::string written_to = replaces ? target.native() + ".part" : path;
  std::FILE* file = std::fopen(written_to.c_str(), "w");
  bool written = file != nullptr;
  if (file != nullptr) {
    written = std::fwrite(text.data(), 1, text.size(), file) == text.size();
    written = std::fclose(file) == 0 && written;
  }
  if (written && replaces) written = std::rename(written_to.c_str(), target.c_str()) == 0;
  if (written) return absl::OkStatus();
  const int failure = errno;
  if (replaces && file != nullptr) std::remove(written_to.c_str());
  return absl::UnavailableError(absl::StrFormat("\"%s\": %s", path, std::strerror(failure)));
}

}  // namespace sluice
