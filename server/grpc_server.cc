#include "server/grpc_server.h"

#include <grpcpp/ext/proto_server_reflection_plugin.h>
#include <grpcpp/grpcpp.h>
#include <grpcpp/resource_quota.h>
#include <unistd.h>

#include <algorithm>
#include <limits>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_format.h"
#include "base/mutex.h"
#include "base/status_macros.h"
#include "server/front_door.h"
#include "server/health_service.h"
#include "server/listen_address.h"
#include "server/listen_socket.h"
#include "server/open_inference_service.h"
#include "server/sluice_service.h"
#include "server/tls_credentials.h"
#include "server/tls_identity.h"
#include "server/wire_state.h"

namespace sluice {
namespace {

// gRPC's threads: a few that poll and call us, and at most these for reflection.
constexpr int kMaxThreads = 12;
// What gRPC's answers, small calls and connections may take beside messages.
constexpr Bytes kTransportMemory = 16_MiB;
// The most that is read from a socket at once.
constexpr int kReadChunk = 128 * 1024;
constexpr int kMaxMetadataBytes = 16 * 1024;
// A peer that connects and then says nothing, or no TLS, is cut off.
constexpr int kHandshakeMs = 10'000;
// For clients to take the last answers when the server goes.
constexpr Duration kLastBytes = std::chrono::seconds(1);

int Clamp(std::uint64_t value) {
  return static_cast<int>(
      std::min<std::uint64_t>(value, static_cast<std::uint64_t>(std::numeric_limits<int>::max())));
}

int MostStreams(const Config& config) {
  return Clamp(std::max<std::size_t>(config.max_in_flight, 64));
}

void SetLimits(const Config& config, const ReceiveLimits& receive, grpc::ServerBuilder& builder) {
  builder.SetMaxReceiveMessageSize(Clamp(receive.largest.count()));
  builder.SetMaxSendMessageSize(-1);
  // gRPC's own decompression has no limit; ours has one.
  builder.AddChannelArgument(GRPC_ARG_ENABLE_PER_MESSAGE_DECOMPRESSION, 0);
  grpc::ResourceQuota quota("sluice");
  quota.SetMaxThreads(kMaxThreads);
  // Far beyond what the gate and the front door let in. It stands behind them where they see
  // nothing: messages over TLS before they are refused, and those of methods without tensors.
  quota.Resize((receive.memory() * 2 + kTransportMemory).count());
  builder.SetResourceQuota(quota);
  builder.AddChannelArgument(GRPC_ARG_SERVER_HANDSHAKE_TIMEOUT_MS, kHandshakeMs);
  // Windows that do not grow with the bandwidth: a call that waits for its turn holds one of them.
  builder.AddChannelArgument(GRPC_ARG_HTTP2_BDP_PROBE, 0);
  builder.AddChannelArgument(GRPC_ARG_HTTP2_STREAM_LOOKAHEAD_BYTES,
                             static_cast<int>(kReceiveWindow.count()));
  builder.AddChannelArgument(GRPC_ARG_TCP_MAX_READ_CHUNK_SIZE, kReadChunk);
  builder.AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS, MostStreams(config));
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

using Acceptor = grpc::experimental::ExternalConnectionAcceptor;
constexpr auto kFromFd = grpc::ServerBuilder::experimental_type::ExternalConnectionType::FROM_FD;

class GrpcServer::Impl {
 public:
  Impl(const Config& config, ModelService& service)
      : state_(service, config.server_name, ReceiveLimitsOf(config, service.memory().budget),
               config.control_tcp),
        inference_(state_),
        infer_(state_),
        sluice_(state_),
        health_([this](std::string_view name) { return state_.HealthOf(name); },
                state_.statistics) {}

  ~Impl() {
    listener_->Forget();
    Shutdown(SteadyClock().Now());
  }

  absl::Status Start(const Config& config, ModelService& service) {
    SLUICE_ASSIGN_OR_RETURN(const SocketOwner owner, ResolveSocketAccess(config.socket));
    if (config.tls) {
      SLUICE_ASSIGN_OR_RETURN(TlsIdentity identity, ReadTlsIdentity(*config.tls));
      wants_client_ = identity.client_ca.has_value();
      tls_ = std::make_unique<TlsCredentials>(std::move(identity));
    }
    for (const std::string& address : config.listen) {
      if (const auto path = SocketPath(address)) SLUICE_RETURN_IF_ERROR(ClearSocketPath(*path));
    }
    SLUICE_RETURN_IF_ERROR(Listen(config, ReceiveLimitsOf(config, service.memory().budget)));
    for (const std::string& path : socket_paths_) SLUICE_RETURN_IF_ERROR(OpenSocketTo(path, owner));
    service.OnChange([listener = listener_] { listener->Notify(); });
    return absl::OkStatus();
  }

  absl::StatusOr<std::optional<Certificate>> ReloadTls(const Config& config) {
    if (tls_ == nullptr || !config.tls) return std::nullopt;
    if (config.tls->client_ca.has_value() != wants_client_) {
      return absl::FailedPreconditionError(
          absl::StrFormat("tls.client_ca: got %s, want it as it was until a restart",
                          wants_client_ ? "none" : "one"));
    }
    SLUICE_ASSIGN_OR_RETURN(TlsIdentity identity, ReadTlsIdentity(*config.tls));
    Certificate certificate = {identity.subject, identity.valid_until, identity.warnings};
    tls_->Use(std::move(identity));
    return certificate;
  }

