// streamer/cache_folder.h
//
// The files of a folder of packages, and locks on them: what package_cache.h is made of.

#ifndef SLUICE_STREAMER_CACHE_FOLDER_H_
#define SLUICE_STREAMER_CACHE_FOLDER_H_

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/bytes.h"

namespace sluice {

// A file descriptor, closed with this; a lock on it goes with it.
class LockedFile {
 public:
  LockedFile() = default;
  explicit LockedFile(int fd) : fd_(fd) {}
  ~LockedFile();
  LockedFile(LockedFile&& other) noexcept;
  LockedFile& operator=(LockedFile&& other) noexcept;
  int fd() const { return fd_; }

 private:
  int fd_ = -1;
};

struct CacheFile {
  std::filesystem::path path;
  bool build = false;  // Under its temporary name.
  Bytes size;          // What it holds or has booked of the disk.
  std::uint64_t inode = 0;
  // Since the epoch, of the machine's clock: it may be wrong, and only orders and ages files.
  std::chrono::nanoseconds last_use{};
};

// Packages and builds, the one not used for longest first; files of other names are left out.
// Empty where the folder cannot be read.
// A file that gets its last name while the list is made may be missing.
std::vector<CacheFile> ListCache(const std::filesystem::path& folder);

// What all of them take, or more when some are removed meanwhile; none is missing.
// Requires: the lock on the folder, so that none is created.
Bytes CountCache(const std::filesystem::path& folder);

// The file, locked exclusively; nullopt when somebody else has it locked, or it is gone, or is no
// regular file, or has another one's name meanwhile.
std::optional<LockedFile> LockUnused(const std::filesystem::path& path);

// HASH.selftest beside HASH.sluice: what the model first answered (docs/formats/self-test.md).
std::filesystem::path SelfTestRecordPath(const std::filesystem::path& package);

// True when it was removed: nobody had it locked.
bool RemoveUnused(const std::filesystem::path& path);

// Whoever has the lock on the folder only counts, removes, and creates one file.
// Fails: ABORTED, somebody has it: try again. UNAVAILABLE, no such folder, or no locks there.
absl::StatusOr<LockedFile> TryLockFolder(const std::filesystem::path& folder);

// The text that a package says it depends on, unverified; nullopt where it has no such, because it
// is of another format version or damaged.
std::optional<std::string> IdentityText(int fd);

}  // namespace sluice

#endif  // SLUICE_STREAMER_CACHE_FOLDER_H_
