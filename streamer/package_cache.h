// streamer/package_cache.h
//
// The folder of packages: who builds which, what it may hold, and what is removed from it. Several
// processes may share one folder; they agree by locks (flock), which die with their process.
//
//   HASH.sluice               shared lock: in use. Exclusive: being finished or removed.
//   HASH.sluice.sluice-build  exclusive lock: being built. Unlocked: left by a dead process.
//   the folder itself         exclusive lock: somebody counts and makes room.
//
// Files of other names are never touched. docs/decisions/0008-what-is-removed-from-the-cache.md
// says why these rules.

#ifndef SLUICE_STREAMER_PACKAGE_CACHE_H_
#define SLUICE_STREAMER_PACKAGE_CACHE_H_

#include <chrono>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/bytes.h"
#include "base/clock.h"
#include "base/ids.h"
#include "streamer/package.h"

namespace sluice {

// How long a package is kept that nobody uses, counted from its last use.
struct PackageGrace {
  // Nobody can ever use it again: its sources are gone or have changed, or its format is another
  // version's. Not zero, because a disk may not be mounted yet, and another daemon may be older.
  std::chrono::seconds useless = std::chrono::hours(24);
  // Its sources are as they were, but nobody asks for it.
  std::chrono::seconds unused = std::chrono::hours(24 * 30);
};

// Threads: callable from several at once.
class PackageCache {
 public:
  struct Options {
    std::filesystem::path folder;
    std::optional<Bytes> quota = {};  // Of all packages together; without: what the disk has.
    // How long a build of another process may write nothing before we give up waiting for it.
    Duration patience = std::chrono::minutes(1);
  };
  explicit PackageCache(Options options) : options_(std::move(options)) {}

  // What a package is made of.
  struct Recipe {
    PackageIdentity identity;
    std::span<const Bytes> extent_sizes;
    // Builds the file with the given `with_room` in its BuildOptions.
    std::function<absl::Status(
        const std::filesystem::path&,
        std::function<absl::Status(Bytes, const std::function<absl::Status()>&)> with_room)>
        build;
    // Asked while another process builds; not OK ends the wait with that status.
    std::function<absl::Status()> keep_going;
  };
  // Opens the package; builds it first when it is missing, damaged or another format's. Where
  // another process builds it, waits and opens what that made.
  // Fails: what Package::Open and `build` fail with; FAILED_PRECONDITION, larger than the quota;
  //        RESOURCE_EXHAUSTED, what is in use leaves too little of quota or disk: needed, used,
  //        quota; UNAVAILABLE, another process builds it and makes no progress.
  absl::StatusOr<std::shared_ptr<const Package>> OpenOrBuild(const Recipe& recipe);

  // Removes a package unless somebody uses it. It may be gone already.
  void Discard(const std::filesystem::path& package);
  // Removes a package that is damaged; whoever has it open keeps what was in it.
  void Condemn(const std::filesystem::path& package);

  // Removes what dead processes left behind. Where the folder cannot be read, nothing.
  void RemoveLeftovers();

  // Removes packages that nobody uses and whose grace has passed. `can_be_used` tells from a
  // package's identity whether its sources still are as it says.
  // Returns how many bytes were freed.
  Bytes RemoveStale(const std::function<bool(std::string_view identity)>& can_be_used,
                    const PackageGrace& grace);

  struct Usage {
    Bytes used;    // Packages and builds, those in use by anybody included.
    Bytes in_use;  // Of them: by some process, this one included.
    std::size_t packages = 0;
  };
  Usage usage() const;

  const Options& options() const { return options_; }

 private:
  absl::Status WithRoom(const Recipe& recipe, Bytes total,
                        const std::function<absl::Status()>& create);
  absl::Status MakeRoom(Bytes total);
  // Makes room of `needed` bytes, least recently used first, or removes nothing.
  bool Evict(Bytes needed);

  const Options options_;
};

}  // namespace sluice

#endif  // SLUICE_STREAMER_PACKAGE_CACHE_H_
