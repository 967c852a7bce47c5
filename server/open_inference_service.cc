#include "server/open_inference_service.h"

#include <string>

#include "absl/strings/str_format.h"
#include "server/control_call.h"
#include "server/infer_call.h"
#include "server/wire_message.h"

namespace sluice {
namespace {

// Only what works: clients act on these words.
constexpr std::string_view kExtensions[] = {"schedule_policy", kSluiceServiceName};
constexpr std::string_view kInferMethod = "/inference.GRPCInferenceService/ModelInfer";
constexpr std::string_view kPlatform = "sluice_onnx";

void Describe(const PortInfo& port, inference::ModelMetadataResponse::TensorMetadata& tensor) {
  tensor.set_name(port.name);
  tensor.set_datatype(std::string(ProtocolName(port.type)));
  tensor.mutable_shape()->Add(port.shape.begin(), port.shape.end());
  if (port.dynamic) tensor.set_shape(static_cast<int>(port.dynamic->axis), -1);
}

absl::Status DescribeModel(const ModelStatus& model, inference::ModelMetadataResponse& response) {
  if (model.state != ModelState::kReady && model.inputs.empty() && model.outputs.empty()) {
    return absl::UnavailableError(
        absl::StrFormat("model \"%s\" has no metadata yet: %s", model.name,
                        model.state == ModelState::kLoading ? "it is loading" : model.reason));
  }
  response.set_name(model.name);
  response.add_versions(model.version);
  response.set_platform(std::string(kPlatform));
  for (const PortInfo& port : model.inputs) Describe(port, *response.add_inputs());
  for (const PortInfo& port : model.outputs) Describe(port, *response.add_outputs());
  return absl::OkStatus();
}

}  // namespace

grpc::ServerUnaryReactor* OpenInferenceService::ServerLive(grpc::CallbackServerContext* context,
                                                           const grpc::ByteBuffer* wire_request,
                                                           grpc::ByteBuffer* wire_response) {
  return AnswerSmall<inference::ServerLiveRequest, inference::ServerLiveResponse>(
      *context, *wire_request, *wire_response,
      [](const inference::ServerLiveRequest& /*request*/, inference::ServerLiveResponse& response) {
        response.set_live(true);
        return absl::OkStatus();
      });
}

grpc::ServerUnaryReactor* OpenInferenceService::ServerReady(grpc::CallbackServerContext* context,
                                                            const grpc::ByteBuffer* wire_request,
                                                            grpc::ByteBuffer* wire_response) {
  return AnswerSmall<inference::ServerReadyRequest, inference::ServerReadyResponse>(
      *context, *wire_request, *wire_response,
      [this](const inference::ServerReadyRequest& /*request*/,
             inference::ServerReadyResponse& response) {
        response.set_ready(state_.ready());
        return absl::OkStatus();
      });
}

grpc::ServerUnaryReactor* OpenInferenceService::ModelReady(grpc::CallbackServerContext* context,
                                                           const grpc::ByteBuffer* wire_request,
                                                           grpc::ByteBuffer* wire_response) {
  return AnswerSmall<inference::ModelReadyRequest, inference::ModelReadyResponse>(
      *context, *wire_request, *wire_response,
      [this](const inference::ModelReadyRequest& request, inference::ModelReadyResponse& response) {
        const absl::StatusOr<ModelStatus> model =
            state_.service.Find(request.name(), request.version());
        response.set_ready(model.ok() && model->state == ModelState::kReady);
        return model.status();
      });
}

grpc::ServerUnaryReactor* OpenInferenceService::ServerMetadata(grpc::CallbackServerContext* context,
                                                               const grpc::ByteBuffer* wire_request,
                                                               grpc::ByteBuffer* wire_response) {
  return AnswerSmall<inference::ServerMetadataRequest, inference::ServerMetadataResponse>(
      *context, *wire_request, *wire_response,
      [this, context](const inference::ServerMetadataRequest& /*request*/,
                      inference::ServerMetadataResponse& response) {
        response.set_name(state_.server_name);
        response.set_version(SLUICE_VERSION);
        for (const std::string_view extension : kExtensions) {
          response.add_extensions(std::string(extension));
        }
        if (CheckControl(*context, state_).ok()) response.add_extensions("model_repository");
        return absl::OkStatus();
      });
}

grpc::ServerUnaryReactor* OpenInferenceService::ModelMetadata(grpc::CallbackServerContext* context,
                                                              const grpc::ByteBuffer* wire_request,
                                                              grpc::ByteBuffer* wire_response) {
  return AnswerSmall<inference::ModelMetadataRequest, inference::ModelMetadataResponse>(
      *context, *wire_request, *wire_response,
      [this](const inference::ModelMetadataRequest& request,
             inference::ModelMetadataResponse& response) {
        const absl::StatusOr<ModelStatus> model =
            state_.service.Find(request.name(), request.version());
        return model.ok() ? DescribeModel(*model, response) : model.status();
      });
}

grpc::ServerUnaryReactor* OpenInferenceService::RepositoryIndex(
    grpc::CallbackServerContext* context, const grpc::ByteBuffer* wire_request,
    grpc::ByteBuffer* wire_response) {
  return AnswerSmall<inference::RepositoryIndexRequest, inference::RepositoryIndexResponse>(
      *context, *wire_request, *wire_response,
      [this](const inference::RepositoryIndexRequest& request,
             inference::RepositoryIndexResponse& response) {
        for (const ModelStatus& model : state_.service.models()) {
          if (request.ready() && model.state != ModelState::kReady) continue;
          auto& entry = *response.add_models();
          entry.set_name(model.name);
          entry.set_version(model.version);
          entry.set_state(std::string(Name(model.state)));
          entry.set_reason(model.reason);
        }
        return absl::OkStatus();
      });
}

grpc::ServerUnaryReactor* OpenInferenceService::RepositoryModelLoad(
    grpc::CallbackServerContext* context, const grpc::ByteBuffer* request,
    grpc::ByteBuffer* response) {
  return StartLoadCall(*context, *request, *response, state_);
}

grpc::ServerUnaryReactor* OpenInferenceService::RepositoryModelUnload(
    grpc::CallbackServerContext* context, const grpc::ByteBuffer* request,
    grpc::ByteBuffer* response) {
  return StartUnloadCall(*context, *request, *response, state_);
}

grpc::ServerGenericBidiReactor* ModelInferService::CreateReactor(
    grpc::GenericCallbackServerContext* context) {
  if (context->method() == kInferMethod) return StartInferCall(*context, state_);
  return CallbackGenericService::CreateReactor(context);
}

}  // namespace sluice
