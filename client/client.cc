#include "client/client.h"

#include <grpcpp/grpcpp.h>

#include <chrono>
#include <cstdint>
#include <limits>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/cord.h"
#include "absl/strings/str_format.h"
#include "base/status_macros.h"

namespace sluice {
namespace {

static_assert(static_cast<int>(absl::StatusCode::kUnavailable) ==
              static_cast<int>(grpc::StatusCode::UNAVAILABLE));
static_assert(static_cast<int>(absl::StatusCode::kUnauthenticated) ==
              static_cast<int>(grpc::StatusCode::UNAUTHENTICATED));

constexpr char kUnreachable[] = "sluice/unreachable";

std::chrono::system_clock::time_point Deadline(Duration wait) {
  using SystemClock = std::chrono::system_clock;
  return SystemClock::now() + std::chrono::duration_cast<SystemClock::duration>(wait);
}

void SetDeadline(const std::optional<Duration>& timeout, grpc::ClientContext& context) {
  if (timeout.has_value()) context.set_deadline(Deadline(*timeout));
}

std::shared_ptr<grpc::Channel> Connect(const std::string& address,
                                       const std::optional<TlsOptions>& tls) {
  grpc::ChannelArguments arguments;
  arguments.SetMaxReceiveMessageSize(std::numeric_limits<std::int32_t>::max());
  arguments.SetMaxSendMessageSize(std::numeric_limits<std::int32_t>::max());
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  // A daemon that starts is found soon: callers that wait ask several times a second.
  arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, 100);
  // Despite its name also the time that one attempt may take; a busy machine needs some.
  arguments.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, 10'000);
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, 1000);
  if (!tls || address.starts_with("unix:")) {
    return grpc::CreateCustomChannel(address, grpc::InsecureChannelCredentials(), arguments);
  }
  if (!tls->name.empty()) arguments.SetSslTargetNameOverride(tls->name);
  return grpc::CreateCustomChannel(address,
                                   grpc::SslCredentials({.pem_root_certs = tls->ca,
                                                         .pem_private_key = tls->key,
                                                         .pem_cert_chain = tls->certificate}),
                                   arguments);
}

inference::ModelInferRequest MakeRequest(std::string_view model, const std::vector<Tensor>& inputs,
                                         const InferOptions& options) {
  inference::ModelInferRequest request;
  request.set_model_name(std::string(model));
  request.set_model_version(options.version);
  request.set_id(options.id);
  if (options.priority != 0) {
    (*request.mutable_parameters())["priority"].set_int64_param(options.priority);
  }
  for (const Tensor& tensor : inputs) {
    auto& input = *request.add_inputs();
    input.set_name(tensor.name);
    input.set_datatype(tensor.datatype);
    input.mutable_shape()->Add(tensor.shape.begin(), tensor.shape.end());
    request.add_raw_input_contents(tensor.data);
  }
  for (const std::string& output : options.outputs) request.add_outputs()->set_name(output);
  return request;
}

absl::StatusOr<std::vector<Tensor>> TakeOutputs(inference::ModelInferResponse& response) {
  if (response.outputs_size() != response.raw_output_contents_size()) {
    return absl::InternalError(
        absl::StrFormat("the answer has %d outputs and bytes for %d, want as many",
                        response.outputs_size(), response.raw_output_contents_size()));
  }
  std::vector<Tensor> tensors;
  for (int i = 0; i < response.outputs_size(); ++i) {
    auto& output = *response.mutable_outputs(i);
    Tensor tensor{.name = output.name(),
                  .datatype = output.datatype(),
                  .shape = {output.shape().begin(), output.shape().end()},
                  .data = std::move(*response.mutable_raw_output_contents(i))};
    if (FindDatatype(tensor.datatype) != nullptr) {
      const absl::StatusOr<std::uint64_t> bytes = TensorBytes(tensor.datatype, tensor.shape);
      if (!bytes.ok() || *bytes != tensor.data.size()) {
        return absl::InternalError(
            absl::StrFormat("output \"%s\" of the answer: got %d bytes for %s %s", tensor.name,
                            tensor.data.size(), tensor.datatype, FormatShape(tensor.shape)));
      }
    }
    tensors.push_back(std::move(tensor));
  }
  return tensors;
}

}  // namespace

Client::Client(const std::string& address, const ClientOptions& options)
    : address_(address),
      options_(options),
      channel_(Connect(address, options.tls)),
      inference_(inference::GRPCInferenceService::NewStub(channel_)),
      sluice_(v1::Sluice::NewStub(channel_)) {}

