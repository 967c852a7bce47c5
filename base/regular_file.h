// base/regular_file.h
//
// Opens files that somebody else names: only regular files are ever opened, and, where a folder is
// given, only what lies in it once every link is resolved.

#ifndef SLUICE_BASE_REGULAR_FILE_H_
#define SLUICE_BASE_REGULAR_FILE_H_

#include <filesystem>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "base/bytes.h"

namespace sluice {

struct RegularFile {
  int fd = -1;                 // Open for reading; the caller closes it.
  std::filesystem::path path;  // Where it lies, without links.
};

// Whether `path` is `folder` or lies in it. Requires: both absolute, without links and "..".
bool LiesIn(const std::filesystem::path& path, const std::filesystem::path& folder);

// Named pipes, devices and sockets are recognised before they are opened, and what was checked is
// what is opened, even while somebody exchanges links.
// Requires: `folder`, when given, is absolute and without links.
// Fails: NOT_FOUND; INVALID_ARGUMENT, not a regular file, not readable, or outside `folder`.
absl::StatusOr<RegularFile> OpenRegularFile(
    const std::filesystem::path& path,
    const std::optional<std::filesystem::path>& folder = std::nullopt);

// The whole of a small file. Fails: as OpenRegularFile; INVALID_ARGUMENT, larger than `most`.
absl::StatusOr<std::string> ReadSmallFile(
    const std::filesystem::path& path, Bytes most,
    const std::optional<std::filesystem::path>& folder = std::nullopt);

}  // namespace sluice

#endif  // SLUICE_BASE_REGULAR_FILE_H_
