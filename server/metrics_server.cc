#include "server/metrics_server.h"

#include <civetweb.h>

#include <string_view>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_format.h"
#include "server/listen_address.h"
#include "server/metrics_collector.h"
#include "server/status_page.h"

namespace sluice {
namespace {

// A person and a scraper at once; more wait in the queue of the socket.
constexpr const char* kThreads = "2";
constexpr const char* kTimeoutMs = "5000";

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

int DropLog(const mg_connection* /*connection*/, const char* /*message*/) { return 1; }

}  // namespace

class MetricsServer::Impl {
 public:
  Impl(const ModelService& service, const WireStatistics* wire) : service_(service), wire_(wire) {}
  ~Impl() {
    if (context_ != nullptr) mg_stop(context_);
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
    if (mg_get_server_ports(context_, 1, ports) == 1) port_ = ports[0].port;
    return absl::OkStatus();
  }

  int port() const { return port_; }

 private:
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
    return {service_.ready(), service_.memory(), service_.models(), ReadProcessUsage(), wire_};
  }

  const ModelService& service_;
  const WireStatistics* const wire_;
  mg_context* context_ = nullptr;
  int port_ = 0;
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
