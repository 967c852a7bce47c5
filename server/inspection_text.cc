// How an inspection is told: to people as lines, to programs as JSON.

#include <nlohmann/json.hpp>
#include <span>
#include <string_view>
#include <utility>

#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "server/inspect_model.h"

namespace sluice {
namespace {

using Json = nlohmann::ordered_json;

std::string_view TypeName(const OnnxPort& port) {
  return port.type ? ProtocolName(*port.type) : "unsupported type";
}

// "input   x: FP32 [batch,3,224,224], here [1,3,224,224]".
void AddPorts(std::string_view label, std::span<const OnnxPort> file,
              std::span<const PortInfo> here, std::string& text) {
  for (const OnnxPort& port : file) {
    const std::string shape = "[" + absl::StrJoin(port.dims, ",") + "]";
    text += absl::StrFormat("%-22s %s: %s %s", label, port.name, TypeName(port), shape);
    for (const PortInfo& made : here) {
      if (made.name == port.name && FormatShape(made.shape) != shape) {
        text += absl::StrFormat(", here %s", FormatShape(made.shape));
      }
    }
    text += '\n';
  }
}

void AddLine(std::string_view label, std::string_view value, std::string& text) {
  text += absl::StrFormat("%-22s %s\n", label, value);
}

// With the exact number, which a configuration may need.
std::string Exact(Bytes bytes) {
  return absl::StrFormat("%s (%d bytes)", FormatBytes(bytes), bytes.count());
}

void AddPlan(const ModelPlan& plan, std::string& text) {
  AddLine("weights",
          absl::StrFormat("%s in the file, %s packed%s", FormatBytes(plan.file_weights),
                          FormatBytes(plan.weights),
                          plan.stored == plan.weights
                              ? ""
                              : absl::StrFormat(", %s on the disk", FormatBytes(plan.stored))),
          text);
  AddLine("largest extent", FormatBytes(plan.largest_extent), text);
  AddLine("multiply-accumulates", absl::StrFormat("%.3f G", static_cast<double>(plan.macs) / 1e9),
          text);
  AddLine("steps", absl::StrFormat("%d, weights in %d extents", plan.steps, plan.extents), text);
  AddLine("peak activations",
          absl::StrFormat("%s planned, %s if nothing shared a place", FormatBytes(plan.activations),
                          FormatBytes(plan.naive_activations)),
          text);
  AddLine("smallest budget", Exact(plan.smallest_budget), text);
  AddLine("largest useful budget", Exact(plan.largest_useful_budget), text);
}

Json PortsJson(std::span<const OnnxPort> file, std::span<const PortInfo> here) {
  Json list = Json::array();
  for (const OnnxPort& port : file) {
    Json entry = {{"name", port.name},
                  {"datatype", port.type ? Json(std::string(TypeName(port))) : Json()},
                  {"dims", port.dims}};
    for (const PortInfo& made : here) {
      if (made.name == port.name) entry["shape"] = made.shape;
    }
    list.push_back(std::move(entry));
  }
  return list;
}

Json PlanJson(const ModelPlan& plan) {
  return {{"file_weight_bytes", plan.file_weights.count()},
          {"weight_bytes", plan.weights.count()},
          {"stored_weight_bytes", plan.stored.count()},
          {"largest_extent_bytes", plan.largest_extent.count()},
          {"macs", plan.macs},
          {"steps", plan.steps},
          {"extents", plan.extents},
          {"activation_bytes", plan.activations.count()},
          {"naive_activation_bytes", plan.naive_activations.count()},
          {"smallest_budget_bytes", plan.smallest_budget.count()},
          {"largest_useful_budget_bytes", plan.largest_useful_budget.count()}};
}

std::span<const PortInfo> InputsOf(const ModelInspection& inspection) {
  if (!inspection.plan) return {};
  return inspection.plan->inputs;
}

std::span<const PortInfo> OutputsOf(const ModelInspection& inspection) {
  if (!inspection.plan) return {};
  return inspection.plan->outputs;
}

}  // namespace

std::string InspectionText(const ModelConfig& model, const ModelInspection& inspection) {
  const OnnxSummary& file = inspection.file;
  std::string text;
  AddLine("file", model.path.string(), text);
  AddLine("made by", file.producer.empty() ? "(not stated)" : file.producer, text);
  AddLine("opset", absl::StrFormat("%d", file.opset), text);
  AddPorts("input", file.inputs, InputsOf(inspection), text);
  AddPorts("output", file.outputs, OutputsOf(inspection), text);
  std::vector<std::string> operators;
  for (const auto& [name, count] : file.operators) {
    operators.push_back(absl::StrFormat("%s %d", name, count));
  }
  AddLine("operators", absl::StrFormat("%d nodes: %s", file.nodes, absl::StrJoin(operators, ", ")),
          text);
  for (const UnsupportedThing& thing : inspection.unsupported) {
    AddLine("unsupported",
            absl::StrFormat("%s (%d: \"%s\"%s)", thing.what, thing.count,
                            absl::StrJoin(thing.places, "\", \""),
                            thing.count > thing.places.size() ? ", ..." : ""),
            text);
  }
  if (inspection.plan) {
    AddPlan(*inspection.plan, text);
  } else if (inspection.unsupported.empty()) {
    AddLine("cannot be served", std::string(inspection.problem.message()), text);
  }
  return text;
}

std::string InspectionJson(const ModelConfig& model, const ModelInspection& inspection) {
  const OnnxSummary& file = inspection.file;
  Json unsupported = Json::array();
  for (const UnsupportedThing& thing : inspection.unsupported) {
    unsupported.push_back({{"what", thing.what}, {"count", thing.count}, {"places", thing.places}});
  }
  Json json = {{"file", model.path.string()},
               {"producer", file.producer},
               {"opset", file.opset},
               {"inputs", PortsJson(file.inputs, InputsOf(inspection))},
               {"outputs", PortsJson(file.outputs, OutputsOf(inspection))},
               {"nodes", file.nodes},
               {"operators", file.operators},
               {"unsupported", std::move(unsupported)}};
  if (inspection.plan) {
    json.update(PlanJson(*inspection.plan));
  } else {
    json["error"] = std::string(inspection.problem.message());
  }
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace sluice
