// server/infer_call.h
//
// One ModelInfer call from its bytes to its answer:
//   measure -> find the model -> admit the memory -> parse -> check -> queue and run -> answer

#ifndef SLUICE_SERVER_INFER_CALL_H_
#define SLUICE_SERVER_INFER_CALL_H_

#include <grpcpp/grpcpp.h>

#include "server/wire_state.h"

namespace sluice {

// Starts the call; the reactor deletes itself when gRPC is done with it. `request` is emptied as
// soon as it has been parsed. Owns: everything given must outlive the call.
grpc::ServerUnaryReactor* StartInferCall(grpc::CallbackServerContext& context,
                                         grpc::ByteBuffer& request, grpc::ByteBuffer& response,
                                         WireState& state);

}  // namespace sluice

#endif  // SLUICE_SERVER_INFER_CALL_H_
