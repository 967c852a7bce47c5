// server/listen_address.h
//
// Where the daemon listens: "HOST:PORT", "[IPV6]:PORT" or "unix:/PATH".

#ifndef SLUICE_SERVER_LISTEN_ADDRESS_H_
#define SLUICE_SERVER_LISTEN_ADDRESS_H_

#include <sys/stat.h>
#include <sys/types.h>

#include <optional>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/config.h"

namespace sluice {

// The file of a "unix:" address; none for others.
std::optional<std::string> SocketPath(std::string_view address);

// Makes way for a Unix socket: removes the file that a daemon left behind when nobody answers it.
// Fails: UNAVAILABLE, somebody answers, or the path is something else than a socket, or too long.
absl::Status ClearSocketPath(const std::string& path);

// Who may connect to a Unix socket, with its group looked up.
struct SocketOwner {
  mode_t mode = 0660;
  std::optional<gid_t> group;  // Absent: as it is made.
};
// Fails: INVALID_ARGUMENT, there is no such group.
absl::StatusOr<SocketOwner> ResolveSocketAccess(const SocketAccess& access);

// Gives a socket that was just bound its group and then its mode. Bind it under PrivateUmask, so
// that until then nobody but the process's own user can connect.
// Fails: UNAVAILABLE, the process may not give it to that group, or it is no socket.
absl::Status OpenSocketTo(const std::string& path, const SocketOwner& owner);

// While it lives, files and sockets are made for the process's own user alone.
class PrivateUmask {
 public:
  PrivateUmask() : old_(umask(0177)) {}
  ~PrivateUmask() { umask(old_); }
  PrivateUmask(const PrivateUmask&) = delete;
  PrivateUmask& operator=(const PrivateUmask&) = delete;

 private:
  const mode_t old_;
};

// Why `address` cannot be bound, by trying: gRPC does not tell.
std::string BindFailure(const std::string& address);

// `address` with the port as bound.
std::string WithPort(const std::string& address, int port);

}  // namespace sluice

#endif  // SLUICE_SERVER_LISTEN_ADDRESS_H_
