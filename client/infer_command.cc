#include "client/infer_command.h"

#include <optional>
#include <utility>

#include "absl/strings/str_format.h"
#include "base/status_macros.h"
#include "client/infer_outputs.h"
#include "client/progress.h"
#include "client/table.h"
#include "client/tensor_set.h"
#include "client/text_regions.h"

namespace sluice {
namespace {

// Everything known when the answer is there; text and JSON are two views of it.
struct Report {
  std::string model;
  std::vector<double> seconds;  // One a request.
  std::vector<Tensor> outputs;
  std::vector<TensorSummary> summaries;
  std::vector<std::vector<RankedClass>> ranked;
  std::vector<std::string> labels;
  std::optional<std::vector<TextRegion>> regions;
  std::vector<std::string> files;
};

std::string LabelOf(const Report& report, std::size_t index) {
  return index < report.labels.size() ? report.labels[index] : "";
}

Json TopJson(const Report& report) {
  Json rows = Json::array();
  for (const std::vector<RankedClass>& row : report.ranked) {
    Json classes = Json::array();
    for (const RankedClass& one : row) {
      Json entry = {{"index", one.index}, {"score", one.score}};
      if (!report.labels.empty()) entry["label"] = LabelOf(report, one.index);
      classes.push_back(std::move(entry));
    }
    rows.push_back(std::move(classes));
  }
  return rows;
}

Json RegionsJson(const std::vector<TextRegion>& regions) {
  Json list = Json::array();
  for (const TextRegion& region : regions) {
    list.push_back({{"x", region.box.left},
                    {"y", region.box.top},
                    {"width", region.box.width()},
                    {"height", region.box.height()},
                    {"score", region.score}});
  }
  return list;
}

Json ReportJson(const Report& report) {
  const LatencySummary latency = SummariseLatencies(report.seconds);
  Json json = {{"model", report.model},
               {"requests", report.seconds.size()},
               {"latency_seconds",
                {{"min", latency.min},
                 {"median", latency.median},
                 {"p99", latency.p99},
                 {"max", latency.max}}},
               {"outputs", Json::array()}};
  for (std::size_t i = 0; i < report.outputs.size(); ++i) {
    const Tensor& tensor = report.outputs[i];
    const TensorSummary& summary = report.summaries[i];
    json["outputs"].push_back({{"name", tensor.name},
                               {"datatype", tensor.datatype},
                               {"shape", tensor.shape},
                               {"min", summary.min},
                               {"max", summary.max},
                               {"mean", summary.mean},
                               {"not_finite", summary.not_finite}});
  }
  if (!report.ranked.empty()) json["top"] = TopJson(report);
  if (report.regions.has_value()) json["text_regions"] = RegionsJson(*report.regions);
  if (!report.files.empty()) json["files"] = report.files;
  return json;
}

std::string TopText(const Report& report) {
  std::string text;
  for (std::size_t row = 0; row < report.ranked.size(); ++row) {
    if (report.ranked.size() > 1) absl::StrAppendFormat(&text, "batch %d:\n", row);
    for (std::size_t i = 0; i < report.ranked[row].size(); ++i) {
      const RankedClass& one = report.ranked[row][i];
      absl::StrAppendFormat(&text, "  %2d. class %d, score %.6g  %s\n", i + 1, one.index, one.score,
                            LabelOf(report, one.index));
    }
  }
  return text;
}

std::string ReportText(const Report& report) {
  const LatencySummary latency = SummariseLatencies(report.seconds);
  std::string text;
  if (report.seconds.size() == 1) {
    text = absl::StrFormat("%s answered in %s\n", report.model, FormatSeconds(latency.min));
  } else {
    text = absl::StrFormat("%s answered %d requests: min %s, median %s, p99 %s, max %s\n",
                           report.model, report.seconds.size(), FormatSeconds(latency.min),
                           FormatSeconds(latency.median), FormatSeconds(latency.p99),
                           FormatSeconds(latency.max));
  }
  Table table({"OUTPUT", "TYPE", "SHAPE", "MIN", "MAX", "MEAN", "FIRST VALUES"}, 3);
  for (std::size_t i = 0; i < report.outputs.size(); ++i) {
    const Tensor& tensor = report.outputs[i];
    const TensorSummary& summary = report.summaries[i];
    std::string first;
    for (const double value : summary.first) {
      absl::StrAppendFormat(&first, "%s%.4g", first.empty() ? "" : " ", value);
    }
    table.Add({tensor.name, tensor.datatype, FormatShape(tensor.shape),
               absl::StrFormat("%.4g", summary.min), absl::StrFormat("%.4g", summary.max),
               absl::StrFormat("%.4g", summary.mean), first});
    if (summary.not_finite > 0) {
      absl::StrAppendFormat(&text, "output %s has %d values that are no finite numbers\n",
                            tensor.name, summary.not_finite);
    }
  }
  text += table.Format() + TopText(report);
  if (report.regions.has_value()) text += DescribeTextRegions(*report.regions);
  for (const std::string& file : report.files) absl::StrAppendFormat(&text, "wrote %s\n", file);
  return text;
}

std::vector<TensorInfo> InputsOf(const inference::ModelMetadataResponse& metadata) {
  std::vector<TensorInfo> inputs;
  for (const auto& input : metadata.inputs()) {
    inputs.push_back(
        {input.name(), input.datatype(), {input.shape().begin(), input.shape().end()}});
  }
  return inputs;
}

absl::Status AskRepeatedly(Client& client, const InferArguments& arguments,
                           const std::vector<Tensor>& inputs, Report& report) {
  const InferOptions options{.version = arguments.version,
                             .outputs = arguments.outputs,
                             .id = {},
                             .priority = arguments.priority,
                             .timeout = {}};
  Progress progress(absl::StrFormat("asking %s", arguments.model),
                    arguments.repeat > 1 ? arguments.repeat : 0);
  for (std::size_t i = 0; i < arguments.repeat; ++i) {
    const Instant begin = SteadyClock().Now();
    SLUICE_ASSIGN_OR_RETURN(report.outputs, client.Infer(arguments.model, inputs, options));
    report.seconds.push_back(Seconds(SteadyClock().Now() - begin));
    progress.Advance();
  }
  return absl::OkStatus();
}

// What the caller wants to know of the outputs. Requires: a picture where regions are wanted.
absl::Status Interpret(const InferArguments& arguments, const std::optional<Picture>& picture,
                       Report& report) {
  for (const Tensor& tensor : report.outputs) {
    // Strings have no sizes to sum up.
    const absl::StatusOr<TensorSummary> summary = Summarise(tensor);
    report.summaries.push_back(summary.ok() ? *summary : TensorSummary{});
  }
  if (report.outputs.empty()) return absl::InvalidArgumentError("the answer has no outputs");
  if (!arguments.labels.empty()) {
    SLUICE_ASSIGN_OR_RETURN(report.labels, ReadLabels(arguments.labels));
  }
  if (arguments.top > 0) {
    SLUICE_ASSIGN_OR_RETURN(report.ranked, RankClasses(report.outputs.front(), arguments.top));
  }
  if (!arguments.regions) return absl::OkStatus();
  SLUICE_ASSIGN_OR_RETURN(
      report.regions, FindTextRegions(report.outputs.front(), picture->width, picture->height, {}));
  return absl::OkStatus();
}

absl::Status WriteFiles(const InferArguments& arguments, std::optional<Picture> picture,
                        Report& report) {
  if (!arguments.npy_folder.empty()) {
    SLUICE_ASSIGN_OR_RETURN(const std::vector<std::filesystem::path> files,
                            WriteNpyFiles(arguments.npy_folder, report.outputs));
    for (const std::filesystem::path& file : files) report.files.push_back(file.string());
  }
  if (!arguments.raw_folder.empty()) {
    SLUICE_RETURN_IF_ERROR(WriteTensorSet(arguments.raw_folder, report.outputs));
    report.files.push_back((std::filesystem::path(arguments.raw_folder) / "tensors.json").string());
  }
  if (!arguments.regions_picture.empty()) {
    DrawTextRegions(*report.regions, *picture);
    SLUICE_RETURN_IF_ERROR(WritePng(*picture, arguments.regions_picture));
    report.files.push_back(arguments.regions_picture);
  }
  return absl::OkStatus();
}

}  // namespace

ExitCode RunInfer(const CommonOptions& options, const InferArguments& arguments) {
  Client client = Connect(options);
  const absl::StatusOr<inference::ModelMetadataResponse> metadata =
      client.ModelMetadata(arguments.model, arguments.version);
  if (!metadata.ok()) return Fail(options, metadata.status());
  absl::StatusOr<LoadedInputs> inputs = LoadInputs(InputsOf(*metadata), arguments.inputs);
  if (!inputs.ok()) return FailHere(options, inputs.status(), kExitFile);
  if (arguments.regions && !inputs->picture.has_value()) {
    return FailHere(options,
                    absl::InvalidArgumentError(
                        "got no picture among the inputs, want one to find text regions in"),
                    kExitFile);
  }
  Report report;
  report.model = arguments.model;
  const absl::Status asked = AskRepeatedly(client, arguments, inputs->tensors, report);
  if (!asked.ok()) return Fail(options, asked);
  absl::Status done = Interpret(arguments, inputs->picture, report);
  if (done.ok()) done = WriteFiles(arguments, std::move(inputs->picture), report);
  if (!done.ok()) return FailHere(options, done, kExitFile);
  if (options.json) {
    PrintJson(ReportJson(report));
  } else {
    PrintText(ReportText(report));
  }
  return kExitOk;
}

}  // namespace sluice
