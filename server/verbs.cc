#include "server/verbs.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_format.h"
#include "base/status_macros.h"
#include "planner/plan_picture.h"
#include "server/compile_model.h"
#include "server/exit_code.h"
#include "server/inspect_model.h"
#include "server/joint_report.h"
#include "server/model_problem.h"
#include "server/plan_command.h"
#include "server/process_environment.h"
#include "server/setting.h"

namespace sluice {

struct Verbs::Arguments {
  CLI::App* inspect = nullptr;
  CLI::App* compile = nullptr;
  CLI::App* plan = nullptr;
  std::string file, config, model, out_dir;
  std::string plan_out, picture, strategy, time_limit = "10s";
  std::string memory, read_rate = "1.5GB", read_latency = "100us";
  std::vector<std::string> dims, values;
  std::uint64_t work_limit = PlanRequest().work_limit;
  int threads = 0;
  bool json = false, frontier = false, measure = false, as_written = false;
};

namespace {

// "batch=1", "x[2]=224".
absl::Status AddDimension(const std::string& text, ModelConfig& model) {
  const std::size_t equals = text.rfind('=');
  const std::optional<std::int64_t> size =
      equals == std::string::npos ? std::nullopt : ParseInteger(text.substr(equals + 1));
  if (!size || *size < 1 || equals == 0) {
    return absl::InvalidArgumentError(
        absl::StrFormat("--dims: got \"%s\", want NAME=SIZE, such as batch=1", text));
  }
  model.dims[text.substr(0, equals)] = *size;
  return absl::OkStatus();
}

// "sr=16000"; said again, another number of the same input.
absl::Status AddNumber(const std::string& text, ModelConfig& model) {
  const std::size_t equals = text.rfind('=');
  double number = 0;
  if (equals == std::string::npos || equals == 0 ||
      !absl::SimpleAtod(text.substr(equals + 1), &number)) {
    return absl::InvalidArgumentError(
        absl::StrFormat("--values: got \"%s\", want INPUT=NUMBER, such as sr=16000", text));
  }
  model.values[text.substr(0, equals)].push_back(number);
  return absl::OkStatus();
}

absl::StatusOr<ModelConfig> FindModel(const Config& config, const std::string& name) {
  std::vector<ModelConfig> models = config.models;
  if (config.model_repository) {
    for (ModelConfig& model : ScanRepository(*config.model_repository).models) {
      models.push_back(std::move(model));
    }
  }
  if (name.empty() && models.size() == 1) return models.front();
  const auto found = std::ranges::find(models, name, &ModelConfig::name);
  if (found != models.end()) return *found;
  std::string known;
  for (const ModelConfig& model : models) known += (known.empty() ? "" : ", ") + model.name;
  return absl::InvalidArgumentError(
      absl::StrFormat("--model: got \"%s\", want one of: %s", name, known));
}

// What the command line or the configuration it names describes.
struct Described {
  Config config;
  ModelConfig model;
};

absl::StatusOr<Described> DescribedModel(const std::string& config, const std::string& name,
                                         const std::string& file) {
  Described described;
  if (!config.empty()) {
    SLUICE_ASSIGN_OR_RETURN(described.config, ReadConfig(config));
    SLUICE_ASSIGN_OR_RETURN(described.model, FindModel(described.config, name));
    return described;
  }
  std::error_code error;
  described.model.path = std::filesystem::canonical(file, error);
  if (error) {
    return absl::NotFoundError(absl::StrFormat("\"%s\": %s", file, error.message()));
  }
  described.model.root = described.model.path.parent_path();
  described.model.name = described.model.path.stem();
  return described;
}

int CodeOf(const absl::Status& status) {
  switch (status.code()) {
    case absl::StatusCode::kInvalidArgument:
    case absl::StatusCode::kNotFound:
    case absl::StatusCode::kDataLoss:
    case absl::StatusCode::kUnimplemented:
      return static_cast<int>(ExitCode::kConfiguration);
    case absl::StatusCode::kUnavailable:
      return static_cast<int>(ExitCode::kUnavailable);
    default:
      return static_cast<int>(ExitCode::kFailure);
  }
}

int Fail(const absl::Status& status) {
  spdlog::critical("{}", std::string(status.message()));
  return CodeOf(status);
}

// The exit code: `code`, unless the text cannot be written.
int Print(const std::string& text, int code = 0) {
  const bool written = std::fputs(text.c_str(), stdout) >= 0;
  if (std::fflush(stdout) == 0 && written) return code;
  spdlog::critical("standard output: {}", std::strerror(errno));
  return static_cast<int>(ExitCode::kFailure);
}

// Names may be any bytes.
std::string Dump(const nlohmann::ordered_json& json) {
  return json.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

int Inspect(const Described& described, bool json) {
  const absl::StatusOr<ModelInspection> inspection =
      InspectModel(described.config, described.model);
  if (!inspection.ok()) return Fail(inspection.status());
  const std::string text = json ? InspectionJson(described.model, *inspection)
                                : InspectionText(described.model, *inspection);
  return Print(text, inspection->plan ? 0 : CodeOf(inspection->problem));
}

int Compile(const Described& described) {
  const absl::StatusOr<CompiledModel> compiled = CompileModel(described.config, described.model);
  if (!compiled.ok()) return Fail(compiled.status());
  std::string text =
      absl::StrFormat("%s: %s, %s\n", compiled->package.string(), FormatBytes(compiled->file_size),
                      compiled->packed ? "packed" : "was there already; its self-test passes");
  if (described.model.weights != WeightStorage::kAsIs) {
    absl::StrAppendFormat(&text, "weights: %s; %s\n", std::string(Name(described.model.weights)),
                          ErrorText(compiled->weight_error));
  }
  return Print(text);
}

bool IsCsv(const std::string& file) { return std::filesystem::path(file).extension() == ".csv"; }

// What of a plan goes where.
struct PlanOutputs {
  std::string csv, picture;  // Paths; may be empty.
  bool json = false;
};

// Fails: INVALID_ARGUMENT, an output that is the input or the other output.
absl::Status CheckOutputs(const std::string& file, const PlanOutputs& outputs) {
  std::error_code missing;
  const std::pair<const char*, const std::string*> options[] = {{"--out", &outputs.csv},
                                                                {"--picture", &outputs.picture}};
  for (const auto& [option, path] : options) {
    if (!path->empty() && !file.empty() && std::filesystem::equivalent(*path, file, missing)) {
      return absl::InvalidArgumentError(
          absl::StrFormat("%s: got \"%s\", which is FILE: want another file", option, *path));
    }
  }
  if (outputs.csv.empty() || outputs.csv != outputs.picture) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrFormat("--picture: got \"%s\", as --out: want another file", outputs.picture));
}

absl::Status Write(const PlanOutputs& outputs, const PlanReport& report,
                   const std::function<std::string()>& draw) {
  if (!outputs.csv.empty()) {
    SLUICE_RETURN_IF_ERROR(
        WriteTextFile(outputs.csv, FormatUsageCsv(report.problem, report.best.plan.offsets)));
  }
  return outputs.picture.empty() ? absl::OkStatus() : WriteTextFile(outputs.picture, draw());
}

int PlanRecords(absl::StatusOr<NamedRecords> problem, const PlanRequest& request,
                const PlanOutputs& outputs) {
  if (!problem.ok()) return Fail(problem.status());
  const absl::StatusOr<PlanReport> report = MakePlanReport(*std::move(problem), request);
  if (!report.ok()) return Fail(report.status());
  const absl::Status written =
      Write(outputs, *report, [&] { return DrawPlan(report->problem, report->best); });
  if (!written.ok()) return Fail(written);
  return Print(outputs.json ? Dump(PlanReportJson(*report)) : PlanReportText(*report));
}

int PlanModel(const absl::StatusOr<ModelProblem>& model, const PlanRequest& request,
              const JointRequest& joint_request, const PlanOutputs& outputs) {
  if (!model.ok()) return Fail(model.status());
  const absl::StatusOr<PlanReport> report = MakePlanReport(model->buffers, request);
  if (!report.ok()) return Fail(report.status());
  const absl::StatusOr<JointReport> joint = MakeJointReport(*model, joint_request);
  if (!joint.ok()) return Fail(joint.status());
  const absl::Status written = Write(outputs, *report, [&] {
    return DrawJointPlan(model->Joint(joint_request.read),
                         {.buffers = model->buffers.ids, .extents = model->extent_names},
                         joint->plan);
  });
  if (!written.ok()) return Fail(written);
  nlohmann::ordered_json json = PlanReportJson(*report);
  json["joint"] = JointReportJson(*model, *joint);
  return Print(outputs.json ? Dump(json) : PlanReportText(*report) + JointReportText(*joint));
}

// Fails: INVALID_ARGUMENT, an option of the plan.
absl::StatusOr<PlanRequest> RequestOf(const std::string& strategy, const std::string& time_limit,
                                      PlanRequest request) {
  const std::optional<Duration> limit = ParseDuration(time_limit);
  if (!limit) {
    return absl::InvalidArgumentError(absl::StrFormat(
        "--time-limit: got \"%s\", want a duration, such as 500ms or 10s", time_limit));
  }
  request.time_limit = *limit;
  if (!strategy.empty()) {
    SLUICE_ASSIGN_OR_RETURN(request.strategy, FindOffsetStrategy(strategy));
  }
  return request;
}

// Fails: INVALID_ARGUMENT, an option of the joint arena.
absl::StatusOr<JointRequest> JointRequestOf(const std::string& memory, const std::string& read_rate,
                                            const std::string& read_latency, bool frontier) {
  JointRequest request{.memory = {}, .frontier = frontier};
  if (!memory.empty()) {
    const absl::StatusOr<Bytes> bytes = ParseBytes(memory);
    if (!bytes.ok()) {
      return absl::InvalidArgumentError(absl::StrFormat("--memory: %s", bytes.status().message()));
    }
    request.memory = *bytes;
  }
  const absl::StatusOr<Bytes> rate = ParseBytes(read_rate);
  if (!rate.ok() || *rate == Bytes()) {
    return absl::InvalidArgumentError(absl::StrFormat(
        "--read-rate: got \"%s\", want bytes in a second, such as 500MB or 1.5GB", read_rate));
  }
  request.read.bytes_per_second = static_cast<double>(rate->count());
  const std::optional<Duration> latency = ParseDuration(read_latency);
  if (!latency) {
    return absl::InvalidArgumentError(absl::StrFormat(
        "--read-latency: got \"%s\", want a duration, such as 100us", read_latency));
  }
  request.read.latency = *latency;
  return request;
}

void AddJointOptions(CLI::App& verb, std::string& memory, std::string& read_rate,
                     std::string& read_latency, bool& frontier, bool& measure) {
  verb.add_option("--memory", memory,
                  "Of weights and activations; without it, the least that is 5 % later");
  verb.add_option("--read-rate", read_rate, "What the disk reads in a second")
      ->capture_default_str();
  verb.add_option("--read-latency", read_latency, "How long one read takes to begin")
      ->capture_default_str();
  verb.add_flag("--frontier", frontier, "Plans from the least memory to everything resident");
  verb.add_flag("--measure", measure, "Run the model's steps on zeros for their times");
}

void AddModelOptions(
    CLI::App& verb, std::string& file, std::string& config, std::string& model,
    std::vector<std::string>& dims, std::vector<std::string>& values, int& threads,
    const std::string& about_threads = "Threads of one inference; 0: all that may be used",
    const std::string& about_file = "Model file") {
  CLI::Option* file_option = verb.add_option("FILE", file, about_file);
  CLI::Option* config_option =
      verb.add_option("-c,--config", config, "Take settings and the model from a configuration");
  verb.add_option("--model", model, "Its name there; not needed when there is one")
      ->needs(config_option);
  CLI::Option* dims_option =
      verb.add_option("--dims", dims, "Symbolic dimensions: NAME=SIZE,...")->delimiter(',');
  CLI::Option* values_option =
      verb.add_option("--values", values, "Contents of inputs: NAME=NUMBER,...")->delimiter(',');
  CLI::Option* threads_option =
      verb.add_option("--threads", threads, about_threads)->check(CLI::Range(0, 256));
  config_option->excludes(file_option)->excludes(dims_option)->excludes(values_option);
  config_option->excludes(threads_option);
}

}  // namespace

Verbs::Verbs(CLI::App& app) : arguments_(std::make_unique<Arguments>()) {
  Arguments& all = *arguments_;
  app.require_subcommand(0, 1);
  all.inspect = app.add_subcommand("inspect", "Say what a model is, and what it takes to serve it");
  AddModelOptions(*all.inspect, all.file, all.config, all.model, all.dims, all.values, all.threads);
  all.inspect->add_flag("--json", all.json, "For programs");
  all.compile =
      app.add_subcommand("compile", "Make a model's package, so that the daemon finds it");
  AddModelOptions(*all.compile, all.file, all.config, all.model, all.dims, all.values, all.threads);
  all.compile->add_option("--out-dir", all.out_dir, "Folder of packages: the daemon's cache_dir");
  all.plan = app.add_subcommand("plan", "Say where intermediate tensors go in one arena");
  AddModelOptions(*all.plan, all.file, all.config, all.model, all.dims, all.values, all.threads,
                  "Threads of the search, 1 if not given, 4 at most; for a model also of one "
                  "inference, all that may be used if not given",
                  "Model file, or usage records in a file whose name ends in .csv");
  all.plan->add_option("--out", all.plan_out, "Write the plan as a CSV file");
  all.plan->add_option("--picture", all.picture, "Draw the plan as an SVG file");
  all.plan->add_option("--strategy", all.strategy, "This strategy alone, without a search");
  all.plan->add_option("--time-limit", all.time_limit, "How long a search may take")
      ->capture_default_str();
  all.plan
      ->add_option("--work-limit", all.work_limit,
                   "Records that a search may look at: the same plan on every machine")
      ->check(CLI::NonNegativeNumber);
  AddJointOptions(*all.plan, all.memory, all.read_rate, all.read_latency, all.frontier,
                  all.measure);
  all.plan->add_flag("--as-written", all.as_written,
                     "Each value of the model in a buffer of its own, in the file's order");
  all.plan->add_flag("--json", all.json, "For programs");
}

Verbs::~Verbs() = default;

std::optional<int> Verbs::Run(char** argv) {
  Arguments& all = *arguments_;
  const bool compile = all.compile->parsed(), plan = all.plan->parsed();
  if (!compile && !plan && !all.inspect->parsed()) return std::nullopt;
  if (all.file.empty() && all.config.empty()) {
    spdlog::critical("FILE: got nothing, want a model file, or a configuration with --config");
    return static_cast<int>(ExitCode::kUsage);
  }
  const absl::StatusOr<PlanRequest> request =
      RequestOf(all.strategy, all.time_limit,
                {.work_limit = all.work_limit,
                 .threads = static_cast<std::size_t>(std::max(1, all.threads))});
  const absl::StatusOr<JointRequest> joint =
      JointRequestOf(all.memory, all.read_rate, all.read_latency, all.frontier);
  for (const absl::Status& status : {request.status(), joint.status()}) {
    if (status.ok()) continue;
    spdlog::critical("{}", std::string(status.message()));
    return static_cast<int>(ExitCode::kUsage);
  }
  const PlanOutputs outputs{.csv = all.plan_out, .picture = all.picture, .json = all.json};
  if (const absl::Status distinct = CheckOutputs(all.file, outputs); !distinct.ok()) {
    spdlog::critical("{}", std::string(distinct.message()));
    return static_cast<int>(ExitCode::kUsage);
  }
  if (plan && IsCsv(all.file) && all.as_written) {
    spdlog::critical("--as-written: got a CSV file, want a model");
    return static_cast<int>(ExitCode::kUsage);
  }
  if (plan && (IsCsv(all.file) || all.as_written) &&
      (all.frontier || all.measure || !all.memory.empty())) {
    spdlog::critical(
        "--frontier, --measure and --memory: got records alone, want a model's weights");
    return static_cast<int>(ExitCode::kUsage);
  }
  if (plan && IsCsv(all.file)) return PlanRecords(ReadUsageCsv(all.file), *request, outputs);
  absl::StatusOr<Described> described = DescribedModel(all.config, all.model, all.file);
  if (!described.ok()) return Fail(described.status());
  for (const std::string& dimension : all.dims) {
    if (const absl::Status added = AddDimension(dimension, described->model); !added.ok()) {
      spdlog::critical("{}", std::string(added.message()));
      return static_cast<int>(ExitCode::kUsage);
    }
  }
  for (const std::string& number : all.values) {
    if (const absl::Status added = AddNumber(number, described->model); !added.ok()) {
      spdlog::critical("{}", std::string(added.message()));
      return static_cast<int>(ExitCode::kUsage);
    }
  }
  if (all.config.empty()) described->config.threads = all.threads;
  if (!all.out_dir.empty()) {
    described->config.cache_dir = all.out_dir;
  } else if (compile && all.config.empty()) {
    spdlog::critical("--out-dir: got nothing, want a folder for the package");
    return static_cast<int>(ExitCode::kUsage);
  }
  if (const absl::Status restarted = RestartWithEnvironment(described->config, argv);
      !restarted.ok()) {
    spdlog::warn("{}", std::string(restarted.message()));
  }
  if (plan && all.as_written) {
    return PlanRecords(RecordsAsWritten(described->model), *request, outputs);
  }
  if (plan) {
    const StepTimes times = all.measure ? StepTimes::kMeasured : StepTimes::kEstimated;
    return PlanModel(ProblemOfModel(described->config, described->model, times), *request, *joint,
                     outputs);
  }
  return compile ? Compile(*described) : Inspect(*described, all.json);
}

}  // namespace sluice
