#include "server/control_call.h"

#include <string>
#include <string_view>

#include "absl/strings/str_format.h"
#include "base/status_macros.h"
#include "open_inference.pb.h"
#include "server/front_door.h"
#include "server/infer_codec.h"
#include "server/wire_message.h"

namespace sluice {
namespace {

absl::Status CheckParameters(const inference::RepositoryModelLoadRequest& request) {
  if (request.parameters().empty()) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrFormat(
      "failed to load %s: got parameter %s, want none: models are not written over the wire",
      Quoted(request.model_name()), Quoted(request.parameters().begin()->first)));
}

absl::Status CheckParameters(const inference::RepositoryModelUnloadRequest& request) {
  for (const auto& [name, value] : request.parameters()) {
    const bool known = name == "unload_dependents";
    if (known && value.parameter_choice_case() == inference::ModelRepositoryParameter::kBoolParam) {
      continue;
    }
    return absl::InvalidArgumentError(
        absl::StrFormat("failed to unload %s: got parameter %s, want none but unload_dependents, "
                        "a bool",
                        Quoted(request.model_name()), Quoted(name)));
  }
  return absl::OkStatus();
}

// Lives until gRPC is done with the call; the service answers it once, from any thread.
class ControlCall final : public grpc::ServerUnaryReactor {
 public:
  explicit ControlCall(grpc::ByteBuffer& wire_response) : wire_response_(wire_response) {}

  template <typename Response>
  ModelService::Answered Answer() {
    return [this](const absl::Status& status) {
      if (status.ok()) wire_response_ = Serialize(Response());
      Finish(ToGrpc(status));  // `this` may be gone when it returns.
    };
  }
  void OnDone() override { delete this; }

 private:
  grpc::ByteBuffer& wire_response_;
};

template <typename Request, typename Response>
grpc::ServerUnaryReactor* Start(const grpc::CallbackServerContext& context,
                                const grpc::ByteBuffer& wire_request,
                                grpc::ByteBuffer& wire_response, WireState& state,
                                void (ModelService::*begin)(std::string, ModelService::Answered)) {
  auto* call = new ControlCall(wire_response);
  Request request;
  grpc::ByteBuffer wire = wire_request;  // Shares the bytes.
  absl::Status status = CheckControl(context, state);
  if (status.ok()) status = ParseSmall(wire, request);
  if (status.ok()) status = CheckParameters(request);
  if (status.ok()) {
    (state.service.*begin)(request.model_name(), call->Answer<Response>());
  } else {
    call->Finish(ToGrpc(status));
  }
  return call;
}

}  // namespace

absl::Status CheckControl(const grpc::CallbackServerContext& context, const WireState& state) {
  if (state.control_tcp || CameOverUnixSocket(context.peer())) return absl::OkStatus();
  return absl::PermissionDeniedError(
      "models are loaded and unloaded on a unix: address of `listen`, and over TCP only with "
      "`control.tcp: true`: got a call over TCP");
}

grpc::ServerUnaryReactor* StartLoadCall(grpc::CallbackServerContext& context,
                                        const grpc::ByteBuffer& request, grpc::ByteBuffer& response,
                                        WireState& state) {
  return Start<inference::RepositoryModelLoadRequest, inference::RepositoryModelLoadResponse>(
      context, request, response, state, &ModelService::Load);
}

grpc::ServerUnaryReactor* StartUnloadCall(grpc::CallbackServerContext& context,
                                          const grpc::ByteBuffer& request,
                                          grpc::ByteBuffer& response, WireState& state) {
  return Start<inference::RepositoryModelUnloadRequest, inference::RepositoryModelUnloadResponse>(
      context, request, response, state, &ModelService::Unload);
}

}  // namespace sluice
