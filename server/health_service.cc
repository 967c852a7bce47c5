#include "server/health_service.h"

#include <optional>
#include <utility>
#include <vector>

#include "server/infer_codec.h"
#include "server/wire_message.h"

namespace sluice {
namespace {

using grpc::health::v1::HealthCheckRequest;
using grpc::health::v1::HealthCheckResponse;

HealthCheckResponse::ServingStatus ToProto(Health health) {
  switch (health) {
    case Health::kServing:
      return HealthCheckResponse::SERVING;
    case Health::kNotServing:
      return HealthCheckResponse::NOT_SERVING;
    case Health::kUnknown:
      break;
  }
  return HealthCheckResponse::SERVICE_UNKNOWN;
}

// A watch that only says why it is refused.
class RefusedWatch final : public grpc::ServerWriteReactor<grpc::ByteBuffer> {
 public:
  explicit RefusedWatch(grpc::Status status) { Finish(std::move(status)); }
  void OnDone() override { delete this; }
};

}  // namespace

std::optional<Health> WatchState::OnHealth(Health now) {
  current_ = now;
  return Next();
}

std::optional<Health> WatchState::OnWritten() {
  writing_ = false;
  return Next();
}

std::optional<Health> WatchState::Next() {
  if (writing_ || !current_ || told_ == current_) return std::nullopt;
  writing_ = true;
  told_ = current_;
  return told_;
}

// No operation of gRPC is started while the lock is held: it may call back at once. Finish is never
// called while a write is open, so that no write can be started on a call that is gone.
class HealthService::HealthWatch final : public grpc::ServerWriteReactor<grpc::ByteBuffer> {
 public:
  HealthWatch(HealthService& service, std::string name)
      : service_(service), name_(std::move(name)) {}

  // Until OnDone the watch owns itself.
  void Hold(WatchPointer self) { self_ = std::move(self); }

  void Update() {
    std::optional<Health> write;
    {
      // Looked up under the lock, so that an older answer cannot overtake a newer one.
      MutexLock lock(mutex_);
      if (end_) return;
      write = state_.OnHealth(service_.lookup_(name_));
    }
    if (write) Write(*write);
  }

  void End(const grpc::Status& status) {
    {
      MutexLock lock(mutex_);
      if (end_) return;
      end_ = status;
      if (state_.writing()) return;  // OnWriteDone finishes.
    }
    Finish(status);
  }

  void OnWriteDone(bool ok) override {
    std::optional<grpc::Status> finish;
    std::optional<Health> write;
    {
      MutexLock lock(mutex_);
      if (!ok && !end_) end_ = grpc::Status(grpc::StatusCode::CANCELLED, "the watcher is gone");
      finish = end_;
      if (!finish) write = state_.OnWritten();
    }
    if (finish) {
      Finish(*finish);
    } else if (write) {
      Write(*write);
    }
  }

  void OnCancel() override { End({grpc::StatusCode::CANCELLED, "the watch was cancelled"}); }

  void OnDone() override {
    const WatchPointer self = std::move(self_);
    service_.Remove(self);
  }

 private:
  // One write at a time, so `message_` is not in use.
  void Write(Health health) {
    HealthCheckResponse response;
    response.set_status(ToProto(health));
    message_ = Serialize(response);
    StartWrite(&message_);
  }

  HealthService& service_;
  const std::string name_;
  grpc::ByteBuffer message_;
  WatchPointer self_;
  Mutex mutex_;
  WatchState state_ ABSL_GUARDED_BY(mutex_);
  std::optional<grpc::Status> end_ ABSL_GUARDED_BY(mutex_);  // Set once.
};

HealthService::HealthService(Lookup lookup, WireStatistics& statistics)
    : lookup_(std::move(lookup)), statistics_(statistics) {}

HealthService::~HealthService() = default;

std::vector<HealthService::WatchPointer> HealthService::Watches() {
  MutexLock lock(mutex_);
  return {watches_.begin(), watches_.end()};
}

void HealthService::Notify() {
  for (const WatchPointer& watch : Watches()) watch->Update();
}

void HealthService::EndWatches() {
  {
    MutexLock lock(mutex_);
    ended_ = true;
  }
  for (const WatchPointer& watch : Watches()) {
    watch->End({grpc::StatusCode::UNAVAILABLE, "the server is shutting down"});
  }
}

void HealthService::Remove(const WatchPointer& watch) {
  MutexLock lock(mutex_);
  watches_.erase(watch);
  statistics_.watchers.fetch_sub(1, std::memory_order_relaxed);
}

grpc::ServerUnaryReactor* HealthService::Check(grpc::CallbackServerContext* context,
                                               const grpc::ByteBuffer* wire_request,
                                               grpc::ByteBuffer* wire_response) {
  return AnswerSmall<HealthCheckRequest, HealthCheckResponse>(
      *context, *wire_request, *wire_response,
      [this](const HealthCheckRequest& request, HealthCheckResponse& response) {
        const Health health = lookup_(request.service());
        response.set_status(ToProto(health));
        return health == Health::kUnknown
                   ? absl::NotFoundError("unknown service " + Quoted(request.service()))
                   : absl::OkStatus();
      });
}

grpc::ServerWriteReactor<grpc::ByteBuffer>* HealthService::Watch(
    grpc::CallbackServerContext* /*context*/, const grpc::ByteBuffer* wire_request) {
  HealthCheckRequest request;
  grpc::ByteBuffer wire = *wire_request;  // Shares the bytes.
  if (const absl::Status status = ParseSmall(wire, request); !status.ok()) {
    return new RefusedWatch(ToGrpc(status));
  }
  if (request.service().size() > kMaxName) {
    return new RefusedWatch({grpc::StatusCode::INVALID_ARGUMENT, "the service's name is too long"});
  }
  auto watch = std::make_shared<HealthWatch>(*this, request.service());
  {
    MutexLock lock(mutex_);
    if (ended_) {
      return new RefusedWatch({grpc::StatusCode::UNAVAILABLE, "the server is shutting down"});
    }
    if (watches_.size() >= kMaxWatches) {
      return new RefusedWatch({grpc::StatusCode::RESOURCE_EXHAUSTED, "too many health watches"});
    }
    watches_.insert(watch);
    statistics_.watchers.fetch_add(1, std::memory_order_relaxed);
  }
  watch->Hold(watch);
  watch->Update();
  return watch.get();
}

}  // namespace sluice
