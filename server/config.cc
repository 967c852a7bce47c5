#include "server/config.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_format.h"
#include "base/status_macros.h"
#include "server/config_keys.h"
#include "server/yaml_tree.h"

namespace sluice {
namespace {

constexpr std::size_t kMaxErrors = 100;

// Reads to the end of `fd`, or until the text is longer than any configuration may be.
absl::Status ReadAll(int fd, const std::filesystem::path& path, std::string& text) {
  char window[16 * 1024];
  while (text.size() <= kMaxYamlSize.count()) {
    const ssize_t got = read(fd, window, sizeof window);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) {
      return absl::InvalidArgumentError(
          absl::StrFormat("%s:1: got \"%s\" while reading, want a readable file", path.string(),
                          std::strerror(errno)));
    }
    if (got == 0) break;
    text.append(window, static_cast<std::size_t>(got));
  }
  return absl::OkStatus();
}

}  // namespace

void ConfigErrors::Add(int line, std::string_view key, std::string_view found,
                       std::string_view wanted) {
  if (++count_ > kMaxErrors) return;
  if (!lines_.empty()) lines_ += '\n';
  lines_ += absl::StrFormat("%s:%d: %s: got %s, want %s", file_, line, key, found, wanted);
}

absl::Status ConfigErrors::status() const {
  if (count_ == 0) return absl::OkStatus();
  if (count_ <= kMaxErrors) return absl::InvalidArgumentError(lines_);
  return absl::InvalidArgumentError(
      absl::StrFormat("%s\n%s: and %d more errors", lines_, file_, count_ - kMaxErrors));
}

absl::StatusOr<std::string> ReadYamlFile(const std::filesystem::path& path) {
  // Not blocking: a named pipe must not hold the daemon up.
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) {
    const std::string message = absl::StrFormat("%s: got \"%s\", want a readable file",
                                                path.string(), std::strerror(errno));
    return errno == ENOENT ? absl::NotFoundError(message) : absl::InvalidArgumentError(message);
  }
  struct stat info {};
  std::string text;
  absl::Status read = absl::OkStatus();
  if (fstat(fd, &info) != 0 || !S_ISREG(info.st_mode)) {
    read = absl::InvalidArgumentError(
        absl::StrFormat("%s: got something that is not a file, want a file", path.string()));
  } else {
    read = ReadAll(fd, path, text);
  }
  close(fd);
  SLUICE_RETURN_IF_ERROR(read);
  return text;
}

absl::StatusOr<Config> ReadConfig(const std::filesystem::path& path) {
  SLUICE_ASSIGN_OR_RETURN(const std::string text, ReadYamlFile(path));
  SLUICE_ASSIGN_OR_RETURN(const YamlNode root, ParseYaml(text, path.string()));
  ConfigErrors errors(path.string());
  Config config;
  ReadDaemonKeys(root, errors, config);
  SLUICE_RETURN_IF_ERROR(errors.status());
  return config;
}

Bytes LargestMessage(const Config& config, Bytes budget) {
  if (!config.max_request) return std::max(4_MiB, Bytes::Of(budget.count() / 16));
  return std::min(*config.max_request, Bytes::Of(budget.count() / 4));
}

}  // namespace sluice
