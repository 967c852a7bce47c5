#include "server/http2_guard.h"

#include <algorithm>
#include <string_view>
#include <utility>

namespace sluice {
namespace {

constexpr std::string_view kPreface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
constexpr std::size_t kPrefix = 5;  // Whether it is compressed, and its length.
// A peer may give up so many calls more than it lets end.
constexpr std::size_t kMostGivenUp = 64;
constexpr std::uint8_t kEndStream = 0x1, kPadded = 0x8;

std::uint8_t ByteOf(std::uint32_t value, std::size_t index) {
  return static_cast<std::uint8_t>(value >> (8 * (3 - index)));
}

}  // namespace

std::optional<Bytes> CutMessageLength(std::span<const std::uint8_t> message) {
  if (message.size() < kCutSize || !std::ranges::equal(message.first(sizeof(kCutMark)), kCutMark)) {
    return std::nullopt;
  }
  std::uint32_t length = 0;
  for (std::size_t i = sizeof(kCutMark); i < kCutSize; ++i) length = length << 8 | message[i];
  return Bytes::Of(length);
}

bool Http2Frames::Frame::ends_stream() const {
  return Is(Type::kReset) || ((Is(Type::kData) || Is(Type::kHeaders)) && (flags & kEndStream) != 0);
}

bool Http2Frames::Read(std::span<std::uint8_t> bytes,
                       absl::FunctionRef<bool(const Frame&, std::uint8_t&)> begin,
                       absl::FunctionRef<bool(const Frame&, std::span<std::uint8_t>)> payload) {
  while (!bytes.empty()) {
    if (payload_left_ > 0) {
      const std::size_t size = std::min<std::size_t>(payload_left_, bytes.size());
      if (!payload(frame_, bytes.first(size))) return false;
      payload_left_ -= static_cast<std::uint32_t>(size);
      bytes = bytes.subspan(size);
      continue;
    }
    std::uint8_t& byte = bytes.front();
    header_[header_read_++] = byte;
    bytes = bytes.subspan(1);
    begun_ = true;
    if (header_read_ < sizeof(header_)) continue;
    header_read_ = 0;
    frame_ = {};
    for (std::size_t i = 0; i < 3; ++i) frame_.length = frame_.length << 8 | header_[i];
    frame_.type = header_[3];
    frame_.flags = header_[4];
    for (std::size_t i = 5; i < 9; ++i) frame_.stream = frame_.stream << 8 | header_[i];
    frame_.stream &= 0x7fffffff;  // The first bit has no meaning.
    payload_left_ = frame_.length;
    if (!begin(frame_, byte)) return false;
  }
  return true;
}

bool Http2Guard::FromClient(std::span<std::uint8_t> bytes) {
  for (; preface_read_ < kPreface.size() && !bytes.empty(); bytes = bytes.subspan(1)) {
    if (bytes.front() != static_cast<std::uint8_t>(kPreface[preface_read_++])) return false;
  }
  return client_.Read(
      bytes,
      [this](const Http2Frames::Frame& frame, std::uint8_t& stream_end) {
        return BeginFrame(frame, stream_end);
      },
      [this](const Http2Frames::Frame& frame, std::span<std::uint8_t> payload) {
        if (!frame.Is(Http2Frames::Type::kData)) return true;
        const auto stream = streams_.find(frame.stream);
        if (stream == streams_.end()) return true;
        large_ -= IsLarge(stream->second) ? 1 : 0;
        ReadData(stream->second, payload);
        large_ += IsLarge(stream->second) ? 1 : 0;
        return true;
      });
}

bool Http2Guard::FromServer(std::span<std::uint8_t> bytes) {
  return server_.Read(
      bytes,
      [this](const Http2Frames::Frame& frame, std::uint8_t& /*stream_end*/) {
        if (frame.ends_stream()) ended_ += Forget(frame.stream);
        return true;
      },
      [](const Http2Frames::Frame& /*frame*/, std::span<std::uint8_t> /*payload*/) {
        return true;
      });
}

std::size_t Http2Guard::Forget(std::uint32_t stream) {
  const auto found = streams_.find(stream);
  if (found == streams_.end()) return 0;
  large_ -= IsLarge(found->second) ? 1 : 0;
  streams_.erase(found);
  return 1;
}

std::vector<std::uint8_t> Http2Guard::TakeRefusals() {
  constexpr std::uint8_t kRefusedStream = 7;
  std::vector<std::uint8_t> frames;
  // The server's settings come before anything else.
  if (refused_.empty() || !server_.begun() || server_.missing() > 0) return frames;
  for (const std::uint32_t stream : std::exchange(refused_, {})) {
    constexpr auto kType = static_cast<std::uint8_t>(Http2Frames::Type::kReset);
    frames.insert(frames.end(), {0, 0, 4, kType, 0});
    for (std::size_t i = 0; i < 4; ++i) frames.push_back(ByteOf(stream, i));
    frames.insert(frames.end(), {0, 0, 0, kRefusedStream});
  }
  return frames;
}

std::size_t Http2Guard::ServerPiece(std::size_t size) const {
  return refused_.empty() || server_.missing() == 0 ? size : std::min(size, server_.missing());
}

bool Http2Guard::BeginFrame(const Http2Frames::Frame& frame, std::uint8_t& stream_end) {
  established_ = true;
  // gRPC does not take padding, which would hide where messages begin.
  if (frame.Is(Http2Frames::Type::kData)) return (frame.flags & kPadded) == 0;
  if (frame.Is(Http2Frames::Type::kReset)) {
    const std::size_t given_up = Forget(frame.stream);
    resets_ += given_up;
    all_resets_ += given_up;
    if (all_resets_ > ended_ + kMostGivenUp) return false;
  }
  if (frame.Is(Http2Frames::Type::kHeaders) && frame.stream > last_stream_) {
    if (streams_.size() >= limits_.most_streams) return false;
    last_stream_ = frame.stream;
    if (streams_.size() + resets_ < allowed_) {
      streams_.emplace(frame.stream, Stream());
    } else {
      refused_.push_back(frame.stream);
    }
  }
  const bool headers =
      frame.Is(Http2Frames::Type::kHeaders) || frame.Is(Http2Frames::Type::kContinuation);
  if (headers && !streams_.contains(frame.stream)) stream_end &= 0xfe;
  // A peer that does not hear of its refusals must not make them pile up.
  return refused_.size() <= limits_.most_streams;
}

void Http2Guard::ReadData(Stream& stream, std::span<std::uint8_t> data) const {
  while (!data.empty()) {
    if (stream.prefix_read == 0 && data.size() >= kPrefix) {
      // The usual case, whole: so that a cut message can be given exactly the size of its mark.
      std::uint32_t length = 0;
      for (std::size_t i = 1; i < kPrefix; ++i) length = length << 8 | data[i];
      const bool cut = Bytes::Of(length) > limits_.largest_message && length >= kCutSize;
      stream = {.prefix_read = kPrefix,
                .announced = length,
                .given = cut ? static_cast<std::uint32_t>(kCutSize) : length};
      if (cut) data[0] = 0;  // As not compressed.
      for (std::size_t i = 1; cut && i < kPrefix; ++i) data[i] = ByteOf(stream.given, i - 1);
      data = data.subspan(kPrefix);
    } else if (stream.prefix_read < kPrefix) {
      ReadPrefix(stream, data.front());
      data = data.subspan(1);
    }
    const auto size = static_cast<std::uint32_t>(
        stream.prefix_read < kPrefix
            ? 0
            : std::min<std::size_t>(data.size(), stream.given - stream.message_read));
    for (std::uint32_t i = 0; stream.given < stream.announced && i < size; ++i) {
      const std::uint32_t at = stream.message_read + i;
      if (at >= kCutSize) break;
      data[i] =
          at < sizeof(kCutMark) ? kCutMark[at] : ByteOf(stream.announced, at - sizeof(kCutMark));
    }
    stream.message_read += size;
    data = data.subspan(size);
    if (stream.prefix_read == kPrefix && stream.message_read == stream.given) stream = {};
  }
}

// One byte of a prefix that comes in pieces. What has gone on cannot be changed any more, so the
// length given is the largest one with that beginning that is allowed, or less.
void Http2Guard::ReadPrefix(Stream& stream, std::uint8_t& byte) const {
  const std::size_t index = stream.prefix_read++;
  if (index == 0) return;
  const unsigned shift = 8 * static_cast<unsigned>(kPrefix - 1 - index);
  stream.announced |= static_cast<std::uint32_t>(byte) << shift;
  const std::uint32_t wanted = stream.given | static_cast<std::uint32_t>(byte) << shift;
  if (Bytes::Of(wanted) <= limits_.largest_message) {
    stream.given = wanted;
  } else {
    byte = 0;
  }
}

}  // namespace sluice
