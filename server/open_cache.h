// server/open_cache.h
//
// The folder of packages that a configuration names.

#ifndef SLUICE_SERVER_OPEN_CACHE_H_
#define SLUICE_SERVER_OPEN_CACHE_H_

#include <memory>

#include "absl/status/statusor.h"
#include "server/config.h"
#include "streamer/package_cache.h"

namespace sluice {

// Makes the folder where it is missing, and removes what dead processes left in it.
// Fails: UNAVAILABLE, it cannot be made or written.
absl::StatusOr<std::unique_ptr<PackageCache>> OpenCache(const Config& config);

}  // namespace sluice

#endif  // SLUICE_SERVER_OPEN_CACHE_H_
