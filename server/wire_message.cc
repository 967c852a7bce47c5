#include "server/wire_message.h"

#include <grpcpp/support/proto_buffer_reader.h>
#include <zlib.h>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/strings/str_format.h"
#include "base/status_macros.h"
#include "server/http2_guard.h"

namespace sluice {
namespace {

// Plain bytes are made in pieces, so that little is taken before a limit is met.
constexpr std::size_t kPiece = 256 * 1024;

absl::Status TooLarge(std::string_view found, Bytes limit) {
  return absl::ResourceExhaustedError(absl::StrFormat(
      "the message is larger than max: got %s, want at most %d bytes", found, limit.count()));
}

absl::Status TooLarge(Bytes found, Bytes limit) {
  return TooLarge(absl::StrFormat("%d bytes", found.count()), limit);
}

// As many as there are, at most the size of a cut message.
std::vector<std::uint8_t> FirstBytes(const std::vector<grpc::Slice>& slices) {
  std::vector<std::uint8_t> first;
  for (const grpc::Slice& slice : slices) {
    const std::size_t size = std::min(slice.size(), kCutSize - first.size());
    first.insert(first.end(), slice.begin(), slice.begin() + size);
  }
  return first;
}

// Two bytes that begin a gzip stream, or a zlib stream with its check. As protobuf tags they are a
// wire type that does not exist, and field 15, which no message of ours has.
bool IsCompressed(const std::vector<std::uint8_t>& head) {
  if (head.size() < 2) return false;
  const bool gzip = head[0] == 0x1f && head[1] == 0x8b;
  const bool zlib = head[0] == 0x78 && (head[0] * 256 + head[1]) % 31 == 0;
  return gzip || zlib;
}

class Inflater {
 public:
  explicit Inflater(Bytes limit) : limit_(limit) {
    constexpr int kGzipOrZlib = 15 + 32;
    ok_ = inflateInit2(&stream_, kGzipOrZlib) == Z_OK;
  }
  ~Inflater() {
    if (ok_) inflateEnd(&stream_);
  }
  Inflater(const Inflater&) = delete;
  Inflater& operator=(const Inflater&) = delete;

  absl::Status Add(const grpc::Slice& slice) {
    stream_.next_in = const_cast<std::uint8_t*>(slice.begin());
    stream_.avail_in = static_cast<uInt>(slice.size());
    while (stream_.avail_in > 0) {
      if (!ok_ || ended_) return Broken();
      grpc::Slice piece(kPiece);
      stream_.next_out = const_cast<std::uint8_t*>(piece.begin());
      stream_.avail_out = static_cast<uInt>(piece.size());
      const int result = inflate(&stream_, Z_NO_FLUSH);
      if (result != Z_OK && result != Z_STREAM_END) return Broken();
      SLUICE_RETURN_IF_ERROR(Keep(piece, piece.size() - stream_.avail_out));
      ended_ = result == Z_STREAM_END;
    }
    return absl::OkStatus();
  }

  // What zlib holds back when its output was full comes without further input.
  absl::Status Flush() {
    while (!ended_) {
      grpc::Slice piece(kPiece);
      stream_.next_out = const_cast<std::uint8_t*>(piece.begin());
      stream_.avail_out = static_cast<uInt>(piece.size());
      const int result = ok_ ? inflate(&stream_, Z_NO_FLUSH) : Z_DATA_ERROR;
      if (result != Z_OK && result != Z_STREAM_END) return Broken();
      SLUICE_RETURN_IF_ERROR(Keep(piece, piece.size() - stream_.avail_out));
      ended_ = result == Z_STREAM_END;
    }
    return absl::OkStatus();
  }

  grpc::ByteBuffer Take() { return {plain_.data(), plain_.size()}; }

 private:
  static absl::Status Broken() {
    return absl::InvalidArgumentError("the message is compressed, and its stream is broken");
  }

  absl::Status Keep(const grpc::Slice& piece, std::size_t size) {
    total_ += Bytes::Of(size);
    if (total_ > limit_) return TooLarge("more in plain", limit_);
    if (size == piece.size()) {
      plain_.push_back(piece);
    } else if (size > 0) {
      plain_.emplace_back(piece.begin(), size);
    }
    return absl::OkStatus();
  }

  const Bytes limit_;
  Bytes total_;
  std::vector<grpc::Slice> plain_;
  z_stream stream_{};
  bool ok_ = false, ended_ = false;
};

}  // namespace

absl::Status Decompress(grpc::ByteBuffer& message, Bytes limit) {
  std::vector<grpc::Slice> slices;
  if (message.Length() > 0 && !message.Dump(&slices).ok()) {
    return absl::InternalError("the message cannot be read");
  }
  const std::vector<std::uint8_t> head = FirstBytes(slices);
  if (const std::optional<Bytes> announced = CutMessageLength(head)) {
    return TooLarge(*announced, limit);
  }
  const Bytes size = Bytes::Of(message.Length());
  if (!IsCompressed(head)) return size > limit ? TooLarge(size, limit) : absl::OkStatus();
  Inflater inflater(limit);
  for (const grpc::Slice& slice : slices) SLUICE_RETURN_IF_ERROR(inflater.Add(slice));
  SLUICE_RETURN_IF_ERROR(inflater.Flush());
  message = inflater.Take();
  return absl::OkStatus();
}

absl::Status ParseSmall(grpc::ByteBuffer& wire, google::protobuf::MessageLite& message) {
  SLUICE_RETURN_IF_ERROR(Decompress(wire, kSmallMessage));
  grpc::ProtoBufferReader reader(&wire);
  if (message.ParseFromZeroCopyStream(&reader)) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrFormat("the message is not a %s", message.GetTypeName()));
}

grpc::ByteBuffer Serialize(const google::protobuf::MessageLite& message) {
  const grpc::Slice slice(message.SerializeAsString());
  return {&slice, 1};
}

}  // namespace sluice
