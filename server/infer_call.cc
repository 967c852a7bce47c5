#include "server/infer_call.h"

#include <grpcpp/support/proto_buffer_reader.h>

#include <algorithm>
#include <atomic>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_format.h"
#include "base/clock.h"
#include "base/status_macros.h"
#include "server/answer_buffer.h"
#include "server/grpc_status.h"
#include "server/infer_codec.h"
#include "server/request_size.h"
#include "server/wire_message.h"

namespace sluice {
namespace {

// What a call takes beside its message and its tensors: this object, gRPC's call, names.
constexpr Bytes kCallOverhead = 16_KiB;

// The client's deadline on our clock; none when it is too far away to be one.
std::optional<Instant> DeadlineOf(const grpc::CallbackServerContext& context, Instant now) {
  const auto deadline = context.deadline();
  const auto wall_now = std::chrono::system_clock::now();
  if (deadline > wall_now + std::chrono::hours(24 * 365)) return std::nullopt;
  return now + std::chrono::duration_cast<Duration>(deadline - wall_now);
}

absl::Status CheckServing(const ModelStatus& model) {
  if (model.state == ModelState::kReady) return absl::OkStatus();
  if (model.state == ModelState::kLoading) {
    return absl::UnavailableError(
        absl::StrFormat("model %s is not ready: it is loading", Quoted(model.name)));
  }
  return absl::UnavailableError(
      absl::StrFormat("model %s is not ready: %s", Quoted(model.name),
                      model.reason.empty() ? "it is not loaded" : model.reason));
}

class InferCall final : public grpc::ServerUnaryReactor {
 public:
  InferCall(grpc::ByteBuffer& wire_request, grpc::ByteBuffer& wire_response, WireState& state)
      : wire_request_(wire_request),
        wire_response_(wire_response),
        service_(state.service),
        statistics_(state.statistics),
        max_message_(state.max_message) {}

  void Start(const grpc::CallbackServerContext& context) {
    const Instant arrival = SteadyClock().Now();
    InferenceCall call;
    if (const absl::Status status = Prepare(call); !status.ok()) {
      statistics_.Refused(status.code());
      Finish(ToGrpc(status));
      return;
    }
    call.arrival = arrival;
    call.deadline = DeadlineOf(context, arrival);
    if (decoded_.timeout) call.deadline = Earlier(call.deadline, arrival, *decoded_.timeout);
    call.cancelled = [this] { return cancelled_.load(std::memory_order_relaxed); };
    call.done = [this](const absl::Status& status) { Answer(status); };
    service_.Infer(std::move(call));  // `this` may be gone when it returns.
  }

  void OnCancel() override { cancelled_.store(true, std::memory_order_relaxed); }
  void OnDone() override { delete this; }

 private:
  // Saturates: a timeout of any length is allowed.
  static std::optional<Instant> Earlier(std::optional<Instant> deadline, Instant arrival,
                                        std::chrono::microseconds timeout) {
    if (timeout > std::chrono::hours(24 * 365)) return deadline;
    const Instant own = arrival + timeout;
    return deadline ? std::min(*deadline, own) : own;
  }

  ModelInterface interface() const { return {model_.name, model_.inputs, model_.outputs}; }

  absl::Status Prepare(InferenceCall& call) {
    SLUICE_RETURN_IF_ERROR(Decompress(wire_request_, max_message_));
    RequestSize size;
    {
      grpc::ProtoBufferReader reader(&wire_request_);
      SLUICE_ASSIGN_OR_RETURN(size, MeasureRequest(reader));
    }
    SLUICE_ASSIGN_OR_RETURN(model_, service_.Find(size.model_name, size.model_version));
    SLUICE_RETURN_IF_ERROR(CheckServing(model_));
    SLUICE_RETURN_IF_ERROR(AdmitAndParse(size));
    SLUICE_ASSIGN_OR_RETURN(decoded_, DecodeRequest(request_, interface()));

    answer_ = std::make_shared<AnswerBuffer>(interface(), decoded_.outputs);
    call.model = model_.name;
    call.version = model_.version;
    call.inputs = decoded_.inputs;
    call.outputs.resize(model_.outputs.size());
    for (std::size_t k = 0; k < decoded_.outputs.size(); ++k) {
      call.outputs[decoded_.outputs[k]] = answer_->tensors()[k];
    }
    call.priority = decoded_.priority;
    return absl::OkStatus();
  }

  absl::Status AdmitAndParse(const RequestSize& size) {
    Bytes parsed = size.parsed + AnswerBytes(interface()) + kCallOverhead;
    if (size.raw == Bytes()) {  // Typed fields are converted into tensors of their own.
      for (const PortInfo& port : model_.inputs) parsed += TensorBytes(port.type, port.shape);
    }
    SLUICE_ASSIGN_OR_RETURN(reservation_, service_.AdmitRequest(size.wire + parsed, model_.name));
    {
      grpc::ProtoBufferReader reader(&wire_request_);
      if (!request_.ParseFromZeroCopyStream(&reader)) {
        return absl::InvalidArgumentError(
            "the message is not an inference.ModelInferRequest: a field cannot be parsed");
      }
    }
    wire_request_.Clear();
    return reservation_.Resize(parsed);
  }

  void Answer(const absl::Status& status) {
    if (status.ok()) {
      wire_response_ = SerializeAnswer(
          AnswerHeader(request_, model_.version, interface(), decoded_.outputs), answer_);
    }
    Finish(ToGrpc(status));  // `this` may be gone when it returns.
  }

  grpc::ByteBuffer& wire_request_;
  grpc::ByteBuffer& wire_response_;
  ModelService& service_;
  WireStatistics& statistics_;
  const Bytes max_message_;
  std::atomic<bool> cancelled_{false};
  Reservation reservation_;
  ModelStatus model_;
  inference::ModelInferRequest request_;
  DecodedRequest decoded_;
  std::shared_ptr<AnswerBuffer> answer_;
};

}  // namespace

grpc::ServerUnaryReactor* StartInferCall(grpc::CallbackServerContext& context,
                                         grpc::ByteBuffer& request, grpc::ByteBuffer& response,
                                         WireState& state) {
  auto* call = new InferCall(request, response, state);
  call->Start(context);
  return call;
}

}  // namespace sluice
