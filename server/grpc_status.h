// server/grpc_status.h
//
// The only place where our status and the wire's meet. The codes are the same numbers.

#ifndef SLUICE_SERVER_GRPC_STATUS_H_
#define SLUICE_SERVER_GRPC_STATUS_H_

#include <grpcpp/support/status.h>

#include <cstddef>
#include <string>

#include "absl/status/status.h"

namespace sluice {
namespace internal {

constexpr bool Same(absl::StatusCode ours, grpc::StatusCode theirs) {
  return static_cast<int>(ours) == static_cast<int>(theirs);
}
static_assert(Same(absl::StatusCode::kOk, grpc::StatusCode::OK));
static_assert(Same(absl::StatusCode::kCancelled, grpc::StatusCode::CANCELLED));
static_assert(Same(absl::StatusCode::kUnknown, grpc::StatusCode::UNKNOWN));
static_assert(Same(absl::StatusCode::kInvalidArgument, grpc::StatusCode::INVALID_ARGUMENT));
static_assert(Same(absl::StatusCode::kDeadlineExceeded, grpc::StatusCode::DEADLINE_EXCEEDED));
static_assert(Same(absl::StatusCode::kNotFound, grpc::StatusCode::NOT_FOUND));
static_assert(Same(absl::StatusCode::kAlreadyExists, grpc::StatusCode::ALREADY_EXISTS));
static_assert(Same(absl::StatusCode::kPermissionDenied, grpc::StatusCode::PERMISSION_DENIED));
static_assert(Same(absl::StatusCode::kResourceExhausted, grpc::StatusCode::RESOURCE_EXHAUSTED));
static_assert(Same(absl::StatusCode::kFailedPrecondition, grpc::StatusCode::FAILED_PRECONDITION));
static_assert(Same(absl::StatusCode::kAborted, grpc::StatusCode::ABORTED));
static_assert(Same(absl::StatusCode::kOutOfRange, grpc::StatusCode::OUT_OF_RANGE));
static_assert(Same(absl::StatusCode::kUnimplemented, grpc::StatusCode::UNIMPLEMENTED));
static_assert(Same(absl::StatusCode::kInternal, grpc::StatusCode::INTERNAL));
static_assert(Same(absl::StatusCode::kUnavailable, grpc::StatusCode::UNAVAILABLE));
static_assert(Same(absl::StatusCode::kDataLoss, grpc::StatusCode::DATA_LOSS));
static_assert(Same(absl::StatusCode::kUnauthenticated, grpc::StatusCode::UNAUTHENTICATED));

}  // namespace internal

// Longer messages are cut: a status travels in a header, and clients limit those to 8 KiB, three
// times less where every byte is escaped.
inline constexpr std::size_t kMaxStatusMessage = 2048;

inline grpc::Status ToGrpc(const absl::Status& status) {
  std::string message(status.message().data(), status.message().size());
  if (message.size() > kMaxStatusMessage) {
    message.resize(kMaxStatusMessage - 3);
    message += "...";
  }
  return {static_cast<grpc::StatusCode>(status.code()), message};
}

}  // namespace sluice

#endif  // SLUICE_SERVER_GRPC_STATUS_H_
