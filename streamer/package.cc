#include "streamer/package.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_format.h"
#include "base/status_macros.h"
#include "streamer/checksum.h"
#include "streamer/package_format.h"
#include "streamer/page_memory.h"

namespace sluice {
namespace {

// Reads all of `into` or says how far it came: bytes, or -errno.
std::int64_t ReadFully(int fd, std::size_t offset, std::span<std::byte> into) {
  std::size_t done = 0;
  while (done < into.size()) {
    const ssize_t got =
        ::pread(fd, into.data() + done, into.size() - done, static_cast<off_t>(offset + done));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return -errno;
    if (got == 0) break;
    done += static_cast<std::size_t>(got);
  }
  return static_cast<std::int64_t>(done);
}

// The same message with the path in front.
absl::Status About(const std::filesystem::path& path, const absl::Status& status) {
  return absl::Status(status.code(),
                      absl::StrFormat("package \"%s\": %s", path.native(), status.message()));
}

absl::Status CannotRead(int error) {
  const std::string message = absl::StrFormat("cannot read: %s", std::strerror(error));
  if (error == ENOENT || error == ENOTDIR) return absl::NotFoundError(message);
  if (error == EIO) return absl::DataLossError(message);
  return absl::UnavailableError(message);
}

// Maps and reads the first `size` bytes.
absl::StatusOr<PageMemory> ReadHead(int fd, Bytes size) {
  SLUICE_ASSIGN_OR_RETURN(PageMemory memory, PageMemory::Map(size));
  const std::int64_t got = ReadFully(fd, 0, memory.span());
  if (got < 0) return CannotRead(static_cast<int>(-got));
  if (static_cast<std::size_t>(got) < memory.span().size()) {
    return absl::DataLossError(
        absl::StrFormat("the file has %d bytes, want at least %d", got, memory.span().size()));
  }
  return memory;
}

struct Metadata {
  std::vector<ExtentRecord> extents;
  WeightError weight_error;
};

absl::StatusOr<Metadata> ReadMetadata(int fd, Bytes file_size, const PackageIdentity& identity,
                                      std::span<const Bytes> extent_sizes) {
  SLUICE_ASSIGN_OR_RETURN(const PageMemory first, ReadHead(fd, kPageSize));
  SLUICE_ASSIGN_OR_RETURN(const PackageHeader header, DecodeHeader(first.span(), file_size));
  {
    const Bytes end = LayOutPackage(header.identity_size, 0, 0).data;
    SLUICE_ASSIGN_OR_RETURN(const PageMemory head, ReadHead(fd, end));
    SLUICE_RETURN_IF_ERROR(CheckIdentity(header, head.span(), identity.text));
  }
  if (header.extents != extent_sizes.size()) {
    return absl::FailedPreconditionError(
        absl::StrFormat("it has %d extents, want %d", header.extents, extent_sizes.size()));
  }
  if (header.runs > MostRuns(extent_sizes)) {
    return absl::DataLossError(absl::StrFormat("it has room for %d runs, want at most %d",
                                               header.runs, MostRuns(extent_sizes)));
  }
  const Bytes data = LayOutPackage(header.identity_size, header.extents, header.runs).data;
  SLUICE_ASSIGN_OR_RETURN(const PageMemory metadata, ReadHead(fd, data));
  SLUICE_ASSIGN_OR_RETURN(std::vector<ExtentRecord> records,
                          DecodeTable(header, metadata.span(), extent_sizes));
  const Bytes end = records.empty() ? data : records.back().offset + records.back().stored_pages();
  if (end != file_size) {
    return absl::DataLossError(
        absl::StrFormat("the file has %d bytes, want %d", file_size.count(), end.count()));
  }
  return Metadata{.extents = std::move(records), .weight_error = header.weight_error};
}

// The time of the last use stands in the access time, which the kernel itself seldom sets. Not
// everybody may set it; then it is the time of packing.
void NoteUse(int fd) {
  const timespec times[2] = {{.tv_sec = 0, .tv_nsec = UTIME_NOW},
                             {.tv_sec = 0, .tv_nsec = UTIME_OMIT}};
  (void)::futimens(fd, times);
}

// Locks against removal. A file system without locks has no cleaner that could respect them.
absl::Status MarkUsed(const std::filesystem::path& path, int fd) {
  struct stat info {};
  if (::flock(fd, LOCK_SH | LOCK_NB) != 0 && errno == EWOULDBLOCK) {
    return About(path, absl::AbortedError("another process finishes or removes it"));
  }
  if (::fstat(fd, &info) != 0) return About(path, CannotRead(errno));
  if (info.st_nlink == 0) return About(path, CannotRead(ENOENT));
  return absl::OkStatus();
}

}  // namespace

std::string PackageIdentity::FileName() const {
  return absl::StrFormat("%016x.sluice", Checksum(std::as_bytes(std::span(text))));
}

Package::~Package() {
  if (fd_ < 0) return;
  if (!extents_.empty()) NoteUse(fd_);
  ::close(fd_);
}

absl::StatusOr<std::shared_ptr<const Package>> Package::Open(const std::filesystem::path& path,
                                                             const PackageIdentity& identity,
                                                             std::span<const Bytes> extent_sizes) {
  const std::shared_ptr<Package> package(new Package());
  package->path_ = path;
  constexpr int kFlags = O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY;
  package->fd_ = ::open(path.c_str(), kFlags | O_DIRECT);
  package->direct_ = package->fd_ >= 0;
  if (!package->direct_ && errno == EINVAL) package->fd_ = ::open(path.c_str(), kFlags);
  if (package->fd_ < 0) return About(path, CannotRead(errno));
  struct stat info {};
  if (::fstat(package->fd_, &info) != 0) return About(path, CannotRead(errno));
  if (!S_ISREG(info.st_mode)) {
    return About(path, absl::DataLossError("it is not a regular file"));
  }
  // It kept a pipe from holding us up; a read of the disk may wait.
  ::fcntl(package->fd_, F_SETFL, ::fcntl(package->fd_, F_GETFL) & ~O_NONBLOCK);
  SLUICE_RETURN_IF_ERROR(MarkUsed(path, package->fd_));
  package->file_size_ = Bytes::Of(static_cast<std::uint64_t>(info.st_size));
  if (!package->direct_) ::posix_fadvise(package->fd_, 0, 0, POSIX_FADV_RANDOM);
  absl::StatusOr<Metadata> metadata =
      ReadMetadata(package->fd_, package->file_size_, identity, extent_sizes);
  if (!package->direct_) ::posix_fadvise(package->fd_, 0, 0, POSIX_FADV_DONTNEED);
  if (!metadata.ok()) return About(path, metadata.status());
  package->extents_ = std::move(metadata->extents);
  package->weight_error_ = metadata->weight_error;
  NoteUse(package->fd_);
  return package;
}

}  // namespace sluice
