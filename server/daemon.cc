#include "server/daemon.h"

#include <poll.h>
#include <signal.h>
#include <spdlog/spdlog.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_format.h"
#include "base/status_macros.h"
#include "server/grpc_log.h"
#include "server/grpc_server.h"
#include "server/metrics_server.h"
#include "server/model_service.h"
#include "server/service_notifier.h"

namespace sluice {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr Duration kStartExtension = seconds(60);
constexpr Duration kIdleInterval = seconds(10);

sigset_t ServedSignals() {
  sigset_t signals;
  sigemptyset(&signals);
  for (const int signal : {SIGTERM, SIGINT, SIGHUP}) sigaddset(&signals, signal);
  return signals;
}

// A file descriptor that is closed when it goes out of scope.
class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}
  ~Descriptor() {
    if (fd_ >= 0) close(fd_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int fd() const { return fd_; }

 private:
  const int fd_;
};

std::string StatusLine(const ModelService& service) {
  std::size_t ready = 0, loading = 0, unavailable = 0;
  for (const ModelStatus& model : service.models()) {
    if (model.state == ModelState::kReady) ++ready;
    if (model.state == ModelState::kLoading) ++loading;
    if (model.state == ModelState::kUnavailable) ++unavailable;
  }
  const MemoryReport memory = service.memory();
  return absl::StrFormat("%d models ready, %d loading, %d unavailable; %s reserved of %s", ready,
                         loading, unavailable, FormatBytes(memory.reserved),
                         FormatBytes(memory.budget));
}

// The running daemon. One thread, the main one.
class Daemon {
 public:
  Daemon(std::filesystem::path path, const Config& config, int signals)
      : path_(std::move(path)),
        config_(config),
        signals_(signals),
        changes_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
        watchdog_(notifier_.watchdog_interval()) {}

  // Fails: as the parts' Start.
  absl::Status Start() {
    SLUICE_ASSIGN_OR_RETURN(service_, ModelService::Open(config_));
    service_->OnChange([fd = changes_.fd()] {
      const std::uint64_t one = 1;
      (void)!write(fd, &one, sizeof one);
    });
    SLUICE_ASSIGN_OR_RETURN(grpc_, GrpcServer::Start(config_, *service_));
    for (std::size_t i = 0; i < config_.listen.size(); ++i) {
      spdlog::info("gRPC on {}{}", grpc_->addresses()[i],
                   SpeaksTls(config_, config_.listen[i]) ? " with TLS" : "");
    }
    if (config_.metrics_listen) {
      SLUICE_ASSIGN_OR_RETURN(
          metrics_, MetricsServer::Start(*config_.metrics_listen, *service_, &grpc_->statistics()));
      spdlog::info("metrics on port {}", metrics_->port());
    }
    return service_->LoadAtStart();
  }

  void Run() {
    while (!stop_) {
      Report();
      std::array<pollfd, 2> files = {{{.fd = signals_, .events = POLLIN, .revents = 0},
                                      {.fd = changes_.fd(), .events = POLLIN, .revents = 0}}};
      const auto wait = std::chrono::duration_cast<milliseconds>(Interval());
      (void)poll(files.data(), files.size(), static_cast<int>(wait.count()));
      if ((files[1].revents & POLLIN) != 0) {
        std::uint64_t count = 0;
        (void)!read(changes_.fd(), &count, sizeof count);
      }
      if ((files[0].revents & POLLIN) != 0) HandleSignal();
    }
    Stop();
  }

 private:
  Duration Interval() const {
    return watchdog_ ? std::max<Duration>(*watchdog_ / 4, milliseconds(1)) : kIdleInterval;
  }

  void HandleSignal() {
    signalfd_siginfo info{};
    if (read(signals_, &info, sizeof info) != static_cast<ssize_t>(sizeof info)) return;
    if (info.ssi_signo == SIGHUP) return Reload();
    spdlog::info("signal {}: draining for at most {:.1f} s", info.ssi_signo,
                 Seconds(config_.drain_timeout));
    stop_ = true;
  }

  void Reload() {
    notifier_.Reloading();
    absl::StatusOr<Config> config = ReadConfig(path_);
    reported_ = State::kReloading;
    if (!config.ok()) {
      spdlog::error("reload: nothing changes: {}", std::string(config.status().message()));
      service_->CountReload(false);
      return;
    }
    spdlog::info("reload: {}", path_.string());
    // A refused certificate leaves the models their reload, but somebody must hear of it.
    service_->CountReload(ReloadTls(*config));
    service_->Reload(*config);
  }

  bool ReloadTls(const Config& config) {
    const auto certificate = grpc_->ReloadTls(config);
    if (!certificate.ok()) {
      spdlog::error("reload: the certificate in use stays: {}",
                    std::string(certificate.status().message()));
      return false;
    }
    if (!*certificate) return true;
    for (const std::string& warning : (*certificate)->warnings) spdlog::warn("{}", warning);
    spdlog::info("reload: new connections get the certificate of {}, valid until {}",
                 (*certificate)->subject, (*certificate)->valid_until);
    return true;
  }

  // Tells the service manager what has changed since the last time.
  void Report() {
    const bool settled = service_->ready() && !service_->loading();
    const std::string status = StatusLine(*service_);
    if (settled && reported_ != State::kReady) {
      notifier_.Ready(status);
      reported_ = State::kReady;
    } else if (status != status_) {
      notifier_.Status(status);
    }
    status_ = status;
    const Instant now = SteadyClock().Now();
    if (now < next_sign_) return;
    next_sign_ = now + Interval();
    const std::uint64_t progress = service_->Progress();
    if (progress == progress_) return;
    progress_ = progress;
    notifier_.Watchdog();
    if (reported_ == State::kStarting) notifier_.ExtendTimeout(kStartExtension);
  }

  void Stop() {
    notifier_.Stopping();
    notifier_.ExtendTimeout(config_.drain_timeout + seconds(10));
    // A second signal ends the process at once.
    sigset_t signals = ServedSignals();
    sigdelset(&signals, SIGHUP);
    pthread_sigmask(SIG_UNBLOCK, &signals, nullptr);
    const Instant until = SteadyClock().Now() + config_.drain_timeout;
    grpc_->BeginShutdown();
    service_->Shutdown(until);
    grpc_->Shutdown(until + seconds(1));
    metrics_.reset();
    grpc_.reset();
    service_.reset();
    spdlog::info("stopped");
  }

  enum class State { kStarting, kReloading, kReady };

  const std::filesystem::path path_;
  const Config config_;
  const int signals_;
  const Descriptor changes_;
  const ServiceNotifier notifier_{};
  const std::optional<Duration> watchdog_;
  std::unique_ptr<ModelService> service_;
  std::unique_ptr<GrpcServer> grpc_;
  std::unique_ptr<MetricsServer> metrics_;
  bool stop_ = false;
  State reported_ = State::kStarting;
  std::string status_;
  Instant next_sign_{};
  std::uint64_t progress_ = ~std::uint64_t{0};
};

ExitCode CodeOf(const absl::Status& status) {
  switch (status.code()) {
    case absl::StatusCode::kInvalidArgument:
      return ExitCode::kConfiguration;
    case absl::StatusCode::kFailedPrecondition:
      return ExitCode::kBudget;
    case absl::StatusCode::kUnavailable:
      return ExitCode::kUnavailable;
    default:
      return ExitCode::kFailure;
  }
}

}  // namespace

ExitCode Serve(const std::filesystem::path& path, const Config& config) {
  const sigset_t signals = ServedSignals();
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  signal(SIGPIPE, SIG_IGN);
  const Descriptor signal_file(signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK));
  if (signal_file.fd() < 0) {
    spdlog::critical("signalfd: {}", std::strerror(errno));
    return ExitCode::kFailure;
  }
  RouteGrpcLog();
  Daemon daemon(path, config, signal_file.fd());
  const absl::Status started = daemon.Start();
  if (!started.ok()) {
    spdlog::critical("{}", std::string(started.message()));
    return CodeOf(started);
  }
  daemon.Run();
  return ExitCode::kOk;
}

}  // namespace sluice
