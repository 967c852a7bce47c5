#include "client/file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <system_error>

#include "absl/strings/str_format.h"

namespace sluice {
namespace {

class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}
  ~Descriptor() {
    if (fd_ >= 0) close(fd_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int get() const { return fd_; }
  int Close() {
    const int result = close(fd_);
    fd_ = -1;
    return result;
  }

 private:
  int fd_;
};

absl::Status OpenError(const std::filesystem::path& path, int error) {
  const std::string text = absl::StrFormat("%s: %s", path.string(), std::strerror(error));
  if (error == ENOENT || error == ENOTDIR) return absl::NotFoundError(text);
  if (error == EACCES || error == EPERM) return absl::PermissionDeniedError(text);
  return absl::InternalError(text);
}

absl::Status WriteAll(int fd, std::string_view contents, const std::filesystem::path& path) {
  while (!contents.empty()) {
    const ssize_t written = write(fd, contents.data(), contents.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) {
      return absl::InternalError(absl::StrFormat("%s: cannot be written: %s", path.string(),
                                                 std::strerror(written < 0 ? errno : EIO)));
    }
    contents.remove_prefix(static_cast<std::size_t>(written));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::string> ReadFile(const std::filesystem::path& path, Bytes limit) {
  const Descriptor file(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (file.get() < 0) return OpenError(path, errno);
  struct stat about = {};
  if (fstat(file.get(), &about) != 0) return OpenError(path, errno);
  if (!S_ISREG(about.st_mode)) {
    return absl::InvalidArgumentError(
        absl::StrFormat("%s: got %s, want a regular file", path.string(),
                        S_ISDIR(about.st_mode) ? "a folder" : "a device, pipe or socket"));
  }
  const auto size = static_cast<std::uint64_t>(about.st_size);
  if (Bytes::Of(size) > limit) {
    return absl::InvalidArgumentError(
        absl::StrFormat("%s: got %d bytes, want at most %d", path.string(), size, limit.count()));
  }
  std::string contents(size, '\0');
  std::size_t done = 0;
  while (done < contents.size()) {
    const ssize_t got = read(file.get(), contents.data() + done, contents.size() - done);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) {
      return absl::DataLossError(absl::StrFormat(
          "%s: got %d of %d bytes: %s", path.string(), done, size,
          got < 0 ? std::strerror(errno) : "the file became shorter while it was read"));
    }
    done += static_cast<std::size_t>(got);
  }
  return contents;
}

absl::Status WriteFile(const std::filesystem::path& path, std::string_view contents) {
  std::filesystem::path temporary = path;
  temporary += absl::StrFormat(".%d.part", getpid());
  absl::Status status;
  {
    Descriptor file(open(temporary.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666));
    if (file.get() < 0) {
      return absl::InternalError(
          absl::StrFormat("%s: cannot be written: %s", path.string(), std::strerror(errno)));
    }
    status = WriteAll(file.get(), contents, path);
    if (file.Close() != 0 && status.ok()) {
      status = absl::InternalError(
          absl::StrFormat("%s: cannot be written: %s", path.string(), std::strerror(errno)));
    }
  }
  if (status.ok() && std::rename(temporary.c_str(), path.c_str()) != 0) {
    status = absl::InternalError(
        absl::StrFormat("%s: cannot be written: %s", path.string(), std::strerror(errno)));
  }
  if (!status.ok()) unlink(temporary.c_str());
  return status;
}

absl::Status MakeFolder(const std::filesystem::path& path) {
  std::error_code error;
  std::filesystem::create_directories(path, error);
  if (error) {
    return absl::InternalError(
        absl::StrFormat("%s: cannot be made: %s", path.string(), error.message()));
  }
  return absl::OkStatus();
}

}  // namespace sluice