  void BeginShutdown() {
    state_.draining.store(true, std::memory_order_relaxed);
    state_.gate.Close();
    health_.Notify();
  }

  void Shutdown(Instant until) {
    BeginShutdown();
    health_.EndWatches();
    const Duration left = std::max(Duration::zero(), until - SteadyClock().Now());
    if (front_door_ != nullptr) front_door_->StopAccepting();
    for (const std::string& path : std::exchange(socket_paths_, {})) unlink(path.c_str());
    if (server_ == nullptr) return;
    server_->Shutdown(std::chrono::system_clock::now() +
                      std::chrono::duration_cast<std::chrono::system_clock::duration>(left));
    server_->Wait();
    if (front_door_ != nullptr) front_door_->Drain(SteadyClock().Now() + kLastBytes);
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

  absl::Status Listen(const Config& config, const ReceiveLimits& receive) {
    grpc::reflection::InitProtoReflectionServerBuilderPlugin();
    grpc::ServerBuilder builder;
    SetLimits(config, receive, builder);
    builder.RegisterService(&inference_);
    builder.RegisterCallbackGenericService(&infer_);
    builder.RegisterService(&sluice_);
    builder.RegisterService(&health_);
    plain_ = builder.experimental().AddExternalConnectionAcceptor(
        kFromFd, grpc::InsecureServerCredentials());
    if (tls_ != nullptr) {
      encrypted_ =
          builder.experimental().AddExternalConnectionAcceptor(kFromFd, tls_->ForAddress());
    }
    std::vector<FrontDoor::Listener> listeners;
    for (const std::string& address : config.listen) {
      SLUICE_ASSIGN_OR_RETURN(FrontDoor::Listener listener, Bind(config, address));
      listeners.push_back(std::move(listener));
    }
    server_ = builder.BuildAndStart();
    if (server_ == nullptr) return absl::UnavailableError("gRPC cannot start its server");
    const FrontDoor::Limits limits = {
        .connections = config.max_connections,
        .calls = receive.most_calls,
        .http2 = {.largest_message = receive.largest,
                  .most_streams = 2 * static_cast<std::size_t>(MostStreams(config)),
                  .window = kReceiveWindow},
        .may_receive = [this](std::uint64_t connection) {
          return state_.receiving.MayReceive(connection);
        }};
    SLUICE_ASSIGN_OR_RETURN(front_door_, FrontDoor::Open(
                                             limits, std::move(listeners),
                                             [this] {
                                               state_.gate.CheckHolder();
                                               return state_.gate.busy();
                                             },
                                             state_.statistics.connections));
    return absl::OkStatus();
  }

  absl::StatusOr<FrontDoor::Listener> Bind(const Config& config, const std::string& address) {
    const PrivateUmask umask;
    SLUICE_ASSIGN_OR_RETURN(ListenSockets listening, ListenOn(address));
    addresses_.push_back(WithPort(address, listening.port));
    const auto path = SocketPath(address);
    if (path) socket_paths_.push_back(*path);
    const bool encrypted = SpeaksTls(config, address);
    return FrontDoor::Listener{
        .sockets = std::move(listening.sockets),
        .tcp = !path,
        .encrypted = encrypted,
        .deliver = [acceptor = encrypted ? encrypted_.get() : plain_.get()](OwnedFd fd) {
          Acceptor::NewConnectionParameters connection;
          connection.fd = fd.Release();
          acceptor->HandleNewConnection(&connection);
        }};
  }

  WireState state_;
  OpenInferenceService inference_;
  ModelInferService infer_;
  SluiceService sluice_;
  HealthService health_;
  const std::shared_ptr<Listener> listener_ = std::make_shared<Listener>(health_);
  std::vector<std::string> addresses_;
  bool wants_client_ = false;
  std::unique_ptr<TlsCredentials> tls_;    // Outlives the server.
  std::vector<std::string> socket_paths_;  // Ours to remove.
  std::unique_ptr<grpc::Server> server_;
  std::unique_ptr<Acceptor> plain_, encrypted_;
  std::unique_ptr<FrontDoor> front_door_;  // Goes first: it gives connections to the acceptors.
};

absl::StatusOr<std::vector<std::string>> GrpcServer::Check(const Config& config) {
  SLUICE_RETURN_IF_ERROR(ResolveSocketAccess(config.socket).status());
  if (!config.tls) return std::vector<std::string>();
  SLUICE_ASSIGN_OR_RETURN(const TlsIdentity identity, ReadTlsIdentity(*config.tls));
  return identity.warnings;
}

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
absl::StatusOr<std::optional<GrpcServer::Certificate>> GrpcServer::ReloadTls(const Config& config) {
  return impl_->ReloadTls(config);
}
const WireStatistics& GrpcServer::statistics() const { return impl_->statistics(); }

}  // namespace sluice
