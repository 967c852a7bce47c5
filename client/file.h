// client/file.h
//
// Whole files, with a limit that is checked before memory is taken.

#ifndef SLUICE_CLIENT_FILE_H_
#define SLUICE_CLIENT_FILE_H_

#include <filesystem>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/bytes.h"

namespace sluice {

// What one message on the wire can carry; nothing larger can be sent, so nothing larger is read.
inline constexpr Bytes kMaxTensorFile = Bytes::Of((std::uint64_t{1} << 31) - 1);

// Fails: NOT_FOUND, no such file; PERMISSION_DENIED; INVALID_ARGUMENT, not a regular file or longer
//        than `limit`; DATA_LOSS, the file ended early or the disk failed. All name the file.
absl::StatusOr<std::string> ReadFile(const std::filesystem::path& path, Bytes limit);

// Replaces the file in one step: a reader sees the old contents or the whole of the new ones. The
// folder must exist. Fails: INTERNAL, with the system's reason; the old file is then untouched.
absl::Status WriteFile(const std::filesystem::path& path, std::string_view contents);

// Makes the folder and those above it. Fails: INTERNAL, with the system's reason.
absl::Status MakeFolder(const std::filesystem::path& path);

}  // namespace sluice

#endif  // SLUICE_CLIENT_FILE_H_
