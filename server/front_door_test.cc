// The front door with real sockets; the test holds gRPC's ends.

#include "server/front_door.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <condition_variable>
#include <cstdlib>
#include <filesystem>
#include <mutex>
#include <optional>
#include <string>

#include "server/receiving_connections.h"

namespace sluice {
namespace {

const std::string kPreface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
const std::string kSettings("\0\0\0\4\0\0\0\0\0", 9);

class FrontDoorTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = testing::TempDir() + "door" + std::string(6, 'X');
    folder_ = mkdtemp(pattern.data());
  }
  void TearDown() override {
    door_.reset();
    std::filesystem::remove_all(folder_);
  }

  void Open(FrontDoor::Limits limits) {
    absl::StatusOr<ListenSockets> listening = ListenOn("unix:" + (folder_ / "s").string());
    ASSERT_TRUE(listening.ok()) << listening.status();
    std::vector<FrontDoor::Listener> listeners;
    listeners.push_back({.sockets = std::move(listening->sockets), .deliver = [this](OwnedFd fd) {
                           const std::lock_guard lock(mutex_);
                           delivered_.push_back(std::move(fd));
                           changed_.notify_all();
                         }});
    auto door = FrontDoor::Open(
        std::move(limits), std::move(listeners), [] { return false; }, counts_);
    ASSERT_TRUE(door.ok()) << door.status();
    door_ = *std::move(door);
  }

  OwnedFd Connect() {
    sockaddr_un name{};
    name.sun_family = AF_UNIX;
    (folder_ / "s").string().copy(name.sun_path, sizeof(name.sun_path) - 1);
    OwnedFd fd(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    EXPECT_EQ(connect(fd.get(), reinterpret_cast<sockaddr*>(&name), sizeof(name)), 0);
    return fd;
  }

  // gRPC's end of the connection that came as number `index`.
  int Delivered(std::size_t index) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return delivered_.size() > index; });
    return delivered_[index].get();
  }

  static void Write(int fd, const std::string& text) {
    ASSERT_EQ(send(fd, text.data(), text.size(), MSG_NOSIGNAL), static_cast<ssize_t>(text.size()));
  }

  // Blocks until `size` bytes have come, or the other side has closed.
  static std::string Read(int fd, std::size_t size) {
    std::string text;
    char buffer[4096];
    while (text.size() < size) {
      pollfd ready{fd, POLLIN, 0};
      poll(&ready, 1, -1);
      const ssize_t got = recv(fd, buffer, std::min(sizeof(buffer), size - text.size()), 0);
      if (got <= 0) break;
      text.append(buffer, static_cast<std::size_t>(got));
    }
    return text;
  }

  // Where one call may be open: a client calls and goes, and another one calls. The number of its
  // stream as gRPC sees it.
  int StreamOfCallAfterOneGivenUp(Duration giving_up) {
    Open({.calls = 1, .giving_up = giving_up});
    const std::string begin = kPreface + kSettings;
    const std::string call("\0\0\1\1\4\0\0\0\1h", 10);
    OwnedFd first = Connect();
    Write(first.get(), begin + call);
    EXPECT_EQ(Read(Delivered(0), begin.size() + 10), begin + call);
    first = OwnedFd();
    EXPECT_EQ(Read(Delivered(0), 1), "");
    const OwnedFd second = Connect();
    Write(second.get(), begin + call);
    return Read(Delivered(1), begin.size() + 10).at(begin.size() + 8);
  }

  std::filesystem::path folder_;
  FrontDoor::Counts counts_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<OwnedFd> delivered_;
  std::unique_ptr<FrontDoor> door_;
};

// A call whose message is larger than the window, on the first connection and then on the second.
TEST_F(FrontDoorTest, LargeMessagesComeOnOneConnectionAtATime) {
  ReceivingConnections receiving;
  receiving.TakeTurn(0);
  Open({.http2 = {.window = Bytes::Of(8)},
        .may_receive = [&](std::uint64_t connection) { return receiving.MayReceive(connection); }});
  const std::string call("\0\0\1\1\4\0\0\0\1h", 10);
  const std::string data("\0\0\x10\0\0\0\0\0\1\0\0\0\0\x40message abc", 25);
  const std::string all = kPreface + kSettings + call + data;
  const OwnedFd first = Connect();
  Write(first.get(), all);
  EXPECT_EQ(Read(Delivered(0), all.size()), all);
  const OwnedFd second = Connect();
  Write(second.get(), all);
  EXPECT_EQ(Read(second.get(), 1), "");
  EXPECT_EQ(counts_.refused.load(), 1u);
  // Its turn has come, and the one before may end what it has begun.
  receiving.TakeTurn(2);
  const OwnedFd third = Connect();
  Write(third.get(), all);
  EXPECT_EQ(Read(Delivered(2), all.size()), all);
  const std::string more("\0\0\1\0\0\0\0\0\1d", 10);
  Write(first.get(), more);
  EXPECT_EQ(Read(Delivered(0), more.size()), more);
  receiving.TakeTurn(3);
  Write(first.get(), more);
  EXPECT_EQ(Read(first.get(), 1), "");
}

TEST(ConnectionNumberTest, IsInThePeersName) {
  EXPECT_EQ(ConnectionNumber("unix-abstract:sluice.123.45.tcp"), 45u);
  EXPECT_EQ(ConnectionNumber("unix-abstract:sluice.1.18446744073709551615.unix"), ~0ull);
  for (const std::string peer : {"", "ipv4:127.0.0.1:80", "a.b", "sluice.1..tcp", "a.1x.tcp",
                                 "a.99999999999999999999999.tcp", "unix:"}) {
    EXPECT_EQ(ConnectionNumber(peer), std::nullopt) << peer;
  }
}

