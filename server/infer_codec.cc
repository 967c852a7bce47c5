#include "server/infer_codec.h"

#include <algorithm>
#include <cstdint>
#include <limits>

#include "absl/status/status.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "base/status_macros.h"
#include "model/host_tensor.h"
#include "server/typed_contents.h"

namespace sluice {
namespace {

using inference::InferParameter;
using inference::ModelInferRequest;
using Parameters = google::protobuf::Map<std::string, InferParameter>;

std::string_view KindOf(const InferParameter& parameter) {
  switch (parameter.parameter_choice_case()) {
    case InferParameter::kBoolParam:
      return "bool_param";
    case InferParameter::kInt64Param:
      return "int64_param";
    case InferParameter::kStringParam:
      return "string_param";
    case InferParameter::kDoubleParam:
      return "double_param";
    case InferParameter::kUint64Param:
      return "uint64_param";
    case InferParameter::PARAMETER_CHOICE_NOT_SET:
      break;
  }
  return "nothing";
}

absl::Status WrongKind(std::string_view name, const InferParameter& got, std::string_view want) {
  return absl::InvalidArgumentError(
      absl::StrFormat("parameter \"%s\": got %s, want %s", name, KindOf(got), want));
}

absl::StatusOr<int> Priority(const InferParameter& parameter) {
  constexpr auto kMost = std::numeric_limits<int>::max();
  if (parameter.has_int64_param()) {
    const std::int64_t value = parameter.int64_param();
    if (value >= 0 && value <= kMost) return static_cast<int>(value);
    return absl::InvalidArgumentError(
        absl::StrFormat("parameter \"priority\": got %d, want 0 to %d", value, kMost));
  }
  if (parameter.has_uint64_param()) {
    const std::uint64_t value = parameter.uint64_param();
    if (value <= static_cast<std::uint64_t>(kMost)) return static_cast<int>(value);
    return absl::InvalidArgumentError(
        absl::StrFormat("parameter \"priority\": got %d, want 0 to %d", value, kMost));
  }
  return WrongKind("priority", parameter, "uint64_param or int64_param");
}

absl::Status CheckSequence(const std::string& name, const InferParameter& parameter) {
  if (name == "sequence_id") {
    if (!parameter.has_int64_param() && !parameter.has_uint64_param() &&
        !parameter.has_string_param()) {
      return WrongKind(name, parameter, "int64_param or string_param");
    }
    const bool none = parameter.int64_param() == 0 && parameter.uint64_param() == 0 &&
                      parameter.string_param().empty();
    if (none) return absl::OkStatus();
  } else {
    if (!parameter.has_bool_param()) return WrongKind(name, parameter, "bool_param");
    if (!parameter.bool_param()) return absl::OkStatus();
  }
  return absl::UnimplementedError(absl::StrFormat(
      "parameter \"%s\": sequences with state in the server are not supported", name));
}

// Parameters that have a meaning; others are the client's own.
absl::Status ReadParameters(const Parameters& parameters, DecodedRequest& decoded) {
  for (const auto& [name, parameter] : parameters) {
    if (name == "priority") {
      SLUICE_ASSIGN_OR_RETURN(decoded.priority, Priority(parameter));
    } else if (name == "timeout") {
      if (!parameter.has_int64_param()) return WrongKind(name, parameter, "int64_param");
      const std::int64_t timeout = parameter.int64_param();
      if (timeout < 0) {
        return absl::InvalidArgumentError(absl::StrFormat(
            "parameter \"timeout\": got %d, want microseconds, 0 for none", timeout));
      }
      if (timeout > 0) decoded.timeout = std::chrono::microseconds(timeout);
    } else if (name == "sequence_id" || name == "sequence_start" || name == "sequence_end") {
      SLUICE_RETURN_IF_ERROR(CheckSequence(name, parameter));
    }
  }
  return absl::OkStatus();
}

absl::Status RefuseSharedMemory(const Parameters& parameters, const std::string& where) {
  const auto region = parameters.find("shared_memory_region");
  if (region == parameters.end()) return absl::OkStatus();
  if (!region->second.has_string_param()) {
    return WrongKind("shared_memory_region", region->second, "string_param");
  }
  return absl::UnimplementedError(absl::StrFormat("%s: shared memory is not supported", where));
}

std::string Where(std::string_view kind, std::string_view tensor, const ModelInterface& model) {
  return absl::StrFormat("%s %s of model %s", kind, Quoted(tensor), Quoted(model.name));
}

std::optional<std::size_t> IndexOf(std::span<const PortInfo> ports, std::string_view name) {
  const auto found = std::ranges::find(ports, name, &PortInfo::name);
  if (found == ports.end()) return std::nullopt;
  return static_cast<std::size_t>(found - ports.begin());
}

// `"a", "b"`, cut after eight.
std::string NamesOf(std::span<const std::string> names) {
  if (names.empty()) return "none";
  constexpr std::size_t kMost = 8;
  std::vector<std::string> quoted;
  for (const std::string& name : names.first(std::min(names.size(), kMost))) {
    quoted.push_back(Quoted(name));
  }
  if (names.size() > kMost) quoted.push_back(absl::StrFormat("%d more", names.size() - kMost));
  return absl::StrJoin(quoted, ", ");
}

std::string NamesOf(std::span<const PortInfo> ports) {
  std::vector<std::string> names;
  for (const PortInfo& port : ports) names.push_back(port.name);
  return NamesOf(names);
}

absl::Status CheckTensor(const ModelInferRequest::InferInputTensor& input, const PortInfo& port,
                         const std::string& where) {
  SLUICE_RETURN_IF_ERROR(RefuseSharedMemory(input.parameters(), where));
  if (input.datatype() != ProtocolName(port.type)) {
    return absl::InvalidArgumentError(absl::StrFormat(
        "%s: got datatype %s, want %s", where, Quoted(input.datatype()), ProtocolName(port.type)));
  }
  const std::span<const std::int64_t> got(input.shape().data(),
                                          static_cast<std::size_t>(input.shape_size()));
  if (got.size() != port.shape.size()) {
    return absl::InvalidArgumentError(absl::StrFormat("%s: got %d dims, want %d: %s", where,
                                                      got.size(), port.shape.size(),
                                                      FormatShape(port.shape)));
  }
  if (!std::ranges::equal(got, port.shape)) {
    return absl::InvalidArgumentError(absl::StrFormat("%s: got shape %s, want %s", where,
                                                      FormatShape(got), FormatShape(port.shape)));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::span<const std::byte>> RawTensor(const std::string& raw, const PortInfo& port,
                                                     const std::string& where) {
  const Bytes want = TensorBytes(port.type, port.shape);
  if (Bytes::Of(raw.size()) != want) {
    return absl::InvalidArgumentError(absl::StrFormat(
        "%s: got %d bytes in raw_input_contents, want %d for %s %s", where, raw.size(),
        want.count(), ProtocolName(port.type), FormatShape(port.shape)));
  }
  const auto bytes = std::as_bytes(std::span(raw));
  if (port.type == DataType::kBool) {
    const auto other = std::ranges::find_if(bytes, [](std::byte b) { return b > std::byte{1}; });
    if (other != bytes.end()) {
      return absl::InvalidArgumentError(
          absl::StrFormat("%s: got byte %d as element %d, want 0 or 1 for BOOL", where,
                          static_cast<int>(*other), other - bytes.begin()));
    }
  }
  return bytes;
}

absl::Status CheckRawCount(const ModelInferRequest& request, const ModelInterface& model) {
  if (request.raw_input_contents().empty()) return absl::OkStatus();
  for (const auto& input : request.inputs()) {
    if (HasContents(input.contents())) {
      return absl::InvalidArgumentError(absl::StrFormat(
          "contents field must not be specified when using raw_input_contents for '%s' for model "
          "'%s'",
          absl::CHexEscape(input.name().substr(0, 64)),
          absl::CHexEscape(std::string(model.name.substr(0, 64)))));
    }
  }
  if (request.raw_input_contents_size() != request.inputs_size()) {
    return absl::InvalidArgumentError(absl::StrFormat(
        "model %s: got %d raw_input_contents, want %d, one for each input of the request",
        Quoted(model.name), request.raw_input_contents_size(), request.inputs_size()));
  }
  return absl::OkStatus();
}

absl::Status CheckMissing(const ModelInferRequest& request, const ModelInterface& model,
                          const std::vector<bool>& given) {
  std::vector<std::string> missing, got;
  for (std::size_t i = 0; i < given.size(); ++i) {
    if (!given[i]) missing.push_back(model.inputs[i].name);
  }
  if (missing.empty()) return absl::OkStatus();
  for (const auto& input : request.inputs()) got.push_back(input.name());
  return absl::InvalidArgumentError(absl::StrFormat(
      "model %s: expected %d inputs but got %d inputs: missing %s (got %s)", Quoted(model.name),
      model.inputs.size(), request.inputs_size(), NamesOf(missing), NamesOf(got)));
}

// The first elements of a tensor, for people.
std::string ElementsText(const PortInfo& port, std::span<const std::byte> contents) {
  constexpr std::size_t kMost = 8;
  Value value{.name = port.name, .type = port.type, .shape = port.shape, .constant = {}};
  value.constant = InlineConstant({contents.begin(), contents.end()});
  std::vector<std::string> elements;
  if (IsInteger(port.type)) {
    const auto integers = ReadIntegers(value);
    for (const std::int64_t x : integers.value_or(std::vector<std::int64_t>())) {
      elements.push_back(absl::StrCat(x));
    }
  } else if (port.type == DataType::kFloat32) {
    const auto floats = ReadFloats(value);
    for (const float x : floats.value_or(std::vector<float>())) elements.push_back(absl::StrCat(x));
  }
  if (elements.empty() || elements.size() > kMost) return "other contents";
  return absl::StrJoin(elements, ", ");
}

// Branches and shapes of the graph follow from contents that its description gave.
absl::Status CheckRequired(const PortInfo& port, std::span<const std::byte> contents,
                           std::string_view where) {
  if (port.required.empty() || std::ranges::equal(contents, port.required)) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrFormat(
      "%s: got %s, want %s: the model was loaded for that (`values` of its description)", where,
      ElementsText(port, contents), ElementsText(port, port.required)));
}

absl::Status ReadInputs(const ModelInferRequest& request, const ModelInterface& model,
                        DecodedRequest& decoded) {
  SLUICE_RETURN_IF_ERROR(CheckRawCount(request, model));
  decoded.inputs.resize(model.inputs.size());
  std::vector<bool> given(model.inputs.size());
  for (int i = 0; i < request.inputs_size(); ++i) {
    const auto& input = request.inputs(i);
    const std::optional<std::size_t> index = IndexOf(model.inputs, input.name());
    if (!index) {
      return absl::InvalidArgumentError(absl::StrFormat("model %s: unexpected input %s, want %s",
                                                        Quoted(model.name), Quoted(input.name()),
                                                        NamesOf(model.inputs)));
    }
    const std::string where = Where("input", input.name(), model);
    if (given[*index]) return absl::InvalidArgumentError(where + ": given more than once");
    given[*index] = true;
    const PortInfo& port = model.inputs[*index];
    SLUICE_RETURN_IF_ERROR(CheckTensor(input, port, where));
    if (!request.raw_input_contents().empty()) {
      SLUICE_ASSIGN_OR_RETURN(decoded.inputs[*index],
                              RawTensor(request.raw_input_contents(i), port, where));
    } else if (!HasContents(input.contents()) && ElementCount(port.shape) > 0) {
      return absl::InvalidArgumentError(absl::StrFormat(
          "%s: got no data, want %d bytes in raw_input_contents or %d elements", where,
          TensorBytes(port.type, port.shape).count(), ElementCount(port.shape)));
    } else {
      SLUICE_ASSIGN_OR_RETURN(std::vector<std::byte> bytes,
                              ConvertContents(input.contents(), port, where));
      decoded.inputs[*index] = bytes;  // Moving the vector below leaves its bytes in place.
      decoded.converted.push_back(std::move(bytes));
    }
    SLUICE_RETURN_IF_ERROR(CheckRequired(port, decoded.inputs[*index], where));
  }
  return CheckMissing(request, model, given);
}

absl::Status CheckOutputParameters(const Parameters& parameters, const std::string& where) {
  SLUICE_RETURN_IF_ERROR(RefuseSharedMemory(parameters, where));
  const auto classification = parameters.find("classification");
  if (classification == parameters.end()) return absl::OkStatus();
  if (!classification->second.has_int64_param()) {
    return WrongKind("classification", classification->second, "int64_param");
  }
  if (classification->second.int64_param() == 0) return absl::OkStatus();
  return absl::UnimplementedError(absl::StrFormat("%s: classification is not supported", where));
}

absl::Status ReadOutputs(const ModelInferRequest& request, const ModelInterface& model,
                         DecodedRequest& decoded) {
  std::vector<bool> asked(model.outputs.size());
  for (const auto& output : request.outputs()) {
    const std::optional<std::size_t> index = IndexOf(model.outputs, output.name());
    if (!index) {
      return absl::InvalidArgumentError(
          absl::StrFormat("model %s: unexpected inference output %s, want %s", Quoted(model.name),
                          Quoted(output.name()), NamesOf(model.outputs)));
    }
    const std::string where = Where("output", output.name(), model);
    if (asked[*index]) return absl::InvalidArgumentError(where + ": requested more than once");
    asked[*index] = true;
    SLUICE_RETURN_IF_ERROR(CheckOutputParameters(output.parameters(), where));
    decoded.outputs.push_back(*index);
  }
  if (!request.outputs().empty()) return absl::OkStatus();
  for (std::size_t i = 0; i < model.outputs.size(); ++i) decoded.outputs.push_back(i);
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<DecodedRequest> DecodeRequest(const ModelInferRequest& request,
                                             const ModelInterface& model) {
  DecodedRequest decoded;
  SLUICE_RETURN_IF_ERROR(ReadParameters(request.parameters(), decoded));
  SLUICE_RETURN_IF_ERROR(ReadOutputs(request, model, decoded));
  SLUICE_RETURN_IF_ERROR(ReadInputs(request, model, decoded));
  return decoded;
}

inference::ModelInferResponse AnswerHeader(const ModelInferRequest& request,
                                           std::string_view model_version,
                                           const ModelInterface& model,
                                           std::span<const std::size_t> outputs,
                                           std::span<const std::int64_t> counts) {
  inference::ModelInferResponse answer;
  answer.set_model_name(std::string(model.name));
  answer.set_model_version(std::string(model_version));
  answer.set_id(request.id());
  for (const std::size_t index : outputs) {
    const PortInfo& port = model.outputs[index];
    auto& output = *answer.add_outputs();
    output.set_name(port.name);
    output.set_datatype(std::string(ProtocolName(port.type)));
    output.mutable_shape()->Add(port.shape.begin(), port.shape.end());
    if (port.dynamic && index < counts.size()) {
      output.set_shape(static_cast<int>(port.dynamic->axis), counts[index]);
    }
  }
  return answer;
}

Bytes AnswerBytes(const ModelInterface& model) {
  Bytes sum;
  for (const PortInfo& port : model.outputs) {
    sum += AlignUp(TensorBytes(port.type, port.shape), kBufferAlignment);
  }
  return sum;
}

std::string Quoted(std::string_view text) {
  constexpr std::size_t kMost = 64;
  const std::string shown = absl::CHexEscape(std::string(text.substr(0, kMost)));
  return text.size() > kMost ? "\"" + shown + "...\"" : "\"" + shown + "\"";
}

}  // namespace sluice
