#include "streamer/package_cache.h"

#include <sys/statvfs.h>

#include <algorithm>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/strings/str_format.h"
#include "base/mutex.h"
#include "base/status_macros.h"
#include "streamer/cache_folder.h"
#include "streamer/package_format.h"

namespace sluice {
namespace {

// How often we look whether another process has finished.
constexpr Duration kLookInterval = std::chrono::milliseconds(50);
// A file that is removed again and again before we have it open is somebody's quarrel, not ours.
constexpr int kMaxBuilds = 3;

// Nobody wakes us: what we wait for happens in another process.
void Pause() {
  Mutex mutex;
  CondVar never;
  MutexLock lock(mutex);
  never.WaitUntil(mutex, SteadyClock().Now() + kLookInterval);
}

// Waits for another process as long as that writes.
class Patience {
 public:
  Patience(std::filesystem::path build, Duration most)
      : build_(std::move(build)), most_(most), until_(SteadyClock().Now() + most) {}

  // Fails: UNAVAILABLE, it has waited long enough.
  absl::Status Wait(const std::function<absl::Status()>& keep_going) {
    if (keep_going) SLUICE_RETURN_IF_ERROR(keep_going());
    std::error_code error;
    const auto written = std::filesystem::last_write_time(build_, error);
    const Instant now = SteadyClock().Now();
    if (!error && written != written_) {
      written_ = written;
      until_ = now + most_;
    }
    if (now >= until_) {
      return absl::UnavailableError(
          absl::StrFormat("another process has \"%s\" locked and has written nothing for %.0f s",
                          build_.native(), Seconds(most_)));
    }
    Pause();
    return absl::OkStatus();
  }

