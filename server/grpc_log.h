// server/grpc_log.h
//
// What gRPC has to say goes to the daemon's log. Any peer can make it speak, with a handshake that
// fails for instance, so there is a limit.

#ifndef SLUICE_SERVER_GRPC_LOG_H_
#define SLUICE_SERVER_GRPC_LOG_H_

#include <cstdint>
#include <optional>

#include "base/clock.h"

namespace sluice {

// At most kMost lines in each kInterval. Threads: one at a time.
class LogLimit {
 public:
  static constexpr std::uint64_t kMost = 10;
  static constexpr Duration kInterval = std::chrono::minutes(1);

  // Nothing when the line is to be left out; else how many were left out since the last one.
  std::optional<std::uint64_t> Admit(Instant now);

 private:
  std::optional<Instant> begin_;
  std::uint64_t admitted_ = 0, left_out_ = 0;
};

// From now on gRPC's errors are warnings of the daemon's log; the rest is dropped.
void RouteGrpcLog();

}  // namespace sluice

#endif  // SLUICE_SERVER_GRPC_LOG_H_
