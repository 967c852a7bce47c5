// server/request_size.h
//
// What an inference request will take in memory, told from its bytes on the wire before anything
// of it is built, so that the budget admits it first.

#ifndef SLUICE_SERVER_REQUEST_SIZE_H_
#define SLUICE_SERVER_REQUEST_SIZE_H_

#include <google/protobuf/io/zero_copy_stream.h>

#include <string>

#include "absl/status/statusor.h"
#include "base/bytes.h"

namespace sluice {

struct RequestSize {
  std::string model_name, model_version;  // As in the message; not checked for UTF-8.
  Bytes wire;                             // The message itself.
  Bytes raw;                              // Tensors in raw_input_contents.
  Bytes parsed;  // At least what the parsed message takes, with the allocator's own bytes.
};

// Walks the wire format; memory: the two names, at most kMaxModelName each.
// Fails: INVALID_ARGUMENT, the bytes are not protobuf's wire format, or a name is too long.
// Cost:  one pass; tensors in raw_input_contents are skipped, not read.
inline constexpr int kMaxModelName = 1024;
absl::StatusOr<RequestSize> MeasureRequest(google::protobuf::io::ZeroCopyInputStream& message);

}  // namespace sluice

#endif  // SLUICE_SERVER_REQUEST_SIZE_H_
