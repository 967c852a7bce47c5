// server/listen_socket.h
//
// Sockets that wait for connections.

#ifndef SLUICE_SERVER_LISTEN_SOCKET_H_
#define SLUICE_SERVER_LISTEN_SOCKET_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace sluice {

// A descriptor, closed with it.
class OwnedFd {
 public:
  explicit OwnedFd(int fd = -1) : fd_(fd) {}
  ~OwnedFd();
  OwnedFd(OwnedFd&& other) noexcept : fd_(other.Release()) {}
  OwnedFd& operator=(OwnedFd&& other) noexcept;
  int get() const { return fd_; }
  int Release();

 private:
  int fd_;
};

struct ListenSockets {
  std::vector<OwnedFd> sockets;  // Several when a host's name has several addresses; non-blocking.
  int port = 0;                  // As bound; 0 for a Unix socket.
};

// Listens on "HOST:PORT", "[IPV6]:PORT" or "unix:/PATH"; port 0 takes a free one.
// Fails: UNAVAILABLE, the address cannot be bound, named with the reason.
absl::StatusOr<ListenSockets> ListenOn(const std::string& address);

}  // namespace sluice

#endif  // SLUICE_SERVER_LISTEN_SOCKET_H_
