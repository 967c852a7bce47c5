#include "server/http2_guard.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

namespace sluice {
namespace {

using Octets = std::vector<std::uint8_t>;
constexpr std::uint8_t kData = 0, kHeaders = 1, kReset = 3, kPing = 6, kContinuation = 9;
constexpr std::uint8_t kEndStream = 1, kEndHeaders = 4;

Octets operator+(Octets a, const Octets& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

Octets Preface() {
  const std::string text = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
  return {text.begin(), text.end()};
}

Octets Frame(std::uint8_t type, std::uint8_t flags, std::uint8_t stream, const Octets& payload) {
  const std::size_t n = payload.size();
  return Octets{static_cast<std::uint8_t>(n >> 16),
                static_cast<std::uint8_t>(n >> 8),
                static_cast<std::uint8_t>(n),
                type,
                flags,
                0,
                0,
                0,
                stream} +
         payload;
}

// The five bytes before a message of `length` bytes.
Octets Prefix(std::uint32_t length) {
  return {0, static_cast<std::uint8_t>(length >> 24), static_cast<std::uint8_t>(length >> 16),
          static_cast<std::uint8_t>(length >> 8), static_cast<std::uint8_t>(length)};
}

Octets Open(std::uint8_t stream) { return Frame(kHeaders, kEndHeaders, stream, Octets(20, 'h')); }

// Lengths of the messages of stream 1 as gRPC would read them.
std::vector<std::uint32_t> Messages(const Octets& connection) {
  Octets data;
  for (std::size_t at = Preface().size(); at + 9 <= connection.size();) {
    const std::size_t size = static_cast<std::size_t>(connection[at]) << 16 |
                             static_cast<std::size_t>(connection[at + 1]) << 8 | connection[at + 2];
    if (connection[at + 3] == kData && connection[at + 8] == 1) {
      data.insert(data.end(), connection.begin() + static_cast<std::ptrdiff_t>(at + 9),
                  connection.begin() + static_cast<std::ptrdiff_t>(at + 9 + size));
    }
    at += 9 + size;
  }
  std::vector<std::uint32_t> lengths;
  for (std::size_t at = 0; at + 5 <= data.size(); at += 5 + lengths.back()) {
    lengths.push_back(static_cast<std::uint32_t>(data[at + 1]) << 24 |
                      static_cast<std::uint32_t>(data[at + 2]) << 16 |
                      static_cast<std::uint32_t>(data[at + 3]) << 8 | data[at + 4]);
  }
  return lengths;
}

constexpr std::uint32_t kLargest = 0x00012345;

struct Guarded {
  Http2Guard guard{{.largest_message = Bytes::Of(kLargest), .most_streams = 3}};
  bool Client(Octets& bytes, std::size_t piece = 1 << 20) {
    for (std::size_t at = 0; at < bytes.size(); at += piece) {
      const std::size_t size = std::min(piece, bytes.size() - at);
      if (!guard.FromClient(std::span(bytes).subspan(at, size))) return false;
    }
    return true;
  }
  bool Client(Octets&& bytes) { return Client(bytes); }
  bool Server(Octets bytes) { return guard.FromServer(bytes); }
};

TEST(Http2GuardTest, PassesOnWhatIsWithinTheLimitInPiecesOfAnySize) {
  const Octets message(1000, 'x');
  const Octets sent = Preface() + Frame(4, 0, 0, {}) + Open(1) +
                      Frame(kData, 0, 1, Prefix(1000) + message) +
                      Frame(kPing, 0, 0, Octets(8, 1)) + Frame(kData, 0, 1, Prefix(0)) +
                      Frame(kData, kEndStream, 1, Prefix(kLargest) + message);
  for (const std::size_t piece : {1, 2, 3, 7, 100, 100'000}) {
    Guarded guarded;
    Octets passed = sent;
    EXPECT_TRUE(guarded.Client(passed, piece));
    EXPECT_EQ(passed, sent) << "in pieces of " << piece;
  }
}

TEST(Http2GuardTest, CutsAMessageBeyondTheLimitToAMarkWithItsLength) {
  Guarded guarded;
  Octets passed = Preface() + Open(1) + Frame(kData, 0, 1, Prefix(0x04000000) + Octets(100, 'x'));
  ASSERT_TRUE(guarded.Client(passed));
  ASSERT_FALSE(Messages(passed).empty());
  EXPECT_EQ(Messages(passed)[0], kCutSize);
  const Octets message(passed.end() - 100, passed.end());
  EXPECT_EQ(CutMessageLength(message), Bytes::Of(0x04000000));
}

TEST(Http2GuardTest, NoLengthBeyondTheLimitPassesHoweverItIsCutIntoPiecesAndFrames) {
  for (const std::uint32_t length : {kLargest + 1, kLargest + 0x100, 0x00020000u, 0x01000000u,
                                     0x04000000u, 0x7fffffffu, 0xffffffffu}) {
    for (std::size_t cut = 1; cut < 5; ++cut) {
      const Octets prefix = Prefix(length);
      const Octets first(prefix.begin(), prefix.begin() + static_cast<std::ptrdiff_t>(cut));
      const Octets rest(prefix.begin() + static_cast<std::ptrdiff_t>(cut), prefix.end());
      Guarded guarded;
      Octets passed = Preface() + Open(1) + Frame(kData, 0, 1, first) +
                      Frame(kPing, 0, 0, Octets(8, 1)) +
                      Frame(kData, 0, 1, rest + Octets(40'000, 0xff));
      ASSERT_TRUE(guarded.Client(passed, cut));
      for (const std::uint32_t passed_length : Messages(passed)) {
        EXPECT_LE(passed_length, kLargest) << length << " cut after " << cut;
      }
    }
  }
}

TEST(Http2GuardTest, WhatFollowsACutMessageIsReadAsMessagesAgain) {
  Guarded guarded;
  Octets payload(200, 0);
  const Octets hidden = Prefix(0x05000000);
  std::ranges::copy(hidden, payload.begin() + static_cast<std::ptrdiff_t>(kCutSize));
  Octets passed = Preface() + Open(1) + Frame(kData, 0, 1, Prefix(0x04000000) + payload);
  ASSERT_TRUE(guarded.Client(passed));
  for (const std::uint32_t length : Messages(passed)) EXPECT_LE(length, kLargest);
}

TEST(Http2GuardTest, RefusesWhatIsNotHttp2) {
  const std::string request = "GET / HTTP/1.1\r\nHost: x\r\n\r\n";
  EXPECT_FALSE(Guarded().Client(Octets(request.begin(), request.end())));
  Octets tls = {22, 3, 1, 2, 0};
  EXPECT_FALSE(Guarded().Client(tls));
}

TEST(Http2GuardTest, RefusesPaddingBecauseItHidesWhereMessagesBegin) {
  constexpr std::uint8_t kPadded = 8;
  EXPECT_FALSE(Guarded().Client(Preface() + Open(1) + Frame(kData, kPadded, 1, Octets(20, 1))));
}

TEST(Http2GuardTest, CountsOpenStreamsAndRefusesTooMany) {
  Guarded guarded;
  ASSERT_TRUE(guarded.Client(Preface()));
  EXPECT_FALSE(guarded.guard.established());
  ASSERT_TRUE(guarded.Client(Open(1) + Open(3) + Open(5)));
  EXPECT_TRUE(guarded.guard.established());
  EXPECT_FALSE(guarded.guard.idle());
  ASSERT_TRUE(guarded.Server(Frame(kHeaders, kEndHeaders, 1, Octets(9, 'h'))));
  ASSERT_TRUE(guarded.Server(Frame(kHeaders, kEndHeaders | kEndStream, 1, Octets(9, 't'))));
  ASSERT_TRUE(guarded.Client(Frame(kReset, 0, 3, Octets(4, 0))));
  EXPECT_EQ(guarded.guard.TakeResets(), 1u);
  ASSERT_TRUE(guarded.Client(Open(7) + Open(9)));
  EXPECT_FALSE(guarded.Client(Open(11)));
}

TEST(Http2GuardTest, CountsACallThatIsResetUntilSomebodyAsks) {
  Guarded guarded;
  guarded.guard.Allow(2);
  const auto reset = [](std::uint8_t stream) { return Frame(kReset, 0, stream, Octets(4, 0)); };
  ASSERT_TRUE(guarded.Client(Preface() + Open(1) + reset(1) + Open(3) + reset(3) + Open(5)));
  EXPECT_EQ(guarded.guard.streams(), 0u) << "the third call is refused";
  EXPECT_EQ(guarded.guard.TakeResets(), 2u);
  EXPECT_EQ(guarded.guard.TakeResets(), 0u);
  ASSERT_TRUE(guarded.Client(Open(7)));
  EXPECT_EQ(guarded.guard.streams(), 1u);
}

TEST(Http2GuardTest, ClosesOnOneWhoGivesUpFarMoreCallsThanItLetsEnd) {
  Guarded guarded;
  ASSERT_TRUE(guarded.Client(Preface()));
  const auto give_up = [&guarded](std::uint8_t stream) {
    guarded.guard.TakeResets();
    return guarded.Client(Open(stream) + Frame(kReset, 0, stream, Octets(4, 0)));
  };
  std::uint8_t stream = 1;
  for (int i = 0; i < 64; ++i, stream += 2) ASSERT_TRUE(give_up(stream)) << i;
  EXPECT_FALSE(give_up(stream));
}

TEST(Http2GuardTest, ShowsGrpcARefusedCallWithANumberThatItIgnores) {
  for (const std::size_t piece : {1, 5, 100'000}) {
    Guarded guarded;
    guarded.guard.Allow(1);
    const Octets refused = Frame(kHeaders, 0, 3, Octets(20, 'h'));
    const Octets rest = Frame(kContinuation, kEndHeaders, 3, Octets(5, 'c')) +
                        Frame(kData, kEndStream, 3, Prefix(0));
    Octets passed = Preface() + Open(1) + refused + rest;
    ASSERT_TRUE(guarded.Client(passed, piece));
    EXPECT_EQ(passed, Preface() + Open(1) + Frame(kHeaders, 0, 2, Octets(20, 'h')) +
                          Frame(kContinuation, kEndHeaders, 2, Octets(5, 'c')) +
                          Frame(kData, kEndStream, 3, Prefix(0)));
    EXPECT_EQ(guarded.guard.streams(), 1u);
  }
}

TEST(Http2GuardTest, TellsTheClientOfRefusalsBetweenTwoFramesOfTheServer) {
  Guarded guarded;
  guarded.guard.Allow(0);
  ASSERT_TRUE(guarded.Client(Preface() + Open(1)));
  EXPECT_EQ(guarded.guard.TakeRefusals(), Octets()) << "settings come first";
  const Octets settings = Frame(4, 0, 0, Octets(6, 0));
  ASSERT_TRUE(guarded.Server(Octets(settings.begin(), settings.begin() + 4)));
  EXPECT_EQ(guarded.guard.TakeRefusals(), Octets());
  EXPECT_EQ(guarded.guard.ServerPiece(1000), 5u);
  ASSERT_TRUE(guarded.Server(Octets(settings.begin() + 4, settings.begin() + 9)));
  EXPECT_EQ(guarded.guard.ServerPiece(1000), 6u);
  ASSERT_TRUE(guarded.Server(Octets(settings.begin() + 9, settings.end())));
  EXPECT_EQ(guarded.guard.TakeRefusals(), Frame(kReset, 0, 1, {0, 0, 0, 7}));
  EXPECT_EQ(guarded.guard.TakeRefusals(), Octets());
  EXPECT_EQ(guarded.guard.ServerPiece(1000), 1000u);
}

TEST(Http2GuardTest, ClosesOnOneWhoseRefusalsPileUp) {
  Guarded guarded;
  guarded.guard.Allow(0);
  ASSERT_TRUE(guarded.Client(Preface() + Open(1) + Open(3) + Open(5)));
  EXPECT_FALSE(guarded.Client(Open(7)));
}

TEST(Http2GuardTest, CountsMessagesThatPassTheWindowUntilTheyAreWholeOrOver) {
  Http2Guard guard({.window = Bytes::Of(10)});
  Octets begin = Preface() + Open(1) + Open(3) + Open(5);
  ASSERT_TRUE(guard.FromClient(begin));
  const auto send = [&guard](std::uint8_t stream, const Octets& data) {
    Octets frame = Frame(kData, 0, stream, data);
    return guard.FromClient(frame);
  };
  ASSERT_TRUE(send(1, Prefix(20) + Octets(10, 'm')));
  EXPECT_EQ(guard.large_messages(), 0u);
  for (const std::uint8_t stream : Octets{1, 3, 5}) {
    ASSERT_TRUE(stream == 1 ? send(1, Octets(1, 'm')) : send(stream, Prefix(20) + Octets(11, 'm')));
  }
  EXPECT_EQ(guard.large_messages(), 3u);
  ASSERT_TRUE(send(1, Octets(9, 'm')));  // Whole.
  EXPECT_EQ(guard.large_messages(), 2u);
  Octets reset = Frame(kReset, 0, 3, Octets(4, 0));
  ASSERT_TRUE(guard.FromClient(reset));
  Octets trailers = Frame(kHeaders, kEndStream, 5, Octets(3, 't'));
  ASSERT_TRUE(guard.FromServer(trailers));
  EXPECT_EQ(guard.large_messages(), 0u);
}

TEST(Http2GuardTest, IsIdleWhenEveryStreamHasEnded) {
  Guarded guarded;
  ASSERT_TRUE(guarded.Client(Preface() + Open(1)));
  ASSERT_TRUE(guarded.Server(Frame(kReset, 0, 1, Octets(4, 0))));
  EXPECT_TRUE(guarded.guard.idle());
  EXPECT_TRUE(guarded.guard.called());
}

}  // namespace
}  // namespace sluice
