#include "server/listen_address.h"

#include <fcntl.h>
#include <grp.h>
#include <netdb.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <limits>
#include <vector>

#include "absl/strings/str_format.h"
#include "server/setting.h"

namespace sluice {
namespace {

constexpr std::string_view kUnix = "unix:";

class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}
  ~Descriptor() {
    if (fd_ >= 0) close(fd_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int fd() const { return fd_; }

 private:
  const int fd_;
};

class Socket : public Descriptor {
 public:
  Socket(int family, int type) : Descriptor(socket(family, type | SOCK_CLOEXEC, 0)) {}
};

std::string ErrnoText(int error) { return std::strerror(error); }

// Requires: the path fits.
sockaddr_un UnixAddress(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  path.copy(address.sun_path, sizeof(address.sun_path) - 1);
  return address;
}

std::string TryBind(int family, const sockaddr* address, socklen_t size) {
  const Socket socket(family, SOCK_STREAM);
  if (socket.fd() < 0) return ErrnoText(errno);
  if (family != AF_UNIX) {
    const int on = 1;
    setsockopt(socket.fd(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
  }
  if (bind(socket.fd(), address, size) != 0) return ErrnoText(errno);
  if (listen(socket.fd(), 1) != 0) return ErrnoText(errno);
  return "";
}

std::string TryBindTcp(const std::string& address) {
  const std::size_t colon = address.rfind(':');
  if (colon == std::string::npos) return "it has no port";
  std::string host = address.substr(0, colon);
  if (host.size() >= 2 && host.front() == '[' && host.back() == ']') {
    host = host.substr(1, host.size() - 2);
  }
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_PASSIVE;
  addrinfo* found = nullptr;
  const int error = getaddrinfo(host.c_str(), address.c_str() + colon + 1, &hints, &found);
  if (error != 0) return gai_strerror(error);
  std::string reason;
  for (const addrinfo* each = found; each != nullptr && reason.empty(); each = each->ai_next) {
    reason = TryBind(each->ai_family, each->ai_addr, each->ai_addrlen);
  }
  freeaddrinfo(found);
  return reason;
}

}  // namespace

std::optional<std::string> SocketPath(std::string_view address) {
  if (!address.starts_with(kUnix)) return std::nullopt;
  return std::string(address.substr(kUnix.size()));
}

absl::Status ClearSocketPath(const std::string& path) {
  const sockaddr_un address = UnixAddress(path);
  if (path.empty() || path.size() >= sizeof(address.sun_path)) {
    return absl::UnavailableError(absl::StrFormat("unix:%s: got a path of %d bytes, want 1 to %d",
                                                  path, path.size(), sizeof(address.sun_path) - 1));
  }
  struct stat status {};
  if (lstat(path.c_str(), &status) != 0) return absl::OkStatus();  // Bind says what is wrong.
  if (!S_ISSOCK(status.st_mode)) {
    return absl::UnavailableError(
        absl::StrFormat("unix:%s: there is a file that is not a socket", path));
  }
  const Socket probe(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK);
  if (probe.fd() < 0) {
    return absl::UnavailableError(absl::StrFormat("unix:%s: %s", path, ErrnoText(errno)));
  }
  const auto* generic = reinterpret_cast<const sockaddr*>(&address);
  // EAGAIN: its backlog is full, so somebody listens.
  if (connect(probe.fd(), generic, sizeof(address)) == 0 || errno == EAGAIN) {
    return absl::UnavailableError(absl::StrFormat("unix:%s: another process answers there", path));
  }
  if (errno != ECONNREFUSED) {
    return absl::UnavailableError(absl::StrFormat("unix:%s: %s", path, ErrnoText(errno)));
  }
  if (unlink(path.c_str()) != 0 && errno != ENOENT) {
    return absl::UnavailableError(
        absl::StrFormat("unix:%s: cannot remove the old socket: %s", path, ErrnoText(errno)));
  }
  return absl::OkStatus();
}

absl::StatusOr<SocketOwner> ResolveSocketAccess(const SocketAccess& access) {
  SocketOwner owner{.mode = access.mode, .group = {}};
  if (!access.group) return owner;
  if (const std::optional<std::int64_t> number = ParseInteger(*access.group)) {
    if (*number >= 0 && *number < std::numeric_limits<gid_t>::max()) {
      owner.group = static_cast<gid_t>(*number);
      return owner;
    }
  }
  group entry{};
  group* found = nullptr;
  std::vector<char> text(64 * 1024);  // Names of members, of which we want none.
  const int error = getgrnam_r(access.group->c_str(), &entry, text.data(), text.size(), &found);
  if (found == nullptr) {
    return absl::InvalidArgumentError(
        absl::StrFormat("socket.group: got \"%s\" (%s), want a group of this machine",
                        *access.group, error == 0 ? "there is none" : ErrnoText(error)));
  }
  owner.group = found->gr_gid;
  return owner;
}

absl::Status OpenSocketTo(const std::string& path, const SocketOwner& owner) {
  const auto failed = [&path](std::string_view what, int error) {
    return absl::UnavailableError(
        absl::StrFormat("unix:%s: cannot %s: %s", path, what, ErrnoText(error)));
  };
  // A handle of the socket itself, so that no other file gets its rights.
  const Descriptor handle(open(path.c_str(), O_PATH | O_NOFOLLOW | O_CLOEXEC));
  struct stat info {};
  if (handle.fd() < 0 || fstat(handle.fd(), &info) != 0) return failed("open it", errno);
  if (!S_ISSOCK(info.st_mode)) return failed("open it", ENOTSOCK);
  if (owner.group &&
      fchownat(handle.fd(), "", static_cast<uid_t>(-1), *owner.group, AT_EMPTY_PATH) != 0) {
    return failed(absl::StrFormat("give it to group %d", *owner.group), errno);
  }
  if (chmod(absl::StrFormat("/proc/self/fd/%d", handle.fd()).c_str(), owner.mode) != 0) {
    return failed("set its mode", errno);
  }
  return absl::OkStatus();
}

std::string BindFailure(const std::string& address) {
  std::string reason;
  if (const auto path = SocketPath(address)) {
    const sockaddr_un name = UnixAddress(*path);
    reason = TryBind(AF_UNIX, reinterpret_cast<const sockaddr*>(&name), sizeof(name));
    if (reason.empty()) unlink(path->c_str());
  } else {
    reason = TryBindTcp(address);
  }
  return reason.empty() ? "it cannot be bound" : reason;
}

std::string WithPort(const std::string& address, int port) {
  if (SocketPath(address)) return address;
  const std::size_t colon = address.rfind(':');
  return absl::StrFormat("%s:%d", address.substr(0, colon), port);
}

}  // namespace sluice