absl::Status Client::ToStatus(const grpc::Status& status) const {
  if (status.ok()) return absl::OkStatus();
  // A daemon that answers UNAVAILABLE or too late leaves the connection up; nobody there does not.
  const bool lost = channel_->GetState(/*try_to_connect=*/false) != GRPC_CHANNEL_READY;
  const bool silent = status.error_code() == grpc::StatusCode::UNAVAILABLE ||
                      status.error_code() == grpc::StatusCode::DEADLINE_EXCEEDED;
  if (!lost || !silent) {
    return {static_cast<absl::StatusCode>(status.error_code()), status.error_message()};
  }
  absl::Status unreachable = absl::UnavailableError(
      absl::StrFormat("no daemon answers at %s: %s", address_, status.error_message()));
  unreachable.SetPayload(kUnreachable, absl::Cord());
  return unreachable;
}

bool IsUnreachable(const absl::Status& status) {
  return status.GetPayload(kUnreachable).has_value();
}

absl::StatusOr<bool> Client::ServerLive() {
  grpc::ClientContext context;
  SetDeadline(options_.timeout, context);
  inference::ServerLiveResponse response;
  SLUICE_RETURN_IF_ERROR(ToStatus(inference_->ServerLive(&context, {}, &response)));
  return response.live();
}

absl::StatusOr<bool> Client::ServerReady() {
  grpc::ClientContext context;
  SetDeadline(options_.timeout, context);
  inference::ServerReadyResponse response;
  SLUICE_RETURN_IF_ERROR(ToStatus(inference_->ServerReady(&context, {}, &response)));
  return response.ready();
}

absl::StatusOr<bool> Client::ModelReady(std::string_view model, std::string_view version) {
  grpc::ClientContext context;
  SetDeadline(options_.timeout, context);
  inference::ModelReadyRequest request;
  request.set_name(std::string(model));
  request.set_version(std::string(version));
  inference::ModelReadyResponse response;
  SLUICE_RETURN_IF_ERROR(ToStatus(inference_->ModelReady(&context, request, &response)));
  return response.ready();
}

absl::StatusOr<inference::ServerMetadataResponse> Client::ServerMetadata() {
  grpc::ClientContext context;
  SetDeadline(options_.timeout, context);
  inference::ServerMetadataResponse response;
  SLUICE_RETURN_IF_ERROR(ToStatus(inference_->ServerMetadata(&context, {}, &response)));
  return response;
}

absl::StatusOr<inference::ModelMetadataResponse> Client::ModelMetadata(std::string_view model,
                                                                       std::string_view version) {
  grpc::ClientContext context;
  SetDeadline(options_.timeout, context);
  inference::ModelMetadataRequest request;
  request.set_name(std::string(model));
  request.set_version(std::string(version));
  inference::ModelMetadataResponse response;
  SLUICE_RETURN_IF_ERROR(ToStatus(inference_->ModelMetadata(&context, request, &response)));
  return response;
}

absl::StatusOr<inference::RepositoryIndexResponse> Client::RepositoryIndex() {
  grpc::ClientContext context;
  SetDeadline(options_.timeout, context);
  inference::RepositoryIndexResponse response;
  SLUICE_RETURN_IF_ERROR(ToStatus(inference_->RepositoryIndex(&context, {}, &response)));
  return response;
}

absl::Status Client::LoadModel(std::string_view model) {
  grpc::ClientContext context;
  SetDeadline(options_.timeout, context);
  inference::RepositoryModelLoadRequest request;
  request.set_model_name(std::string(model));
  inference::RepositoryModelLoadResponse response;
  return ToStatus(inference_->RepositoryModelLoad(&context, request, &response));
}

absl::Status Client::UnloadModel(std::string_view model) {
  grpc::ClientContext context;
  SetDeadline(options_.timeout, context);
  inference::RepositoryModelUnloadRequest request;
  request.set_model_name(std::string(model));
  inference::RepositoryModelUnloadResponse response;
  return ToStatus(inference_->RepositoryModelUnload(&context, request, &response));
}

absl::StatusOr<v1::GetMemoryResponse> Client::GetMemory() {
  grpc::ClientContext context;
  SetDeadline(options_.timeout, context);
  v1::GetMemoryResponse response;
  SLUICE_RETURN_IF_ERROR(ToStatus(sluice_->GetMemory(&context, {}, &response)));
  return response;
}

absl::StatusOr<std::vector<Tensor>> Client::Infer(std::string_view model,
                                                  const std::vector<Tensor>& inputs,
                                                  const InferOptions& options) {
  grpc::ClientContext context;
  SetDeadline(options.timeout.has_value() ? options.timeout : options_.timeout, context);
  const inference::ModelInferRequest request = MakeRequest(model, inputs, options);
  inference::ModelInferResponse response;
  SLUICE_RETURN_IF_ERROR(ToStatus(inference_->ModelInfer(&context, request, &response)));
  return TakeOutputs(response);
}

void Client::WaitForChange(Duration wait) {
  const grpc_connectivity_state state = channel_->GetState(/*try_to_connect=*/true);
  channel_->WaitForStateChange(state, Deadline(wait));
}

}  // namespace sluice
