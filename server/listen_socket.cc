#include "server/listen_socket.h"

#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <memory>
#include <string_view>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_format.h"
#include "server/listen_address.h"

namespace sluice {
namespace {

constexpr int kBacklog = 256;

absl::Status NotBound(const std::string& address, std::string_view reason) {
  return absl::UnavailableError(absl::StrFormat("cannot listen on %s: %s", address, reason));
}

// An errno, or 0.
int Bind(const OwnedFd& socket, const sockaddr* address, socklen_t size) {
  if (socket.get() < 0) return errno;
  if (address->sa_family != AF_UNIX) {
    const int on = 1;
    setsockopt(socket.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
    setsockopt(socket.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));  // Inherited.
  }
  if (bind(socket.get(), address, size) != 0) return errno;
  return listen(socket.get(), kBacklog) == 0 ? 0 : errno;
}

OwnedFd Socket(int family) {
  return OwnedFd(socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
}

int PortOf(const OwnedFd& socket) {
  sockaddr_storage bound{};
  socklen_t size = sizeof(bound);
  if (getsockname(socket.get(), reinterpret_cast<sockaddr*>(&bound), &size) != 0) return 0;
  return ntohs(bound.ss_family == AF_INET6 ? reinterpret_cast<sockaddr_in6*>(&bound)->sin6_port
                                           : reinterpret_cast<sockaddr_in*>(&bound)->sin_port);
}

void SetPort(sockaddr& address, int port) {
  const in_port_t value = htons(static_cast<in_port_t>(port));
  if (address.sa_family == AF_INET6) {
    reinterpret_cast<sockaddr_in6&>(address).sin6_port = value;
  } else {
    reinterpret_cast<sockaddr_in&>(address).sin_port = value;
  }
}

absl::StatusOr<ListenSockets> ListenOnTcp(const std::string& address) {
  const std::size_t colon = address.rfind(':');
  if (colon == std::string::npos) return NotBound(address, "it has no port");
  std::string host = address.substr(0, colon);
  if (host.size() >= 2 && host.front() == '[' && host.back() == ']') {
    host = host.substr(1, host.size() - 2);
  }
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_PASSIVE | AI_NUMERICSERV;
  addrinfo* found = nullptr;
  const int error = getaddrinfo(host.c_str(), address.c_str() + colon + 1, &hints, &found);
  if (error != 0) return NotBound(address, gai_strerror(error));
  const std::unique_ptr<addrinfo, void (*)(addrinfo*)> addresses(found, freeaddrinfo);
  ListenSockets result;
  for (const addrinfo* each = found; each != nullptr; each = each->ai_next) {
    if (result.port != 0) SetPort(*each->ai_addr, result.port);
    OwnedFd socket = Socket(each->ai_family);
    if (const int failed = Bind(socket, each->ai_addr, each->ai_addrlen); failed != 0) {
      // A machine without IPv6 still resolves names to it.
      if (failed == EAFNOSUPPORT || failed == EADDRNOTAVAIL) {
        if (each->ai_next != nullptr || !result.sockets.empty()) continue;
      }
      return NotBound(address, std::strerror(failed));
    }
    result.port = PortOf(socket);
    result.sockets.push_back(std::move(socket));
  }
  return result;
}

}  // namespace

OwnedFd::~OwnedFd() {
  if (fd_ >= 0) close(fd_);
}

OwnedFd& OwnedFd::operator=(OwnedFd&& other) noexcept {
  if (this == &other) return *this;
  if (fd_ >= 0) close(fd_);
  fd_ = other.Release();
  return *this;
}

int OwnedFd::Release() { return std::exchange(fd_, -1); }

absl::StatusOr<ListenSockets> ListenOn(const std::string& address) {
  const auto path = SocketPath(address);
  if (!path) return ListenOnTcp(address);
  sockaddr_un name{};
  name.sun_family = AF_UNIX;
  path->copy(name.sun_path, sizeof(name.sun_path) - 1);
  ListenSockets result;
  result.sockets.push_back(Socket(AF_UNIX));
  const int failed =
      Bind(result.sockets.back(), reinterpret_cast<const sockaddr*>(&name), sizeof(name));
  if (failed != 0) return NotBound(address, std::strerror(failed));
  return result;
}

}  // namespace sluice
