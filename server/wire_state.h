// server/wire_state.h
//
// What the services of one server share.

#ifndef SLUICE_SERVER_WIRE_STATE_H_
#define SLUICE_SERVER_WIRE_STATE_H_

#include <atomic>
#include <string>
#include <string_view>
#include <utility>

#include "server/config.h"
#include "server/health_service.h"
#include "server/message_gate.h"
#include "server/model_service.h"
#include "server/receiving_connections.h"
#include "server/wire_statistics.h"

namespace sluice {

inline constexpr std::string_view kInferenceServiceName = "inference.GRPCInferenceService";
inline constexpr std::string_view kSluiceServiceName = "sluice.v1.Sluice";

struct WireState {
  WireState(ModelService& model_service, std::string name, ReceiveLimits receive, bool tcp_controls)
      : service(model_service),
        server_name(std::move(name)),
        max_message(receive.largest),
        control_tcp(tcp_controls),
        gate({.most_waiting = receive.most_waiting}) {}

  // The daemon takes requests: everything that loads at start has been dealt with.
  bool ready() const { return !draining.load(std::memory_order_relaxed) && service.ready(); }

  // What grpc.health.v1 says of a service's name; kUnknown for names that are neither ours nor a
  // model's.
  Health HealthOf(std::string_view name) const;

  ModelService& service;
  const std::string server_name;
  const Bytes max_message;  // On the wire, and once more when it has been decompressed.
  const bool control_tcp;   // `control.tcp` of the configuration.
  MessageGate gate;         // Of calls with tensors.
  ReceivingConnections receiving;
  std::atomic<bool> draining{false};
  WireStatistics statistics;
};

}  // namespace sluice

#endif  // SLUICE_SERVER_WIRE_STATE_H_
