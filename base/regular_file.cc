#include "base/regular_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string_view>
#include <system_error>

#include "absl/status/status.h"
#include "absl/strings/str_format.h"
#include "base/status_macros.h"

namespace sluice {
namespace {

namespace fs = std::filesystem;

class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}
  ~Descriptor() {
    if (fd_ >= 0) ::close(fd_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int get() const { return fd_; }

 private:
  const int fd_;
};

absl::Status CannotOpen(const fs::path& path, int error) {
  const std::string message =
      absl::StrFormat("cannot open \"%s\": %s", path.native(), std::strerror(error));
  if (error == ENOENT || error == ENOTDIR) return absl::NotFoundError(message);
  return absl::InvalidArgumentError(message);
}

std::string_view KindOf(mode_t mode) {
  if (S_ISDIR(mode)) return "a folder";
  if (S_ISFIFO(mode)) return "a named pipe";
  if (S_ISSOCK(mode)) return "a socket";
  return "a device";
}

}  // namespace

bool LiesIn(const fs::path& path, const fs::path& folder) {
  const auto [in_folder, in_path] =
      std::mismatch(folder.begin(), folder.end(), path.begin(), path.end());
  return in_folder == folder.end() || (in_folder->empty() && std::next(in_folder) == folder.end());
}

absl::StatusOr<RegularFile> OpenRegularFile(const fs::path& path,
                                            const std::optional<fs::path>& folder) {
  // The handle names a file without opening it: a device or a pipe notices nothing. Its entry in
  // /proc tells where it lies and opens that file, whatever the path leads to by then.
  const Descriptor handle(::open(path.c_str(), O_PATH | O_CLOEXEC));
  if (handle.get() < 0) return CannotOpen(path, errno);
  struct stat info {};
  if (::fstat(handle.get(), &info) != 0) return CannotOpen(path, errno);
  if (!S_ISREG(info.st_mode)) {
    return absl::InvalidArgumentError(absl::StrFormat("\"%s\" is not a regular file but %s",
                                                      path.native(), KindOf(info.st_mode)));
  }
  const std::string entry = absl::StrFormat("/proc/self/fd/%d", handle.get());
  RegularFile file;
  std::error_code error;
  file.path = fs::read_symlink(entry, error);
  if (error) {
    return absl::InvalidArgumentError(absl::StrFormat("cannot tell where \"%s\" lies: %s: %s",
                                                      path.native(), entry, error.message()));
  }
  if (folder && !LiesIn(file.path, *folder)) {
    return absl::InvalidArgumentError(
        absl::StrFormat("\"%s\" leads to \"%s\", outside the folder \"%s\"", path.native(),
                        file.path.native(), folder->native()));
  }
  file.fd = ::open(entry.c_str(), O_RDONLY | O_CLOEXEC | O_NOCTTY);
  if (file.fd < 0) return CannotOpen(path, errno);
  return file;
}

absl::StatusOr<std::string> ReadSmallFile(const fs::path& path, Bytes most,
                                          const std::optional<fs::path>& folder) {
  SLUICE_ASSIGN_OR_RETURN(const RegularFile file, OpenRegularFile(path, folder));
  const Descriptor descriptor(file.fd);
  std::string text;
  char window[16 * 1024];
  while (true) {
    const ssize_t got = ::read(descriptor.get(), window, sizeof window);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) {
      return absl::InvalidArgumentError(
          absl::StrFormat("cannot read \"%s\": %s", path.native(), std::strerror(errno)));
    }
    if (got == 0) return text;
    text.append(window, static_cast<std::size_t>(got));
    if (Bytes::Of(text.size()) > most) {
      return absl::InvalidArgumentError(absl::StrFormat("\"%s\" is too long, want at most %d bytes",
                                                        path.native(), most.count()));
    }
  }
}

}  // namespace sluice
