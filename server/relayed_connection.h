// server/relayed_connection.h
//
// One client's connection and gRPC's end of it; see front_door.h.

#ifndef SLUICE_SERVER_RELAYED_CONNECTION_H_
#define SLUICE_SERVER_RELAYED_CONNECTION_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/clock.h"
#include "server/http2_guard.h"
#include "server/listen_socket.h"

namespace sluice {

// Threads: one at a time. Both sockets must not block.
class RelayedConnection {
 public:
  // Without `http2` the bytes mean nothing here.
  RelayedConnection(OwnedFd client, OwnedFd server, std::optional<Http2Guard::Limits> http2,
                    Instant now);

  // What ended the connection; both sockets may be closed then.
  enum class State { kOpen, kEnded, kNotHttp2 };
  // Passes on what can be passed on, in pieces of the size of `buffer`, and some at most. Calls
  // beyond `most_calls` open ones are refused.
  State Relay(std::span<std::uint8_t> buffer, Instant now, std::size_t most_calls);

  // The events of epoll to wait for; none means that not even a broken connection is of interest.
  std::uint32_t client_events() const;
  std::uint32_t server_events() const;
  int client_fd() const { return client_.get(); }
  int server_fd() const { return server_.get(); }

  Instant begin() const { return begin_; }
  Instant last_bytes() const { return last_bytes_; }
  // A stream has been opened once; no stream is open. Guesses when the bytes mean nothing.
  bool called() const { return !guard_ || guard_->called(); }
  bool idle(Instant now) const;
  std::size_t calls() const { return guard_ ? guard_->streams() : 0; }  // Open, as far as is known.
  // Those that the client has taken back since it was asked last.
  std::size_t TakeResets() { return guard_ ? guard_->TakeResets() : 0; }
  // Messages under way that are larger than a window; none where the bytes mean nothing.
  std::size_t large_messages() const { return guard_ ? guard_->large_messages() : 0; }
  bool established() const { return !guard_ || guard_->established(); }
  // gRPC has closed its end, and the last bytes wait for the client to take them.
  bool closing() const { return to_client_.ended; }

 private:
  struct Lane {
    std::vector<std::uint8_t> rest;  // Bytes that the other side did not take yet.
    bool ended = false;              // No more will come.
    bool blocked() const { return !rest.empty(); }
  };
  enum class Step { kAgain, kWait, kBroken, kNotHttp2 };
  Step Move(int from, int to, Lane& lane, std::span<std::uint8_t> buffer);
  bool TellRefusals();
  static bool Send(int to, std::span<const std::uint8_t> bytes, Lane& lane);

  OwnedFd client_, server_;
  std::optional<Http2Guard> guard_;
  Lane to_server_, to_client_;
  const Instant begin_;
  Instant last_bytes_;
};

}  // namespace sluice

#endif  // SLUICE_SERVER_RELAYED_CONNECTION_H_
