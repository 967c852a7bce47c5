// server/infer_call.h
//
// One ModelInfer call from its bytes to its answer:
//   wait for a turn -> receive -> measure -> find the model -> admit the memory -> parse -> check
//   -> queue and run -> answer
// To gRPC it is a stream of one message each way, since a stream's message is received only when it
// is asked for (message_gate.h); clients see an ordinary unary call.

#ifndef SLUICE_SERVER_INFER_CALL_H_
#define SLUICE_SERVER_INFER_CALL_H_

#include <grpcpp/generic/async_generic_service.h>
#include <grpcpp/grpcpp.h>

#include "server/wire_state.h"

namespace sluice {

// Starts the call; the reactor goes when gRPC is done with it. Owns: `context` and `state` must
// outlive the call.
grpc::ServerGenericBidiReactor* StartInferCall(grpc::CallbackServerContext& context,
                                               WireState& state);

}  // namespace sluice

#endif  // SLUICE_SERVER_INFER_CALL_H_
