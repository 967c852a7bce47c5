// server/sluice_service.h
//
// sluice.v1.Sluice: where the memory is.

#ifndef SLUICE_SERVER_SLUICE_SERVICE_H_
#define SLUICE_SERVER_SLUICE_SERVICE_H_

#include <grpcpp/grpcpp.h>

#include "server/wire_state.h"
#include "sluice.grpc.pb.h"

namespace sluice {

// Threads: callable from several at once.
class SluiceService final
    : public v1::Sluice::WithRawCallbackMethod_GetMemory<v1::Sluice::Service> {
 public:
  // Owns: `state` must outlive the service.
  explicit SluiceService(WireState& state) : state_(state) {}

  grpc::ServerUnaryReactor* GetMemory(grpc::CallbackServerContext* context,
                                      const grpc::ByteBuffer* request,
                                      grpc::ByteBuffer* response) override;

 private:
  WireState& state_;
};

}  // namespace sluice

#endif  // SLUICE_SERVER_SLUICE_SERVICE_H_
