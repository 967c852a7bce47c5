#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_format.h"
#include "base/check.h"
#include "base/status_macros.h"
#include "streamer/checksum.h"
#include "streamer/package.h"
#include "streamer/package_format.h"
#include "streamer/page_memory.h"

namespace sluice {
namespace {

// A cleaner may take a file for dead between its creation and its lock.
constexpr int kCreateAttempts = 8;
// Without O_DIRECT: how much of the page cache a build may hold before it is written out.
constexpr Bytes kCached = 512_KiB;

absl::Status CannotWrite(const std::filesystem::path& path, int error, Bytes wanted, Bytes free) {
  if (error == ENOSPC || error == EDQUOT || error == EFBIG) {
    return absl::ResourceExhaustedError(absl::StrFormat(
        "cannot write package \"%s\": %s: want %s (%d bytes), free are %s (%d bytes)",
        path.native(), std::strerror(error), FormatBytes(wanted), wanted.count(), FormatBytes(free),
        free.count()));
  }
  return absl::UnavailableError(
      absl::StrFormat("cannot write package \"%s\": %s", path.native(), std::strerror(error)));
}

std::filesystem::path FolderOf(const std::filesystem::path& path) {
  return path.has_parent_path() ? path.parent_path() : std::filesystem::path(".");
}

// Bytes that an ordinary user may still write there.
Bytes FreeBytes(const std::filesystem::path& folder) {
  struct statvfs info {};
  if (::statvfs(folder.c_str(), &info) != 0) return Bytes();
  return Bytes::Of(info.f_bavail) * info.f_frsize;
}

// A file under a temporary name, locked while it lives, removed unless it was committed.
class TemporaryFile {
 public:
  TemporaryFile(std::filesystem::path target, Bytes size)
      : target_(std::move(target)), size_(size) {}
  ~TemporaryFile() {
    if (fd_ < 0) return;
    // The lock goes last: what nobody holds is a dead process's.
    if (!committed_) ::unlink(path_.c_str());
    ::close(fd_);
  }
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;

  // Creates it and books its size on the disk.
  absl::Status Create();
  // Requires: whole pages of page-aligned memory.
  absl::Status Write(Bytes offset, std::span<const std::byte> pages);
  // Makes its first `size` bytes durable under the target's name.
  absl::Status Commit(Bytes size);

 private:
  absl::Status Failure(int error) const {
    return CannotWrite(target_, error, size_, FreeBytes(FolderOf(target_)));
  }
  int TryCreate();
  absl::Status DropCache();

