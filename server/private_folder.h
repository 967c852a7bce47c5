// server/private_folder.h
//
// A folder whose contents are believed, and so must be this process's own.

#ifndef SLUICE_SERVER_PRIVATE_FOLDER_H_
#define SLUICE_SERVER_PRIVATE_FOLDER_H_

#include <filesystem>

#include "absl/status/status.h"

namespace sluice {

// Fails: FAILED_PRECONDITION, `path` belongs to somebody else than this user or root, or others can
//        write it; NOT_FOUND; INVALID_ARGUMENT, no folder. One line: found and wanted.
absl::Status CheckPrivateFolder(const std::filesystem::path& path);

// Makes the folder, for this user alone, where there is none, and checks it.
// Fails: as CheckPrivateFolder; UNAVAILABLE, it cannot be made or written.
absl::Status MakePrivateFolder(const std::filesystem::path& path);

}  // namespace sluice

#endif  // SLUICE_SERVER_PRIVATE_FOLDER_H_
