// server/control_call.h
//
// RepositoryModelLoad and RepositoryModelUnload, from the wire to the model service and back. A
// call is answered from the loader's thread; gRPC's own never wait for a load.

#ifndef SLUICE_SERVER_CONTROL_CALL_H_
#define SLUICE_SERVER_CONTROL_CALL_H_

#include <grpcpp/grpcpp.h>

#include "absl/status/status.h"
#include "server/wire_state.h"

namespace sluice {

// Whether the caller may load and unload: on a Unix socket always, elsewhere with `control.tcp`.
// Fails: PERMISSION_DENIED, naming the key.
absl::Status CheckControl(const grpc::CallbackServerContext& context, const WireState& state);

// Both are borrowed until the call is done, as gRPC has it.
grpc::ServerUnaryReactor* StartLoadCall(grpc::CallbackServerContext& context,
                                        const grpc::ByteBuffer& request, grpc::ByteBuffer& response,
                                        WireState& state);
grpc::ServerUnaryReactor* StartUnloadCall(grpc::CallbackServerContext& context,
                                          const grpc::ByteBuffer& request,
                                          grpc::ByteBuffer& response, WireState& state);

}  // namespace sluice

#endif  // SLUICE_SERVER_CONTROL_CALL_H_
