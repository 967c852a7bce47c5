// server/front_door.h
//
// Where connections come in. gRPC has no limit on their number and cannot be told what a peer sends
// before it has taken it; so this thread accepts them, follows what they send (http2_guard.h), and
// passes the bytes on over a socket pair:
//
//   client <--socket--> front door <--socket pair--> gRPC
//
// Bytes are read only when the other side has taken the last ones, so a connection holds one piece
// each way at most, and a peer that does not read is slowed by the kernel.

#ifndef SLUICE_SERVER_FRONT_DOOR_H_
#define SLUICE_SERVER_FRONT_DOOR_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "base/clock.h"
#include "server/http2_guard.h"
#include "server/listen_socket.h"

namespace sluice {

// Whether a client came over a Unix socket. gRPC takes the front door for the peer, whose end of
// the pair therefore has a name: "unix-abstract:sluice.PROCESS.NUMBER.unix", or ".tcp".
bool CameOverUnixSocket(std::string_view grpc_peer);

// The connection's NUMBER there. Fails: nullopt, no such name.
std::optional<std::uint64_t> ConnectionNumber(std::string_view grpc_peer);

// Threads: callable from several at once.
class FrontDoor {
 public:
  struct Listener {
    std::vector<OwnedFd> sockets;
    bool tcp = false;                      // Not a Unix socket.
    bool encrypted = false;                // Bytes that mean nothing here: passed on as they are.
    std::function<void(OwnedFd)> deliver;  // Gets gRPC's end of a pair; called on the one thread.
  };
  struct Limits {
    std::size_t connections = 256;
    std::size_t calls = 512;  // Open on all connections that are not encrypted; more are refused.
    Duration handshake = std::chrono::seconds(10);  // Until the client's first frame.
    // A call that its client gave up counts for one to two of these more: gRPC needs a while to
    // end it.
    Duration giving_up = std::chrono::milliseconds(50);
    Http2Guard::Limits http2 = {};
    // Whether a connection may have a message under way that is larger than `http2.window`; none
    // may have two. Called on the one thread. One that has but may not is closed.
    std::function<bool(std::uint64_t connection)> may_receive = [](std::uint64_t) { return true; };
  };
  struct Counts {
    std::atomic<std::int64_t> open{0};
    std::atomic<std::uint64_t> accepted{0};
    std::atomic<std::uint64_t> refused{0};  // Too many, too slow, no HTTP/2, large messages.
  };

  // `tick` is called on the thread at least every second while there are connections, and ten
  // times a second as long as it answers true.
  // Owns: `counts` must outlive this. Fails: UNAVAILABLE, the kernel gives no descriptors.
  static absl::StatusOr<std::unique_ptr<FrontDoor>> Open(Limits limits,
                                                         std::vector<Listener> listeners,
                                                         std::function<bool()> tick,
                                                         Counts& counts);
  // Cuts every connection off.
  ~FrontDoor();

  // Closes the listening sockets; connections go on.
  void StopAccepting();
  // Waits until gRPC has closed every connection and the last bytes have gone out, or `until`.
  void Drain(Instant until);

 private:
  class Impl;
  explicit FrontDoor(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace sluice

#endif  // SLUICE_SERVER_FRONT_DOOR_H_
