#include "streamer/cache_folder.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <span>
#include <string_view>
#include <system_error>
#include <utility>

#include "absl/strings/str_format.h"
#include "streamer/checksum.h"
#include "streamer/package_format.h"

namespace sluice {
namespace {

constexpr std::string_view kPackageEnding = ".sluice";
constexpr std::size_t kHashDigits = 16;
// Longer identities are those of models in a great many files; they are taken for current.
constexpr Bytes kMostIdentityRead = 256_KiB;

enum class Kind { kForeign, kPackage, kBuild };

// HASH.sluice, HASH.sluice.sluice-build, and what follows that in names of earlier releases.
Kind KindOf(std::string_view name) {
  if (name.size() < kHashDigits) return Kind::kForeign;
  const std::string_view digits = name.substr(0, kHashDigits);
  if (digits.find_first_not_of("0123456789abcdef") != std::string_view::npos) return Kind::kForeign;
  name.remove_prefix(kHashDigits);
  if (name == kPackageEnding) return Kind::kPackage;
  if (!name.starts_with(kPackageEnding)) return Kind::kForeign;
  name.remove_prefix(kPackageEnding.size());
  if (name == kBuildEnding) return Kind::kBuild;
  if (!name.starts_with(kBuildEnding)) return Kind::kForeign;
  name.remove_prefix(kBuildEnding.size());
  const bool numbers = name.find_first_not_of(".0123456789") == std::string_view::npos;
  return name.starts_with('.') && numbers ? Kind::kBuild : Kind::kForeign;
}

std::chrono::nanoseconds SinceEpoch(const timespec& time) {
  return std::chrono::seconds(time.tv_sec) + std::chrono::nanoseconds(time.tv_nsec);
}

bool ReadAt(int fd, std::uint64_t offset, std::span<std::byte> into) {
  std::size_t done = 0;
  while (done < into.size()) {
    const ssize_t got =
        ::pread(fd, into.data() + done, into.size() - done, static_cast<off_t>(offset + done));
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return false;
    done += static_cast<std::size_t>(got);
  }
  return true;
}

std::optional<std::string> ReadIdentity(int fd) {
  std::array<std::byte, kPageSize.count()> page;
  struct stat info {};
  if (::fstat(fd, &info) != 0 || !ReadAt(fd, 0, page)) return std::nullopt;
  const auto size = Bytes::Of(static_cast<std::uint64_t>(info.st_size));
  const absl::StatusOr<PackageHeader> header = DecodeHeader(page, size);
  if (!header.ok()) return std::nullopt;
  if (header->identity_size > kMostIdentityRead) return "";
  const Bytes begin = LayOutPackage(Bytes(), 0, 0).identity;
  std::string text(header->identity_size.count(), '\0');
  const std::span<std::byte> bytes = std::as_writable_bytes(std::span(text));
  if (!ReadAt(fd, begin.count(), bytes)) return std::nullopt;
  if (Checksum(bytes) != header->identity_checksum) return std::nullopt;
  return text;
}

}  // namespace

LockedFile::~LockedFile() {
  if (fd_ >= 0) ::close(fd_);
}

LockedFile::LockedFile(LockedFile&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}

LockedFile& LockedFile::operator=(LockedFile&& other) noexcept {
  std::swap(fd_, other.fd_);
  return *this;
}

std::vector<CacheFile> ListCache(const std::filesystem::path& folder) {
  std::vector<CacheFile> files;
  std::error_code error;
  std::filesystem::directory_iterator entry(folder, error);
  for (; !error && entry != std::filesystem::directory_iterator(); entry.increment(error)) {
    const Kind kind = KindOf(entry->path().filename().native());
    struct stat info {};
    if (kind == Kind::kForeign || ::lstat(entry->path().c_str(), &info) != 0 ||
        !S_ISREG(info.st_mode)) {
      continue;
    }
    constexpr std::uint64_t kBlock = 512;
    files.push_back(
        {.path = entry->path(),
         .build = kind == Kind::kBuild,
         .size = Bytes::Of(std::max(static_cast<std::uint64_t>(info.st_size),
                                    static_cast<std::uint64_t>(info.st_blocks) * kBlock)),
         .inode = info.st_ino,
         .last_use = std::max(SinceEpoch(info.st_atim), SinceEpoch(info.st_mtim))});
  }
  std::ranges::sort(files, {}, &CacheFile::last_use);
  return files;
}

Bytes CountCache(const std::filesystem::path& folder) {
  // A file gets its last name once, so it is missing from one of two lists at most.
  std::vector<CacheFile> files = ListCache(folder);
  const std::vector<CacheFile> again = ListCache(folder);
  files.insert(files.end(), again.begin(), again.end());
  std::ranges::sort(files, {}, &CacheFile::inode);
  const auto twice = std::ranges::unique(files, {}, &CacheFile::inode);
  files.erase(twice.begin(), twice.end());
  Bytes sum;
  for (const CacheFile& file : files) sum += file.size;
  return sum;
}

std::optional<LockedFile> LockUnused(const std::filesystem::path& path) {
  LockedFile file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY));
  struct stat locked {
  }, named{};
  const bool ours = file.fd() >= 0 && ::flock(file.fd(), LOCK_EX | LOCK_NB) == 0 &&
                    ::fstat(file.fd(), &locked) == 0 && S_ISREG(locked.st_mode) &&
                    ::lstat(path.c_str(), &named) == 0 && locked.st_ino == named.st_ino &&
                    locked.st_dev == named.st_dev;
  if (!ours) return std::nullopt;
  return file;
}

std::filesystem::path SelfTestRecordPath(const std::filesystem::path& package) {
  std::filesystem::path path = package;
  return path.replace_extension(".selftest");
}

bool RemoveUnused(const std::filesystem::path& path) {
  // The lock outlives the name, so that nobody opens what is about to go.
  const std::optional<LockedFile> file = LockUnused(path);
  return file && ::unlink(path.c_str()) == 0;
}

absl::StatusOr<LockedFile> TryLockFolder(const std::filesystem::path& folder) {
  LockedFile file(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (file.fd() >= 0 && ::flock(file.fd(), LOCK_EX | LOCK_NB) == 0) return file;
  const std::string message =
      absl::StrFormat("cannot lock folder \"%s\": %s", folder.native(), std::strerror(errno));
  return errno == EWOULDBLOCK ? absl::AbortedError(message) : absl::UnavailableError(message);
}

std::optional<std::string> IdentityText(int fd) {
  // Nothing beyond what is asked for, and nothing of it stays in the page cache.
  ::posix_fadvise(fd, 0, 0, POSIX_FADV_RANDOM);
  std::optional<std::string> text = ReadIdentity(fd);
  ::posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
  return text;
}

}  // namespace sluice
