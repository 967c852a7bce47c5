// server/grpc_server.h
//
// The wire: the Open Inference Protocol, sluice.v1.Sluice, grpc.health.v1 and reflection on every
// address of the configuration.

#ifndef SLUICE_SERVER_GRPC_SERVER_H_
#define SLUICE_SERVER_GRPC_SERVER_H_

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/clock.h"
#include "server/config.h"
#include "server/model_service.h"
#include "server/wire_statistics.h"

namespace sluice {

class GrpcServer {
 public:
  // Reads what Start will: certificate, key, authority of clients, group of the sockets. Answers
  // the warnings, one each.
  // Fails: INVALID_ARGUMENT, one error.
  static absl::StatusOr<std::vector<std::string>> Check(const Config& config);

  // Listens at once; requests to models that are still loading are answered UNAVAILABLE.
  // Owns: `service` must outlive the server.
  // Fails: UNAVAILABLE, an address that cannot be bound, named with the reason; INVALID_ARGUMENT as
  //        Check.
  static absl::StatusOr<std::unique_ptr<GrpcServer>> Start(const Config& config,
                                                           ModelService& service);
  ~GrpcServer();

  // Health turns to NOT_SERVING and ServerReady to false; requests are still answered.
  void BeginShutdown();
  // Stops listening, waits for running calls until `until`, then cancels them.
  void Shutdown(Instant until);

  // Addresses as bound ("127.0.0.1:41234" for port 0), in the configuration's order.
  const std::vector<std::string>& addresses() const;

  struct Certificate {
    std::string subject, valid_until;
    std::vector<std::string> warnings;
  };
  // Reads certificate, key and authority again: new handshakes use them, connections go on. None
  // when nothing speaks TLS.
  // Fails: INVALID_ARGUMENT as Check, FAILED_PRECONDITION when `client_ca` appears or vanishes,
  //        which takes a restart; then the old ones stay in use.
  absl::StatusOr<std::optional<Certificate>> ReloadTls(const Config& config);

  // What the wire answered by itself, for the metrics page.
  const WireStatistics& statistics() const;

 private:
  class Impl;
  explicit GrpcServer(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace sluice

#endif  // SLUICE_SERVER_GRPC_SERVER_H_
