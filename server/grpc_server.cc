#include "server/grpc_server.h"

#include <grpcpp/ext/proto_server_reflection_plugin.h>
#include <grpcpp/grpcpp.h>
#include <grpcpp/resource_quota.h>
#include <sys/stat.h>

#include <algorithm>
#include <limits>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_format.h"
#include "base/mutex.h"
#include "base/status_macros.h"
#include "server/health_service.h"
#include "server/listen_address.h"
#include "server/open_inference_service.h"
#include "server/sluice_service.h"
#include "server/wire_state.h"

namespace sluice {
namespace {

// gRPC's threads: a few that poll and call us, and at most these for reflection.
constexpr int kMaxThreads = 12;
// What gRPC may hold beside one message of the largest size: small calls and buffers of sockets.
constexpr Bytes kTransportMemory = 8_MiB;
constexpr int kMaxMetadataBytes = 16 * 1024;
constexpr mode_t kSocketMode = 0660;

int Clamp(std::uint64_t value) {
  return static_cast<int>(
      std::min<std::uint64_t>(value, static_cast<std::uint64_t>(std::numeric_limits<int>::max())));
}

void SetLimits(const Config& config, Bytes largest, grpc::ServerBuilder& builder) {
  builder.SetMaxReceiveMessageSize(Clamp(largest.count()));
  builder.SetMaxSendMessageSize(-1);
  // gRPC's own decompression has no limit; ours has one.
  builder.AddChannelArgument(GRPC_ARG_ENABLE_PER_MESSAGE_DECOMPRESSION, 0);
  grpc::ResourceQuota quota("sluice");
  quota.SetMaxThreads(kMaxThreads);
  quota.Resize((largest + kTransportMemory).count());
  builder.SetResourceQuota(quota);
  // A second daemon on the same port is an error, not a sharing of connections.
  builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
  builder.AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS,
                             Clamp(std::max<std::size_t>(config.max_in_flight, 64)));
  builder.AddChannelArgument(GRPC_ARG_MAX_METADATA_SIZE, kMaxMetadataBytes);
  // Clients may ping every ten seconds, also between calls; faster ones are cut off. We ping a
  // silent peer each minute, so that a watch of a vanished machine ends.
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS, 10'000);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIME_MS, 60'000);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, 20'000);
  // Only reflection runs on threads of its own.
  builder.SetSyncServerOption(grpc::ServerBuilder::NUM_CQS, 1);
  builder.SetSyncServerOption(grpc::ServerBuilder::MIN_POLLERS, 1);
  builder.SetSyncServerOption(grpc::ServerBuilder::MAX_POLLERS, 1);
}

}  // namespace

Health WireState::HealthOf(std::string_view name) const {
  const bool taking = !draining.load(std::memory_order_relaxed);
  if (name.empty() || name == kInferenceServiceName) {
    return ready() ? Health::kServing : Health::kNotServing;
  }
  if (name == kSluiceServiceName) return taking ? Health::kServing : Health::kNotServing;
  const absl::StatusOr<ModelStatus> model = service.Find(name, "");
  if (!model.ok()) return Health::kUnknown;
  return taking && model->state == ModelState::kReady ? Health::kServing : Health::kNotServing;
}

class GrpcServer::Impl {
 public:
  Impl(const Config& config, ModelService& service)
      : state_(service, config.server_name, LargestMessage(config, service.memory().budget)),
        inference_(state_),
        sluice_(state_),
        health_([this](std::string_view name) { return state_.HealthOf(name); },
                state_.statistics) {}

  ~Impl() {
    listener_->Forget();
    if (server_ != nullptr) Shutdown(SteadyClock().Now());
  }

  absl::Status Start(const Config& config, ModelService& service) {
    for (const std::string& address : config.listen) {
      if (const auto path = SocketPath(address)) SLUICE_RETURN_IF_ERROR(ClearSocketPath(*path));
    }
    grpc::reflection::InitProtoReflectionServerBuilderPlugin();
    grpc::ServerBuilder builder;
    SetLimits(config, state_.max_message, builder);
    builder.RegisterService(&inference_);
    builder.RegisterService(&sluice_);
    builder.RegisterService(&health_);
    std::vector<int> ports(config.listen.size(), -1);
    for (std::size_t i = 0; i < ports.size(); ++i) {
      builder.AddListeningPort(config.listen[i], grpc::InsecureServerCredentials(), &ports[i]);
    }
    server_ = builder.BuildAndStart();
    for (std::size_t i = 0; i < ports.size(); ++i) {
      if (server_ == nullptr && ports[i] <= 0) return NotBound(config.listen[i]);
      addresses_.push_back(WithPort(config.listen[i], ports[i]));
    }
    if (server_ == nullptr) return absl::UnavailableError("gRPC cannot start its server");
    SLUICE_RETURN_IF_ERROR(SetSocketModes(config));
    service.OnChange([listener = listener_] { listener->Notify(); });
    return absl::OkStatus();
  }

  void BeginShutdown() {
    state_.draining.store(true, std::memory_order_relaxed);
    health_.Notify();
  }

  void Shutdown(Instant until) {
    BeginShutdown();
    health_.EndWatches();
    const Duration left = std::max(Duration::zero(), until - SteadyClock().Now());
    server_->Shutdown(std::chrono::system_clock::now() +
                      std::chrono::duration_cast<std::chrono::system_clock::duration>(left));
    server_->Wait();
  }

  const std::vector<std::string>& addresses() const { return addresses_; }
  const WireStatistics& statistics() const { return state_.statistics; }

 private:
  // What the model service calls: it outlives us and keeps its listeners.
  class Listener {
   public:
    explicit Listener(HealthService& health) : health_(&health) {}
    void Notify() {
      MutexLock lock(mutex_);
      if (health_ != nullptr) health_->Notify();
    }
    void Forget() {
      MutexLock lock(mutex_);
      health_ = nullptr;
    }

   private:
    Mutex mutex_;
    HealthService* health_ ABSL_GUARDED_BY(mutex_);
  };

  static absl::Status NotBound(const std::string& address) {
    return absl::UnavailableError(
        absl::StrFormat("cannot listen on %s: %s", address, BindFailure(address)));
  }

  static absl::Status SetSocketModes(const Config& config) {
    for (const std::string& address : config.listen) {
      const auto path = SocketPath(address);
      if (path && chmod(path->c_str(), kSocketMode) != 0) {
        return absl::UnavailableError(absl::StrFormat("cannot set the mode of socket %s", address));
      }
    }
    return absl::OkStatus();
  }

  WireState state_;
  OpenInferenceService inference_;
  SluiceService sluice_;
  HealthService health_;
  const std::shared_ptr<Listener> listener_ = std::make_shared<Listener>(health_);
  std::vector<std::string> addresses_;
  std::unique_ptr<grpc::Server> server_;
};

absl::StatusOr<std::unique_ptr<GrpcServer>> GrpcServer::Start(const Config& config,
                                                              ModelService& service) {
  auto impl = std::make_unique<Impl>(config, service);
  SLUICE_RETURN_IF_ERROR(impl->Start(config, service));
  return std::unique_ptr<GrpcServer>(new GrpcServer(std::move(impl)));
}

GrpcServer::GrpcServer(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
GrpcServer::~GrpcServer() = default;

void GrpcServer::BeginShutdown() { impl_->BeginShutdown(); }
void GrpcServer::Shutdown(Instant until) { impl_->Shutdown(until); }
const std::vector<std::string>& GrpcServer::addresses() const { return impl_->addresses(); }
const WireStatistics& GrpcServer::statistics() const { return impl_->statistics(); }

}  // namespace sluice
