#include "server/open_cache.h"

#include <sys/statvfs.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <optional>
#include <string>

#include "absl/strings/str_format.h"
#include "server/private_folder.h"

namespace sluice {

absl::StatusOr<std::unique_ptr<PackageCache>> OpenCache(const Config& config) {
  const std::filesystem::path& cache_dir = config.cache_dir;
  if (const absl::Status made = MakePrivateFolder(cache_dir); !made.ok()) {
    return absl::UnavailableError(absl::StrFormat("cache_dir: %s", std::string(made.message())));
  }
  std::optional<Bytes> quota = config.cache_quota;
  if (config.cache_quota_percent) {
    struct statvfs disk {};
    if (statvfs(cache_dir.c_str(), &disk) != 0) {
      return absl::UnavailableError(
          absl::StrFormat("cache_quota: got a percentage, and no size "
                          "of the disk under cache_dir %s: %s",
                          cache_dir.string(), std::strerror(errno)));
    }
    quota = Bytes::Of(static_cast<std::uint64_t>(static_cast<double>(disk.f_blocks) *
                                                 static_cast<double>(disk.f_frsize) *
                                                 *config.cache_quota_percent / 100));
  }
  auto cache =
      std::make_unique<PackageCache>(PackageCache::Options{.folder = cache_dir, .quota = quota});
  cache->RemoveLeftovers();
  return cache;
}

}  // namespace sluice
