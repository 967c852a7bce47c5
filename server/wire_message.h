// server/wire_message.h
//
// Messages as bytes. gRPC would decompress and parse a message of any kind before we see it, into
// as much memory as the peer likes; so every method takes bytes, and limits stand here.

#ifndef SLUICE_SERVER_WIRE_MESSAGE_H_
#define SLUICE_SERVER_WIRE_MESSAGE_H_

#include <google/protobuf/message_lite.h>
#include <grpcpp/grpcpp.h>

#include "absl/status/status.h"
#include "base/bytes.h"
#include "server/grpc_status.h"

namespace sluice {

// Largest request of a method that carries no tensors.
inline constexpr Bytes kSmallMessage = 64_KiB;

// Replaces a message in gzip or zlib form by its plain bytes; others stay as they are. The form is
// told by its first bytes, which begin no message of ours.
// Fails: RESOURCE_EXHAUSTED, more than `limit` plain bytes, or a message that was cut on its way
// (http2_guard.h); INVALID_ARGUMENT, a broken stream.
absl::Status Decompress(grpc::ByteBuffer& message, Bytes limit);

// Fails: as Decompress; INVALID_ARGUMENT, the bytes are no such message.
absl::Status ParseSmall(grpc::ByteBuffer& wire, google::protobuf::MessageLite& message);

grpc::ByteBuffer Serialize(const google::protobuf::MessageLite& message);

// Answers a small unary call with what `handler(request, response)` says.
template <typename Request, typename Response, typename Handler>
grpc::ServerUnaryReactor* AnswerSmall(grpc::CallbackServerContext& context,
                                      const grpc::ByteBuffer& wire_request,
                                      grpc::ByteBuffer& wire_response, const Handler& handler) {
  Request request;
  Response response;
  grpc::ByteBuffer wire = wire_request;  // Shares the bytes.
  absl::Status status = ParseSmall(wire, request);
  if (status.ok()) status = handler(request, response);
  if (status.ok()) wire_response = Serialize(response);
  grpc::ServerUnaryReactor* reactor = context.DefaultReactor();
  reactor->Finish(ToGrpc(status));
  return reactor;
}

}  // namespace sluice

#endif  // SLUICE_SERVER_WIRE_MESSAGE_H_