  const std::filesystem::path target_;
  const Bytes size_;
  std::filesystem::path path_;
  int fd_ = -1;
  bool direct_ = true;
  bool committed_ = false;
  Bytes cached_;  // Written since the page cache was emptied.
};

// Returns zero or an errno: EWOULDBLOCK when somebody else builds, ESTALE when the file that was
// locked has lost its name meanwhile. One that a dead process left is taken over.
int TemporaryFile::TryCreate() {
  constexpr int kFlags = O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY;
  direct_ = true;
  fd_ = ::open(path_.c_str(), kFlags | O_DIRECT, 0600);
  if (fd_ < 0 && errno == EINVAL) {
    direct_ = false;
    fd_ = ::open(path_.c_str(), kFlags, 0600);
  }
  if (fd_ < 0) return errno;
  struct stat locked {
  }, named{};
  int error = ::flock(fd_, LOCK_EX | LOCK_NB) == 0 ? 0 : errno;
  if (error == 0 && (::fstat(fd_, &locked) != 0 || !S_ISREG(locked.st_mode))) error = EINVAL;
  if (error == 0 && (::lstat(path_.c_str(), &named) != 0 || named.st_ino != locked.st_ino ||
                     named.st_dev != locked.st_dev)) {
    error = ESTALE;
  }
  if (error == 0) error = ::ftruncate(fd_, 0) == 0 ? 0 : errno;
  if (error == 0) return 0;
  ::close(fd_);
  fd_ = -1;
  return error;
}

absl::Status TemporaryFile::Create() {
  // Asked first, because booking on a disk that is too small fills it before it fails.
  if (const Bytes free = FreeBytes(FolderOf(target_));
      std::filesystem::exists(FolderOf(target_)) && free < size_) {
    return CannotWrite(target_, ENOSPC, size_, free);
  }
  path_ = target_.native() + std::string(kBuildEnding);
  int error = ESTALE;
  for (int i = 0; i < kCreateAttempts && error == ESTALE; ++i) error = TryCreate();
  if (error == EWOULDBLOCK) {
    return absl::AbortedError(absl::StrFormat(
        "cannot write package \"%s\": another process is writing it", target_.native()));
  }
  if (error != 0) return Failure(error);
  // Its length tells others what is booked, also where blocks cannot be.
  if (::ftruncate(fd_, static_cast<off_t>(size_.count())) != 0) return Failure(errno);
  if (::fallocate(fd_, 0, 0, static_cast<off_t>(size_.count())) != 0 && errno != EOPNOTSUPP &&
      errno != ENOSYS) {
    return Failure(errno);
  }
  return absl::OkStatus();
}

absl::Status TemporaryFile::Write(Bytes offset, std::span<const std::byte> pages) {
  std::size_t done = 0;
  while (done < pages.size()) {
    std::size_t size = pages.size() - done;
    if (!direct_) size = std::min<std::size_t>(size, kCached.count());
    const ssize_t wrote =
        ::pwrite(fd_, pages.data() + done, size, static_cast<off_t>(offset.count() + done));
    if (wrote < 0 && errno == EINTR) continue;
    if (wrote < 0 && errno == EINVAL && direct_) {
      // Refused at the write only: go on through the page cache.
      if (::fcntl(fd_, F_SETFL, 0) != 0) return Failure(errno);
      direct_ = false;
      continue;
    }
    if (wrote <= 0) return Failure(wrote < 0 ? errno : EIO);
    // Direct writes go on from whole pages.
    const auto moved = static_cast<std::size_t>(wrote);
    const std::size_t whole = moved & ~(kPageSize.count() - 1);
    done += direct_ ? whole : moved;
    if (direct_ && whole == 0) return Failure(ENOSPC);
    cached_ += Bytes::Of(moved);
    if (!direct_ && cached_ >= kCached) SLUICE_RETURN_IF_ERROR(DropCache());
  }
  return absl::OkStatus();
}

absl::Status TemporaryFile::DropCache() {
  if (::fdatasync(fd_) != 0) return Failure(errno);
  ::posix_fadvise(fd_, 0, 0, POSIX_FADV_DONTNEED);
  cached_ = Bytes();
  return absl::OkStatus();
}

absl::Status TemporaryFile::Commit(Bytes size) {
  // More was booked, or less, where weights could not be stored as it was planned.
  if (size != size_ && ::ftruncate(fd_, static_cast<off_t>(size.count())) != 0) {
    return Failure(errno);
  }
  if (::fsync(fd_) != 0) return Failure(errno);
  if (!direct_) SLUICE_RETURN_IF_ERROR(DropCache());
  if (::rename(path_.c_str(), target_.c_str()) != 0) return Failure(errno);
  committed_ = true;
  const int folder = ::open(FolderOf(target_).c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (folder < 0) return Failure(errno);
  const int error = ::fsync(folder) == 0 ? 0 : errno;
  ::close(folder);
  // Some file systems cannot sync a folder; there the rename is as durable as it gets.
  if (error != 0 && error != EINVAL) return Failure(error);
  return absl::OkStatus();
}

}  // namespace

absl::Status BuildPackage(
    const std::filesystem::path& path, const PackageIdentity& identity,
    std::span<const Bytes> extent_sizes,
    const std::function<absl::StatusOr<PackedExtent>(ExtentIndex, std::span<std::byte>)>& pack,
    const BuildOptions& options) {
  const Bytes identity_size = Bytes::Of(identity.text.size());
  SLUICE_CHECK(identity_size <= kMaxIdentity);
  const Bytes data = LayOutPackage(identity_size, extent_sizes.size(), options.most_runs).data;
  Bytes booked;
  for (const Bytes size : options.stored_sizes.empty() ? extent_sizes : options.stored_sizes) {
    booked += AlignUp(size, kPageSize);
  }
  TemporaryFile file(path, data + booked);
  const auto create = [&] { return file.Create(); };
  SLUICE_RETURN_IF_ERROR(options.with_room ? options.with_room(data + booked, create) : create());
  std::vector<ExtentRecord> records;
  records.reserve(extent_sizes.size());
  WeightErrorSums error;
  Bytes next = data;
  for (const Bytes size : extent_sizes) {
    if (options.progress) {
      SLUICE_RETURN_IF_ERROR(options.progress(next - data, std::max(booked, next - data)));
    }
    const Bytes whole = AlignUp(size, kPageSize);
    SLUICE_CHECK(whole.count() <= options.staging.size());
    const std::span<std::byte> pages = options.staging.first(whole.count());
    SLUICE_ASSIGN_OR_RETURN(PackedExtent packed, pack(At<ExtentIndex>(records.size()), pages));
    error.Add(packed.error);
    const std::span<const std::byte> stored = StoredPages(pages, packed);
    SLUICE_RETURN_IF_ERROR(file.Write(next, stored));
    records.push_back({.offset = next,
                       .size = size,
                       .stored = packed.stored,
                       .checksum = Checksum(stored),
                       .runs = std::move(packed.runs)});
    next += records.back().stored_pages();
  }
  SLUICE_ASSIGN_OR_RETURN(const PageMemory metadata, PageMemory::Map(data));
  EncodeMetadata(identity.text, records, options.most_runs, error.error(), metadata.span());
  SLUICE_RETURN_IF_ERROR(file.Write(Bytes(), metadata.span()));
  return file.Commit(next);
}

}  // namespace sluice