 private:
  const std::filesystem::path build_;
  const Duration most_;
  Instant until_;
  std::filesystem::file_time_type written_{};
};

std::filesystem::path BuildOf(const std::filesystem::path& package) {
  return package.native() + std::string(kBuildEnding);
}

// Bytes that an ordinary user may still write there; all that can be counted where that is unknown.
Bytes DiskFree(const std::filesystem::path& folder) {
  struct statvfs info {};
  if (::statvfs(folder.c_str(), &info) != 0) return Bytes::Max();
  return Bytes::Of(info.f_bavail) * info.f_frsize;
}

bool MustBeBuilt(const absl::Status& opened) {
  return absl::IsNotFound(opened) || absl::IsDataLoss(opened) || absl::IsFailedPrecondition(opened);
}

// The record of its self-test outlives a package that is built again, not one that goes.
void RemoveRecord(const std::filesystem::path& package) {
  std::error_code ignored;
  std::filesystem::remove(SelfTestRecordPath(package), ignored);
}

bool RemoveForGood(const std::filesystem::path& package) {
  if (!RemoveUnused(package)) return false;
  RemoveRecord(package);
  return true;
}

Bytes Sum(const std::vector<CacheFile>& files) {
  Bytes sum;
  for (const CacheFile& file : files) sum += file.size;
  return sum;
}

}  // namespace

absl::StatusOr<std::shared_ptr<const Package>> PackageCache::OpenOrBuild(const Recipe& recipe) {
  const std::filesystem::path path = options_.folder / recipe.identity.FileName();
  const auto with_room = [&](Bytes total, const std::function<absl::Status()>& create) {
    return WithRoom(recipe, total, create);
  };
  Patience patience(BuildOf(path), options_.patience);
  for (int builds = 0;;) {
    absl::StatusOr<std::shared_ptr<const Package>> package =
        Package::Open(path, recipe.identity, recipe.extent_sizes);
    absl::Status hindered = package.status();
    if (!absl::IsAborted(hindered)) {
      if (!MustBeBuilt(hindered) || builds == kMaxBuilds) return package;
      // What cannot be used gives its room to what replaces it.
      if (!absl::IsNotFound(hindered)) RemoveUnused(path);
      hindered = recipe.build(path, with_room);
      if (!hindered.ok() && !absl::IsAborted(hindered)) return hindered;
      if (hindered.ok()) ++builds;
    }
    if (!hindered.ok()) SLUICE_RETURN_IF_ERROR(patience.Wait(recipe.keep_going));
  }
}

absl::Status PackageCache::WithRoom(const Recipe& recipe, Bytes total,
                                    const std::function<absl::Status()>& create) {
  Patience patience(options_.folder, options_.patience);
  absl::StatusOr<LockedFile> folder = TryLockFolder(options_.folder);
  while (absl::IsAborted(folder.status())) {
    SLUICE_RETURN_IF_ERROR(patience.Wait(recipe.keep_going));
    folder = TryLockFolder(options_.folder);
  }
  SLUICE_RETURN_IF_ERROR(folder.status());
  SLUICE_RETURN_IF_ERROR(MakeRoom(total));
  return create();
}

absl::Status PackageCache::MakeRoom(Bytes total) {
  if (options_.quota && total > *options_.quota) {
    return absl::FailedPreconditionError(
        absl::StrFormat("cache_dir \"%s\": its package takes %s (%d bytes), want at most "
                        "cache_quota, %s (%d bytes)",
                        options_.folder.native(), FormatBytes(total), total.count(),
                        FormatBytes(*options_.quota), options_.quota->count()));
  }
  RemoveLeftovers();
  const Bytes used = CountCache(options_.folder);
  const Bytes allowed = options_.quota ? *options_.quota - used : Bytes::Max();
  const Bytes free = std::min(allowed, DiskFree(options_.folder));
  if (free >= total || Evict(total - free)) return absl::OkStatus();
  const Usage now = usage();
  return absl::ResourceExhaustedError(absl::StrFormat(
      "cache_dir \"%s\": its package takes %s (%d bytes), want at most what is free of %s: used "
      "are %s, of which %s by models that are loaded or packed now",
      options_.folder.native(), FormatBytes(total), total.count(),
      options_.quota && allowed <= DiskFree(options_.folder)
          ? absl::StrFormat("cache_quota %s", FormatBytes(*options_.quota))
          : absl::StrFormat("the disk, %s", FormatBytes(DiskFree(options_.folder))),
      FormatBytes(now.used), FormatBytes(now.in_use)));
}

bool PackageCache::Evict(Bytes needed) {
  std::vector<CacheFile> idle = ListCache(options_.folder);
  std::erase_if(idle, [](const CacheFile& file) { return !LockUnused(file.path); });
  if (Sum(idle) < needed) return false;
  Bytes freed;
  for (const CacheFile& file : idle) {
    if (freed >= needed) break;
    if (RemoveForGood(file.path)) freed += file.size;
  }
  return freed >= needed;
}

void PackageCache::Discard(const std::filesystem::path& package) { RemoveForGood(package); }

void PackageCache::Condemn(const std::filesystem::path& package) {
  std::error_code ignored;
  std::filesystem::remove(package, ignored);
}

void PackageCache::RemoveLeftovers() {
  for (const CacheFile& file : ListCache(options_.folder)) {
    if (file.build) RemoveUnused(file.path);
  }
}

Bytes PackageCache::RemoveStale(const std::function<bool(std::string_view)>& can_be_used,
                                const PackageGrace& grace) {
  const std::chrono::nanoseconds now = std::chrono::system_clock::now().time_since_epoch();
  Bytes freed;
  for (const CacheFile& file : ListCache(options_.folder)) {
    const std::chrono::nanoseconds idle = now - file.last_use;
    if (file.build || idle <= std::min(grace.useless, grace.unused)) continue;
    const std::optional<LockedFile> locked = LockUnused(file.path);
    if (!locked) continue;
    const std::optional<std::string> identity = IdentityText(locked->fd());
    const bool useful = identity && can_be_used(*identity);
    std::error_code error;
    if (idle > (useful ? grace.unused : grace.useless) &&
        std::filesystem::remove(file.path, error)) {
      RemoveRecord(file.path);
      freed += file.size;
    }
  }
  return freed;
}

PackageCache::Usage PackageCache::usage() const {
  Usage usage;
  for (const CacheFile& file : ListCache(options_.folder)) {
    usage.used += file.size;
    if (!LockUnused(file.path)) usage.in_use += file.size;
    if (!file.build) ++usage.packages;
  }
  return usage;
}

}  // namespace sluice
