// The commands that look: status, models, metadata.

#include <string>
#include <vector>

#include "absl/strings/str_format.h"
#include "base/bytes.h"
#include "client/command.h"
#include "client/table.h"

namespace sluice {
namespace {

std::string InBytes(std::uint64_t count) { return FormatBytes(Bytes::Of(count)); }

Json ModelJson(const v1::ModelMemory& model) {
  return {{"name", model.name()},
          {"version", model.version()},
          {"state", model.state()},
          {"reason", model.reason()},
          {"weight_bytes", model.weight_bytes()},
          {"stored_weight_bytes", model.stored_weight_bytes()},
          {"weight_rms_error", model.weight_rms_error()},
          {"weight_largest_error", model.weight_largest_error()},
          {"resident_bytes", model.resident_bytes()},
          {"activation_bytes", model.activation_bytes()},
          {"ring_bytes", model.ring_bytes()},
          {"kernel_bytes", model.kernel_bytes()},
          {"inferences", model.inferences()},
          {"last_latency_seconds", model.last_latency_seconds()},
          {"last_stall_seconds", model.last_stall_seconds()},
          {"last_streamed_bytes", model.last_streamed_bytes()},
          {"predicted_latency_seconds", model.predicted_latency_seconds()}};
}

Json StatusJson(const v1::GetMemoryResponse& memory) {
  Json json = {{"budget_bytes", memory.budget_bytes()},
               {"budget_source", memory.budget_source()},
               {"reserved_bytes", memory.reserved_bytes()},
               {"resident_bytes", memory.resident_bytes()},
               {"peak_resident_bytes", memory.peak_resident_bytes()},
               {"swapped_bytes", memory.swapped_bytes()},
               {"unaccounted_bytes", memory.unaccounted_bytes()},
               {"uptime_seconds", memory.uptime_seconds()},
               {"device", memory.device()},
               {"ledger", Json::array()},
               {"models", Json::array()}};
  for (const v1::LedgerLine& line : memory.ledger()) {
    json["ledger"].push_back({{"line", line.line()},
                              {"model", line.model()},
                              {"reserved_bytes", line.reserved_bytes()},
                              {"used_bytes", line.used_bytes()}});
  }
  for (const v1::ModelMemory& model : memory.models()) json["models"].push_back(ModelJson(model));
  return json;
}

std::string Percent(std::uint64_t part, std::uint64_t whole) {
  if (whole == 0) return "";
  return absl::StrFormat(" (%.0f %%)",
                         100.0 * static_cast<double>(part) / static_cast<double>(whole));
}

std::string StatusText(const v1::GetMemoryResponse& memory) {
  const std::uint64_t budget = memory.budget_bytes();
  std::string text = absl::StrFormat(
      "budget    %s, set by the %s\n"
      "reserved  %s%s\n"
      "process   %s in memory, %s at its peak%s, %s swapped\n"
      "weights   read through %s\n"
      "up        %.0f s\n\n",
      InBytes(budget), memory.budget_source(), InBytes(memory.reserved_bytes()),
      Percent(memory.reserved_bytes(), budget), InBytes(memory.resident_bytes()),
      InBytes(memory.peak_resident_bytes()), Percent(memory.peak_resident_bytes(), budget),
      InBytes(memory.swapped_bytes()), memory.device(), memory.uptime_seconds());
  Table ledger({"LEDGER", "MODEL", "RESERVED", "USED"}, 2);
  for (const v1::LedgerLine& line : memory.ledger()) {
    ledger.Add(
        {line.line(), line.model(), InBytes(line.reserved_bytes()), InBytes(line.used_bytes())});
  }
  text += ledger.Format() + "\n";
  Table models({"MODEL", "STATE", "WEIGHTS", "IN MEMORY", "ACTIVATIONS", "RING", "KERNELS",
                "ANSWERED", "LATENCY", "STALL", "STREAMED", "PREDICTED"},
               2);
  std::string reasons;
  for (const v1::ModelMemory& model : memory.models()) {
    models.Add({model.name(), model.state(), InBytes(model.weight_bytes()),
                InBytes(model.resident_bytes()), InBytes(model.activation_bytes()),
                InBytes(model.ring_bytes()), InBytes(model.kernel_bytes()),
                absl::StrFormat("%d", model.inferences()),
                FormatSeconds(model.last_latency_seconds()),
                FormatSeconds(model.last_stall_seconds()), InBytes(model.last_streamed_bytes()),
                FormatSeconds(model.predicted_latency_seconds())});
    if (!model.reason().empty()) {
      absl::StrAppendFormat(&reasons, "%s: %s\n", model.name(), model.reason());
    }
  }
  text += memory.models().empty() ? "no models\n" : models.Format();
  return reasons.empty() ? text : text + "\n" + reasons;
}

Json TensorsJson(
    const google::protobuf::RepeatedPtrField<inference::ModelMetadataResponse::TensorMetadata>&
        tensors) {
  Json list = Json::array();
  for (const auto& tensor : tensors) {
    list.push_back(
        {{"name", tensor.name()},
         {"datatype", tensor.datatype()},
         {"shape", std::vector<std::int64_t>(tensor.shape().begin(), tensor.shape().end())}});
  }
  return list;
}

}  // namespace

ExitCode RunStatus(const CommonOptions& options) {
  const absl::StatusOr<v1::GetMemoryResponse> memory = Connect(options).GetMemory();
  if (!memory.ok()) return Fail(options, memory.status());
  if (options.json) {
    PrintJson(StatusJson(*memory));
  } else {
    PrintText(StatusText(*memory));
  }
  return kExitOk;
}

ExitCode RunModels(const CommonOptions& options) {
  const absl::StatusOr<inference::RepositoryIndexResponse> index =
      Connect(options).RepositoryIndex();
  if (!index.ok()) return Fail(options, index.status());
  Json json = {{"models", Json::array()}};
  Table table({"MODEL", "VERSION", "STATE"}, 3);
  std::string reasons;
  for (const auto& model : index->models()) {
    json["models"].push_back({{"name", model.name()},
                              {"version", model.version()},
                              {"state", model.state()},
                              {"reason", model.reason()}});
    table.Add({model.name(), model.version(), model.state()});
    if (!model.reason().empty()) {
      absl::StrAppendFormat(&reasons, "\n%s: %s\n", model.name(), model.reason());
    }
  }
  if (options.json) {
    PrintJson(json);
  } else {
    PrintText(index->models().empty() ? "no models\n" : table.Format() + reasons);
  }
  return kExitOk;
}

ExitCode RunMetadata(const CommonOptions& options, const std::string& model,
                     const std::string& version) {
  const absl::StatusOr<inference::ModelMetadataResponse> metadata =
      Connect(options).ModelMetadata(model, version);
  if (!metadata.ok()) return Fail(options, metadata.status());
  if (options.json) {
    PrintJson({{"name", metadata->name()},
               {"versions",
                std::vector<std::string>(metadata->versions().begin(), metadata->versions().end())},
               {"platform", metadata->platform()},
               {"inputs", TensorsJson(metadata->inputs())},
               {"outputs", TensorsJson(metadata->outputs())}});
    return kExitOk;
  }
  std::string versions;
  for (const std::string& one : metadata->versions()) versions += " " + one;
  PrintText(
      absl::StrFormat("%s, version%s, %s\n\n", metadata->name(), versions, metadata->platform()));
  Table table({"", "NAME", "TYPE", "SHAPE"}, 4);
  const auto add = [&](const char* kind, const auto& tensors) {
    for (const auto& tensor : tensors) {
      table.Add(
          {kind, tensor.name(), tensor.datatype(),
           FormatShape({tensor.shape().data(), static_cast<std::size_t>(tensor.shape().size())})});
    }
  };
  add("input", metadata->inputs());
  add("output", metadata->outputs());
  PrintText(table.Format());
  return kExitOk;
}

}  // namespace sluice