TEST_F(FrontDoorTest, PassesBytesOnBothWaysAndTheEndToo) {
  Open({});
  OwnedFd client = Connect();
  const int server = Delivered(0);
  const std::string sent = kPreface + kSettings;
  Write(client.get(), sent);
  EXPECT_EQ(Read(server, sent.size()), sent);
  Write(server, kSettings);
  EXPECT_EQ(Read(client.get(), kSettings.size()), kSettings);
  client = OwnedFd();
  EXPECT_EQ(Read(server, 1), "");
}

TEST_F(FrontDoorTest, LosesNothingWhenASideDoesNotRead) {
  Open({});
  const OwnedFd client = Connect();
  const int server = Delivered(0);
  Write(client.get(), kPreface);
  // One ping after another until every buffer between is full; then all of them come out.
  std::string ping("\0\0\x08\6\0\0\0\0\0abcdefgh", 17);
  std::size_t sent = 0;
  for (;;) {
    const ssize_t taken = send(client.get(), ping.data() + sent % ping.size(),
                               ping.size() - sent % ping.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (taken > 0) sent += static_cast<std::size_t>(taken);
    pollfd writable{client.get(), POLLOUT, 0};
    if (taken < 0 && poll(&writable, 1, 200) == 0) break;
  }
  const std::string got = Read(server, kPreface.size() + sent);
  ASSERT_EQ(got.size(), kPreface.size() + sent);
  for (std::size_t i = 0; i < sent; ++i) {
    ASSERT_EQ(got[kPreface.size() + i], ping[i % ping.size()]) << "byte " << i;
  }
}

TEST_F(FrontDoorTest, ClosesAConnectionThatDoesNotSpeakHttp2) {
  Open({});
  const OwnedFd client = Connect();
  Write(client.get(), "GET /metrics HTTP/1.1\r\n\r\n");
  EXPECT_EQ(Read(client.get(), 1), "");
  EXPECT_EQ(Read(Delivered(0), 1), "");
  EXPECT_EQ(counts_.refused, 1u);
}

TEST_F(FrontDoorTest, ClosesAConnectionThatDoesNotBeginInTime) {
  Open({.handshake = std::chrono::milliseconds(1)});
  const OwnedFd client = Connect();
  Write(client.get(), kPreface.substr(0, 10));
  EXPECT_EQ(Read(client.get(), 1), "");
}

TEST_F(FrontDoorTest, WhenItIsFullTheOneThatNeverCalledMakesRoom) {
  Open({.connections = 2});
  const std::string call("\0\0\1\1\4\0\0\0\1h", 10);
  const OwnedFd busy = Connect();
  Write(busy.get(), kPreface + kSettings + call);
  EXPECT_EQ(Read(Delivered(0), kPreface.size() + kSettings.size() + call.size()).size(),
            kPreface.size() + kSettings.size() + call.size());
  const OwnedFd silent = Connect();
  Delivered(1);
  const OwnedFd next = Connect();
  EXPECT_EQ(Read(silent.get(), 1), "");
  Write(next.get(), kPreface + kSettings + call);
  EXPECT_EQ(Read(Delivered(2), 10).size(), 10u);
  // All that are left are in use: the next one is refused.
  Read(Delivered(2), kPreface.size() + kSettings.size() + call.size() - 10);
  const OwnedFd refused = Connect();
  EXPECT_EQ(Read(refused.get(), 1), "");
  Write(Delivered(0), kSettings);
  EXPECT_EQ(Read(busy.get(), kSettings.size()), kSettings);
}

TEST_F(FrontDoorTest, CallsBeyondTheNumberOfAllConnectionsAreRefused) {
  Open({.calls = 1});
  const std::string call("\0\0\1\1\4\0\0\0\1h", 10), ignored("\0\0\1\1\4\0\0\0\0h", 10);
  const std::string begin = kPreface + kSettings;
  const OwnedFd first = Connect();
  Write(first.get(), begin + call);
  EXPECT_EQ(Read(Delivered(0), begin.size() + 10), begin + call);
  const OwnedFd second = Connect();
  Write(second.get(), begin + call);
  EXPECT_EQ(Read(Delivered(1), begin.size() + 10), begin + ignored);
  Write(Delivered(1), kSettings);
  const std::string refusal("\0\0\4\3\0\0\0\0\1\0\0\0\7", 13);
  EXPECT_EQ(Read(second.get(), kSettings.size() + 13), kSettings + refusal);
}

TEST_F(FrontDoorTest, ACallWhoseClientHasGoneCountsForAWhile) {
  EXPECT_EQ(StreamOfCallAfterOneGivenUp(std::chrono::hours(1)), 0) << "refused";
}

TEST_F(FrontDoorTest, ACallWhoseClientHasGoneIsForgottenAfterAWhile) {
  EXPECT_EQ(StreamOfCallAfterOneGivenUp(Duration::zero()), 1) << "passed on";
}

TEST_F(FrontDoorTest, DrainingSendsTheLastBytes) {
  Open({});
  const OwnedFd client = Connect();
  Delivered(0);
  Write(Delivered(0), kSettings);
  {
    const std::lock_guard lock(mutex_);
    delivered_.clear();
  }
  door_->StopAccepting();
  door_->Drain(SteadyClock().Now() + std::chrono::seconds(60));
  door_.reset();
  EXPECT_EQ(Read(client.get(), 100), kSettings);
}

}  // namespace
}  // namespace sluice
