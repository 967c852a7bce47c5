#include "server/infer_call.h"

#include <grpc/grpc.h>
#include <grpcpp/support/proto_buffer_reader.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <optional>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_format.h"
#include "base/clock.h"
#include "base/mutex.h"
#include "base/status_macros.h"
#include "server/answer_buffer.h"
#include "server/front_door.h"
#include "server/grpc_status.h"
#include "server/infer_codec.h"
#include "server/message_gate.h"
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

class InferCall final : public grpc::ServerGenericBidiReactor,
                        public MessageGate::Caller,
                        public std::enable_shared_from_this<InferCall> {
 public:
  InferCall(grpc::CallbackServerContext& context, WireState& state)
      : context_(context),
        deadline_(DeadlineOf(context, arrival_)),
        service_(state.service),
        statistics_(state.statistics),
        gate_(state.gate),
        receiving_(state.receiving),
        connection_(ConnectionNumber(context.peer())),
        max_message_(state.max_message) {}

  void Start() {
    self_ = shared_from_this();
    switch (gate_.Enter(self_)) {
      case MessageGate::Entry::kEntered:
        return;
      case MessageGate::Entry::kClosed:
        return OnClose();
      case MessageGate::Entry::kFull:
        return Refuse(Stage::kWaiting, absl::UnavailableError("too many requests wait to be sent"));
    }
  }

  void OnTurn() override {
    {
      // The lock keeps Finish from coming first. gRPC calls back from its own threads, never here.
      MutexLock lock(mutex_);
      if (stage_ == Stage::kWaiting) {
        stage_ = Stage::kReceiving;
        if (connection_) receiving_.TakeTurn(*connection_);
        return StartRead(&wire_request_);
      }
    }
    gate_.Leave(*this);
  }

  void OnReadDone(bool ok) override {
    Enter(Stage::kReceiving, Stage::kWorking);
    if (ok) return Proceed(Measure());
    Refuse(Stage::kWorking,
           cancelled_ ? absl::CancelledError("the caller left")
                      : absl::InvalidArgumentError(
                            "the call brought no message: want one inference.ModelInferRequest"));
  }

  void OnRoom() override {
    if (Enter(Stage::kWantsRoom, Stage::kWorking)) Proceed(absl::OkStatus());
  }

  void OnOverdue() override {
    {
      // While it is being received the call is alive. Cancelling frees what has come, even when
      // the peer does not read the answer, and ends the read.
      MutexLock lock(mutex_);
      if (stage_ == Stage::kReceiving) {
        cancelled_.store(true, std::memory_order_relaxed);
        grpc_call_cancel_with_status(context_.c_call(), GRPC_STATUS_DEADLINE_EXCEEDED,
                                     "the message was not received in time", nullptr);
        return;
      }
    }
    Refuse(Stage::kWantsRoom,
           absl::ResourceExhaustedError("no room within the budget came free in time"));
  }

  void OnClose() override {
    Refuse(Stage::kWaiting, absl::UnavailableError("the server is shutting down"));
  }

  // A read that is under way ends by itself, and the model asks.
  void OnCancel() override {
    cancelled_.store(true, std::memory_order_relaxed);
    Refuse(Stage::kWaiting, absl::CancelledError("the caller left"));
    Refuse(Stage::kWantsRoom, absl::CancelledError("the caller left"));
  }

  // What it held is free before the gate hears of it.
  void OnDone() override {
    MessageGate& gate = gate_;
    const bool admitted = admitted_;
    Reservation held = std::move(reservation_);
    self_.reset();  // `this` is gone, but for a gate that is about to see that it has finished.
    held = Reservation();
    if (admitted) gate.Ended();
  }

 private:
  // Nobody but the thread that moved the call to kWorking touches its message.
  enum class Stage { kWaiting, kReceiving, kWorking, kWantsRoom, kFinished };

  bool Enter(Stage from, Stage to) {
    MutexLock lock(mutex_);
    if (stage_ != from) return false;
    stage_ = to;
    return true;
  }

  // Ends the call when it is at `from`, and gives up its turn or its wait for one.
  void Refuse(Stage from, const absl::Status& status) {
    if (!Enter(from, Stage::kFinished)) return;
    statistics_.Refused(status.code());
    wire_request_.Clear();
    gate_.Leave(*this);
    Finish(ToGrpc(status));  // `this` may be gone when it returns.
  }

  // From the measured message, or once more when there may be room, to the model's queue.
  void Proceed(absl::Status status) {
    if (status.ok()) {
      const absl::StatusOr<bool> admitted = Admit();
      if (admitted.ok() && !*admitted) return;
      status = admitted.status();
    }
    InferenceCall call;
    if (status.ok()) status = Prepare(call);
    if (!status.ok()) return Refuse(Stage::kWorking, status);
    call.arrival = arrival_;
    call.deadline = deadline_;
    if (decoded_.timeout) call.deadline = Earlier(call.deadline, arrival_, *decoded_.timeout);
    call.cancelled = [this] { return cancelled_.load(std::memory_order_relaxed); };
    call.done = [this](const absl::Status& answer) { Answer(answer); };
    service_.Infer(std::move(call));  // `this` may be gone when it returns.
  }

  // Saturates: a timeout of any length is allowed.
  static std::optional<Instant> Earlier(std::optional<Instant> deadline, Instant arrival,
                                        std::chrono::microseconds timeout) {
    if (timeout > std::chrono::hours(24 * 365)) return deadline;
    const Instant own = arrival + timeout;
    return deadline ? std::min(*deadline, own) : own;
  }

  ModelInterface interface() const { return {model_.name, model_.inputs, model_.outputs}; }

  absl::Status Measure() {
    SLUICE_RETURN_IF_ERROR(Decompress(wire_request_, max_message_));
    RequestSize size;
    {
      grpc::ProtoBufferReader reader(&wire_request_);
      SLUICE_ASSIGN_OR_RETURN(size, MeasureRequest(reader));
    }
    SLUICE_ASSIGN_OR_RETURN(model_, service_.Find(size.model_name, size.model_version));
    SLUICE_RETURN_IF_ERROR(CheckServing(model_));
    parsed_ = size.parsed + AnswerBytes(interface()) + kCallOverhead;
    if (size.raw == Bytes()) {  // Typed fields are converted into tensors of their own.
      for (const PortInfo& port : model_.inputs) parsed_ += TensorBytes(port.type, port.shape);
    }
    needed_ = size.wire + parsed_;
    return absl::OkStatus();
  }

  // False: there is no room now, and OnRoom comes; `this` may be gone then.
  absl::StatusOr<bool> Admit() {
    if (needed_ <= service_.requests_room()) {
      const auto reserve = [this](bool may_wait) {
        absl::StatusOr<Reservation> room = service_.AdmitRequest(needed_);
        admitted_ = room.ok();
        if (admitted_) reservation_ = *std::move(room);
        if (!admitted_ && may_wait) Enter(Stage::kWorking, Stage::kWantsRoom);
        return admitted_;
      };
      switch (gate_.Admit(*this, reserve)) {
        case MessageGate::Admission::kAdmitted:
          return true;
        case MessageGate::Admission::kWait:
          return false;
        case MessageGate::Admission::kNoRoom:
          break;
      }
    }
    // Counted among the model's refusals.
    const absl::StatusOr<Reservation> room = service_.AdmitRequest(needed_, model_.name);
    return room.ok() ? absl::ResourceExhaustedError("the budget has just changed: try again")
                     : room.status();
  }

  absl::Status Prepare(InferenceCall& call) {
    {
      grpc::ProtoBufferReader reader(&wire_request_);
      if (!request_.ParseFromZeroCopyStream(&reader)) {
        return absl::InvalidArgumentError(
            "the message is not an inference.ModelInferRequest: a field cannot be parsed");
      }
    }
    wire_request_.Clear();
    SLUICE_RETURN_IF_ERROR(reservation_.Resize(parsed_));
    SLUICE_ASSIGN_OR_RETURN(decoded_, DecodeRequest(request_, interface()));

    answer_ = std::make_shared<AnswerBuffer>(interface(), decoded_.outputs);
    call.model = model_.name;
    call.version = model_.version;
    call.inputs = decoded_.inputs;
    call.counts = answer_->counts();
    call.outputs.resize(model_.outputs.size());
    for (std::size_t k = 0; k < decoded_.outputs.size(); ++k) {
      call.outputs[decoded_.outputs[k]] = answer_->tensors()[k];
    }
    call.priority = decoded_.priority;
    return absl::OkStatus();
  }

  void Answer(const absl::Status& status) {
    if (status.ok()) {
      answer_->CutToCounts(interface(), decoded_.outputs);
      wire_response_ = SerializeAnswer(
          AnswerHeader(request_, model_.version, interface(), decoded_.outputs, answer_->counts()),
          answer_);
      StartWriteAndFinish(&wire_response_, grpc::WriteOptions(), grpc::Status());
    } else {
      Finish(ToGrpc(status));
    }  // `this` may be gone now.
  }

  grpc::CallbackServerContext& context_;
  const Instant arrival_ = SteadyClock().Now();
  const std::optional<Instant> deadline_;  // The client's.
  ModelService& service_;
  WireStatistics& statistics_;
  MessageGate& gate_;
  ReceivingConnections& receiving_;
  const std::optional<std::uint64_t> connection_;
  const Bytes max_message_;
  std::shared_ptr<InferCall> self_;  // Until gRPC is done with it.
  std::atomic<bool> cancelled_{false};
  Mutex mutex_;
  Stage stage_ ABSL_GUARDED_BY(mutex_) = Stage::kWaiting;
  grpc::ByteBuffer wire_request_, wire_response_;
  Bytes needed_, parsed_;  // To be admitted, and what remains once the wire bytes are gone.
  Reservation reservation_;
  bool admitted_ = false;
  ModelStatus model_;
  inference::ModelInferRequest request_;
  DecodedRequest decoded_;
  std::shared_ptr<AnswerBuffer> answer_;
};

}  // namespace

grpc::ServerGenericBidiReactor* StartInferCall(grpc::CallbackServerContext& context,
                                               WireState& state) {
  const auto call = std::make_shared<InferCall>(context, state);
  call->Start();
  return call.get();  // gRPC is not done with it before it has it.
}

}  // namespace sluice
