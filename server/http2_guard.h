// server/http2_guard.h
//
// Follows the bytes of one HTTP/2 connection on their way to gRPC, keeping none, and cuts messages
// that are too large while they are on their way: gRPC looks at its limit only when it holds the
// whole message, and a peer may announce 4 GiB.
//
//   frame   | length, type, flags, stream | payload ...
//   payload | 0, message's length | message ...      of DATA frames, over any number of them
//                 |                    |
//                 v                    v
//           | 0, kCutSize         | kCutMark, the length that was announced | ...
//
// Lengths are changed in place, so flow control is not disturbed: what comes of the message beyond
// kCutSize is left in the stream's window, which nobody reads. Whoever gets the message asks
// CutMessageLength and refuses the call.
//
// Calls beyond a number are refused here too. Their headers must reach gRPC, whose table of headers
// they may change; so they go on with an even stream number, which gRPC reads and ignores, and the
// client gets RST_STREAM with REFUSED_STREAM: such a call may be sent again at once.

#ifndef SLUICE_SERVER_HTTP2_GUARD_H_
#define SLUICE_SERVER_HTTP2_GUARD_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "base/bytes.h"

namespace sluice {

// What is left of a message that was cut: a mark that begins no message of ours (no protobuf tag
// has wire type 7), and four bytes of length, big-endian.
inline constexpr std::uint8_t kCutMark[] = {0xff, 's', 'l', 'u', 'i', 'c', 'e', 0xff};
inline constexpr std::size_t kCutSize = sizeof(kCutMark) + 4;

// The length that was announced, if `message` begins as one that was cut.
std::optional<Bytes> CutMessageLength(std::span<const std::uint8_t> message);

// Finds the frames in one direction of a connection.
class Http2Frames {
 public:
  enum class Type : std::uint8_t { kData = 0, kHeaders = 1, kReset = 3, kContinuation = 9 };
  struct Frame {
    std::uint32_t length = 0;
    std::uint8_t type = 0, flags = 0;
    std::uint32_t stream = 0;
    bool Is(Type wanted) const { return type == static_cast<std::uint8_t>(wanted); }
    bool ends_stream() const;
  };
  // Calls `begin` for each frame whose header is complete, with the last byte of its stream's
  // number, and `payload` for each piece of one's payload. False as soon as one of them answers
  // false.
  bool Read(std::span<std::uint8_t> bytes,
            absl::FunctionRef<bool(const Frame&, std::uint8_t&)> begin,
            absl::FunctionRef<bool(const Frame&, std::span<std::uint8_t>)> payload);
  bool begun() const { return begun_; }
  // Bytes that are missing of a frame that has begun, as far as its header tells.
  std::size_t missing() const {
    return header_read_ > 0 ? sizeof(header_) - header_read_ : payload_left_;
  }

 private:
  std::uint8_t header_[9] = {};
  std::size_t header_read_ = 0;
  std::uint32_t payload_left_ = 0;
  bool begun_ = false;
  Frame frame_;
};

// Threads: one at a time.
class Http2Guard {
 public:
  struct Limits {
    Bytes largest_message = Bytes::Of(0xffffffff);
    std::size_t most_streams = 256;  // Open at a time; a peer that opens more is not served.
    // What of a message may come before gRPC is asked for it.
    Bytes window = Bytes::Of(0xffffffff);
  };
  explicit Http2Guard(Limits limits) : limits_(limits), allowed_(limits.most_streams) {}

  // The client's next bytes; the length and beginning of a message may be changed in place.
  // False: it does not speak HTTP/2 as gRPC's clients do, and the connection is to be closed.
  bool FromClient(std::span<std::uint8_t> bytes);
  // The server's next bytes; not changed. False: likewise, which would be a bug.
  bool FromServer(std::span<std::uint8_t> bytes);

  // Streams that may be open from now on; further ones are refused.
  void Allow(std::size_t streams) { allowed_ = streams; }
  // What tells the client of the calls refused since, to be sent to it before more of the server's
  // bytes; empty while one of the server's frames is under way.
  std::vector<std::uint8_t> TakeRefusals();
  // How much of `size` bytes of the server may be passed on before TakeRefusals is asked again.
  std::size_t ServerPiece(std::size_t size) const;

  bool established() const { return established_; }  // The client's first frame has begun.
  bool idle() const { return streams_.empty(); }
  std::size_t streams() const { return streams_.size(); }
  // Streams that the client has ended with RST_STREAM since it was asked last. gRPC may hold their
  // calls for a while yet, so they count as open until somebody has asked.
  std::size_t TakeResets() { return std::exchange(resets_, 0); }
  // Messages of which more than a window has come, and not yet all.
  std::size_t large_messages() const { return large_; }
  bool called() const { return last_stream_ > 0; }  // A stream has been opened once.

 private:
  // Where a stream is in its sequence of messages.
  struct Stream {
    std::size_t prefix_read = 0;             // Of the five bytes before a message.
    std::uint32_t announced = 0, given = 0;  // The message's length, as it came and as it goes on.
    std::uint32_t message_read = 0;
  };
  bool IsLarge(const Stream& stream) const {
    return Bytes::Of(stream.message_read) > limits_.window;
  }
  // 1 if there was one.
  std::size_t Forget(std::uint32_t stream);
  bool BeginFrame(const Http2Frames::Frame& frame, std::uint8_t& stream_end);
  void ReadData(Stream& stream, std::span<std::uint8_t> data) const;
  void ReadPrefix(Stream& stream, std::uint8_t& byte) const;

  const Limits limits_;
  std::size_t preface_read_ = 0;
  bool established_ = false;
  Http2Frames client_, server_;
  std::uint32_t last_stream_ = 0;
  std::map<std::uint32_t, Stream> streams_;
  std::size_t allowed_;
  std::size_t large_ = 0;                                // Of streams_.
  std::size_t resets_ = 0, all_resets_ = 0, ended_ = 0;  // Streams: see TakeResets; ever; served.
  std::vector<std::uint32_t> refused_;                   // Streams whose clients do not know yet.
};

}  // namespace sluice

#endif  // SLUICE_SERVER_HTTP2_GUARD_H_
