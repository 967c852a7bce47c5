#include "server/open_inference_service.h"

#include <string>

#include "absl/strings/str_format.h"
#include "server/grpc_status.h"
#include "server/infer_call.h"

namespace sluice {
namespace {

// Only what works: clients act on these words.
constexpr std::string_view kExtensions[] = {"schedule_policy", kSluiceServiceName};
constexpr std::string_view kPlatform = "sluice_onnx";

grpc::ServerUnaryReactor* Finish(grpc::CallbackServerContext* context, const absl::Status& status) {
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  reactor->Finish(ToGrpc(status));
  return reactor;
}

void Describe(const PortInfo& port, inference::ModelMetadataResponse::TensorMetadata& tensor) {
  tensor.set_name(port.name);
  tensor.set_datatype(std::string(ProtocolName(port.type)));
  tensor.mutable_shape()->Add(port.shape.begin(), port.shape.end());
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

grpc::ServerUnaryReactor* OpenInferenceService::ServerLive(
    grpc::CallbackServerContext* context, const inference::ServerLiveRequest* /*request*/,
    inference::ServerLiveResponse* response) {
  response->set_live(true);
  return Finish(context, absl::OkStatus());
}

grpc::ServerUnaryReactor* OpenInferenceService::ServerReady(
    grpc::CallbackServerContext* context, const inference::ServerReadyRequest* /*request*/,
    inference::ServerReadyResponse* response) {
  response->set_ready(state_.ready());
  return Finish(context, absl::OkStatus());
}

grpc::ServerUnaryReactor* OpenInferenceService::ModelReady(
    grpc::CallbackServerContext* context, const inference::ModelReadyRequest* request,
    inference::ModelReadyResponse* response) {
  const absl::StatusOr<ModelStatus> model =
      state_.service.Find(request->name(), request->version());
  response->set_ready(model.ok() && model->state == ModelState::kReady);
  return Finish(context, model.status());
}

grpc::ServerUnaryReactor* OpenInferenceService::ServerMetadata(
    grpc::CallbackServerContext* context, const inference::ServerMetadataRequest* /*request*/,
    inference::ServerMetadataResponse* response) {
  response->set_name(state_.server_name);
  response->set_version(SLUICE_VERSION);
  for (const std::string_view extension : kExtensions) {
    response->add_extensions(std::string(extension));
  }
  return Finish(context, absl::OkStatus());
}

grpc::ServerUnaryReactor* OpenInferenceService::ModelMetadata(
    grpc::CallbackServerContext* context, const inference::ModelMetadataRequest* request,
    inference::ModelMetadataResponse* response) {
  const absl::StatusOr<ModelStatus> model =
      state_.service.Find(request->name(), request->version());
  return Finish(context, model.ok() ? DescribeModel(*model, *response) : model.status());
}

grpc::ServerUnaryReactor* OpenInferenceService::ModelInfer(grpc::CallbackServerContext* context,
                                                           const grpc::ByteBuffer* request,
                                                           grpc::ByteBuffer* response) {
  // gRPC owns the request for this call alone; emptying it early gives its memory back.
  return StartInferCall(*context, *const_cast<grpc::ByteBuffer*>(request), *response,
                        state_.service, state_.statistics);
}

grpc::ServerUnaryReactor* OpenInferenceService::RepositoryIndex(
    grpc::CallbackServerContext* context, const inference::RepositoryIndexRequest* request,
    inference::RepositoryIndexResponse* response) {
  for (const ModelStatus& model : state_.service.models()) {
    if (request->ready() && model.state != ModelState::kReady) continue;
    auto& entry = *response->add_models();
    entry.set_name(model.name);
    entry.set_version(model.version);
    entry.set_state(std::string(Name(model.state)));
    entry.set_reason(model.reason);
  }
  return Finish(context, absl::OkStatus());
}

}  // namespace sluice
