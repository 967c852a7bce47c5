// server/listen_address.h
//
// Where the daemon listens: "HOST:PORT", "[IPV6]:PORT" or "unix:/PATH".

#ifndef SLUICE_SERVER_LISTEN_ADDRESS_H_
#define SLUICE_SERVER_LISTEN_ADDRESS_H_

#include <optional>
#include <string>
#include <string_view>

#include "absl/status/status.h"

namespace sluice {

// The file of a "unix:" address; none for others.
std::optional<std::string> SocketPath(std::string_view address);

// Makes way for a Unix socket: removes the file that a daemon left behind when nobody answers it.
// Fails: UNAVAILABLE, somebody answers, or the path is something else than a socket, or too long.
absl::Status ClearSocketPath(const std::string& path);

// Why `address` cannot be bound, by trying: gRPC does not tell.
std::string BindFailure(const std::string& address);

// `address` with the port as bound.
std::string WithPort(const std::string& address, int port);

}  // namespace sluice

#endif  // SLUICE_SERVER_LISTEN_ADDRESS_H_
