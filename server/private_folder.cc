#include "server/private_folder.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <system_error>

#include "absl/strings/str_format.h"
#include "base/status_macros.h"

namespace sluice {
namespace {

constexpr mode_t kOwnAlone = 0700;

// A group of which only its owner is a member may write; which group that is, nobody can tell, so
// the process's own is taken for one.
bool OthersWrite(const struct stat& info) {
  if ((info.st_mode & S_IWOTH) != 0) return true;
  return (info.st_mode & S_IWGRP) != 0 && info.st_gid != getegid();
}

}  // namespace

absl::Status CheckPrivateFolder(const std::filesystem::path& path) {
  struct stat info {};
  if (stat(path.c_str(), &info) != 0) {
    const std::string message =
        absl::StrFormat("got %s (%s), want a folder", path.native(), std::strerror(errno));
    return errno == ENOENT ? absl::NotFoundError(message) : absl::InvalidArgumentError(message);
  }
  if (!S_ISDIR(info.st_mode)) {
    return absl::InvalidArgumentError(
        absl::StrFormat("got %s, which is no folder, want a folder", path.native()));
  }
  if (info.st_uid != geteuid() && info.st_uid != 0) {
    return absl::FailedPreconditionError(
        absl::StrFormat("got %s, which belongs to user %d, want a folder of user %d or root",
                        path.native(), info.st_uid, geteuid()));
  }
  if (OthersWrite(info)) {
    return absl::FailedPreconditionError(
        absl::StrFormat("got %s with mode %04o, want a folder that other users cannot write",
                        path.native(), info.st_mode & 07777u));
  }
  return absl::OkStatus();
}

absl::Status MakePrivateFolder(const std::filesystem::path& path) {
  std::error_code error;
  if (path.has_parent_path()) std::filesystem::create_directories(path.parent_path(), error);
  if (error || (mkdir(path.c_str(), kOwnAlone) != 0 && errno != EEXIST)) {
    return absl::UnavailableError(absl::StrFormat("got %s (%s), want a folder that can be made",
                                                  path.native(),
                                                  error ? error.message() : std::strerror(errno)));
  }
  SLUICE_RETURN_IF_ERROR(CheckPrivateFolder(path));
  if (access(path.c_str(), W_OK | X_OK) == 0) return absl::OkStatus();
  return absl::UnavailableError(absl::StrFormat("got %s (%s), want a folder that can be written",
                                                path.native(), std::strerror(errno)));
}

}  // namespace sluice
