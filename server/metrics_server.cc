#include "server/metrics_server.h"

#include <civetweb.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <cstdint>
#include <string_view>
#include <thread>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_format.h"
#include "base/clock.h"
#include "base/mutex.h"
#include "server/listen_address.h"
#include "server/metrics_collector.h"
#include "server/status_page.h"

namespace sluice {
namespace {

// A person and a scraper at once; more wait in the queue of the socket.
constexpr const char* kThreads = "2";
constexpr const char* kTimeoutMs = "5000";
constexpr Duration kKnockInterval = std::chrono::milliseconds(20);

void Send(mg_connection* connection, std::string_view status, std::string_view type,
          std::string_view body) {
  const std::string head = absl::StrFormat(
      "HTTP/1.1 %s\r\nContent-Type: %s\r\nContent-Length: %d\r\nConnection: close\r\n"
      "Cache-Control: no-store\r\nX-Content-Type-Options: nosniff\r\n"
      "Content-Security-Policy: default-src 'none'; style-src 'unsafe-inline'\r\n\r\n",
      status, type, body.size());
  const std::string_view method = mg_get_request_info(connection)->request_method;
  // A peer that has gone away is not an error of ours.
  mg_write(connection, head.data(), head.size());
  if (method != "HEAD") mg_write(connection, body.data(), body.size());
}

// Connects to a port of this machine and hangs up. What cannot be reached is left alone.
void Knock(int port, bool version6) {
  const int fd =
      socket(version6 ? AF_INET6 : AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (fd < 0) return;
  const auto number = htons(static_cast<std::uint16_t>(port));
  if (version6) {
    sockaddr_in6 address{};
    address.sin6_family = AF_INET6;
    address.sin6_port = number;
    address.sin6_addr = in6addr_loopback;
    (void)connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address);
  } else {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = number;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    (void)connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address);
  }
  close(fd);
}

int DropLog(const mg_connection* /*connection*/, const char* /*message*/) { return 1; }

}  // namespace

class MetricsServer::Impl {
 public:
  Impl(const ModelService& service, const WireStatistics* wire) : service_(service), wire_(wire) {}
  ~Impl() {
    if (context_ != nullptr) Stop();
  }
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;

  absl::Status Start(const std::string& listen) {
    const char* options[] = {"listening_ports",    listen.c_str(), "num_threads", kThreads,
                             "request_timeout_ms", kTimeoutMs,     nullptr};
    mg_callbacks callbacks{};
    callbacks.log_message = DropLog;
    mg_init_data init{&callbacks, this, options};
    char text[256] = "";
    unsigned code = 0;
    mg_error_data error{&code, text, sizeof(text)};
    context_ = mg_start2(&init, &error);
    if (context_ == nullptr) {
      return absl::UnavailableError(
          absl::StrFormat("cannot listen on %s for metrics: %s", listen, BindFailure(listen)));
    }
    mg_set_request_handler(context_, "/", &Impl::Handle, this);
    mg_server_port ports[1] = {};
    if (mg_get_server_ports(context_, 1, ports) == 1) {
      port_ = ports[0].port;
      version6_ = ports[0].protocol != 1;
    }
    return absl::OkStatus();
  }

  int port() const { return port_; }

 private:
  // The library sees that it should end when somebody connects; else only every two seconds.
  void Stop() {
    Mutex mutex;
    CondVar changed;
    bool stopped = false;
    std::thread stopper([&] {
      mg_stop(context_);
      MutexLock lock(mutex);
      stopped = true;
      changed.NotifyOne();
    });
    {
      MutexLock lock(mutex);
      while (!stopped) {
        Knock(port_, version6_);
        changed.WaitUntil(mutex, SteadyClock().Now() + kKnockInterval);
      }
    }
    stopper.join();
  }

  static int Handle(mg_connection* connection, void* self) {
    static_cast<const Impl*>(self)->Answer(connection);
    return 200;
  }

  void Answer(mg_connection* connection) const {
    const mg_request_info& request = *mg_get_request_info(connection);
    const std::string_view method = request.request_method;
    const std::string_view path = request.local_uri == nullptr ? "" : request.local_uri;
    if (method != "GET" && method != "HEAD") {
      Send(connection, "405 Method Not Allowed", "text/plain", "only GET and HEAD\n");
    } else if (path == "/metrics") {
      Send(connection, "200 OK", "text/plain; version=0.0.4; charset=utf-8", MetricsText(Input()));
    } else if (path == "/") {
      Send(connection, "200 OK", "text/html; charset=utf-8", StatusPage(Input()));
    } else {
      Send(connection, "404 Not Found", "text/plain", "there is / and /metrics\n");
    }
  }

  MetricsInput Input() const {
    return {.ready = service_.ready(),
            .memory = service_.memory(),
            .models = service_.models(),
            .process = ReadProcessUsage(),
            .wire = wire_,
            .reloads = service_.reloads(),
            .storage = &service_.storage(),
            .pressure = ReadSystemPressure()};
  }

  const ModelService& service_;
  const WireStatistics* const wire_;
  mg_context* context_ = nullptr;
  int port_ = 0;
  bool version6_ = false;
};

absl::StatusOr<std::unique_ptr<MetricsServer>> MetricsServer::Start(const std::string& listen,
                                                                    const ModelService& service,
                                                                    const WireStatistics* wire) {
  auto impl = std::make_unique<Impl>(service, wire);
  if (const absl::Status status = impl->Start(listen); !status.ok()) return status;
  return std::unique_ptr<MetricsServer>(new MetricsServer(std::move(impl)));
}

MetricsServer::MetricsServer(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
MetricsServer::~MetricsServer() = default;
int MetricsServer::port() const { return impl_->port(); }

}  // namespace sluice
