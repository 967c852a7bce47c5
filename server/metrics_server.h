// server/metrics_server.h
//
// /metrics for Prometheus. Every family is a row of one table (metrics_table.h), from which
// docs/metrics.md is made too. A scrape reads counters and never waits for a model.

#ifndef SLUICE_SERVER_METRICS_SERVER_H_
#define SLUICE_SERVER_METRICS_SERVER_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "server/model_service.h"
#include "server/wire_statistics.h"

namespace sluice {

class MetricsServer {
 public:
  // `wire` counts what never reached a model (GrpcServer::statistics); null without a wire.
  // Owns: `service` and `wire` must outlive the server.
  // Fails: UNAVAILABLE, the address cannot be bound.
  static absl::StatusOr<std::unique_ptr<MetricsServer>> Start(const std::string& listen,
                                                              const ModelService& service,
                                                              const WireStatistics* wire = nullptr);
  ~MetricsServer();
  int port() const;  // As bound.

 private:
  class Impl;
  explicit MetricsServer(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace sluice

#endif  // SLUICE_SERVER_METRICS_SERVER_H_
