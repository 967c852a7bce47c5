#include "server/config.h"

#include <algorithm>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_format.h"
#include "base/check.h"
#include "base/regular_file.h"
#include "base/status_macros.h"
#include "server/config_keys.h"
#include "server/setting.h"
#include "server/yaml_tree.h"

namespace sluice {
namespace {

constexpr std::size_t kMaxErrors = 100;

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

absl::StatusOr<Config> ReadConfig(const std::filesystem::path& path) {
  SLUICE_ASSIGN_OR_RETURN(const std::string text, ReadSmallFile(path, kMaxYamlSize));
  SLUICE_ASSIGN_OR_RETURN(const YamlNode root, ParseYaml(text, path.string()));
  ConfigErrors errors(path.string());
  Config config;
  ReadDaemonKeys(root, errors, config);
  SLUICE_RETURN_IF_ERROR(errors.status());
  return config;
}

Bytes ReceiveLimits::memory() const {
  // Messages come in small blocks, and the allocator keeps half of one that has gone (measured).
  const Bytes kept = Bytes::Of(largest.count() / 2);
  return largest + kept + kReceiveWindow * most_waiting + kCallMemory * most_calls;
}

ReceiveLimits ReceiveLimitsOf(const Config& config, Bytes budget) {
  constexpr std::uint64_t kFewest = 16;
  const Bytes sixteenth = Bytes::Of(budget.count() / 16);
  const std::uint64_t windows = std::max(kFewest, sixteenth.count() / kReceiveWindow.count());
  const std::uint64_t calls =
      std::max<std::uint64_t>(kSmallCalls, sixteenth.count() / 2 / kCallMemory.count());
  return {.largest = config.max_request
                         ? std::min(*config.max_request, Bytes::Of(budget.count() / 4))
                         : std::max(4_MiB, sixteenth),
          .most_waiting = std::min<std::uint64_t>(windows, config.max_in_flight),
          .most_calls = std::min<std::uint64_t>(calls, config.max_in_flight + kSmallCalls)};
}

bool SpeaksTls(const Config& config, std::string_view listen) {
  if (!config.tls) return false;
  const std::optional<ListenAddress> address = ParseListenAddress(listen);
  SLUICE_CHECK(address.has_value());
  return address->path.empty() && (config.tls->loopback || !address->loopback());
}

}  // namespace sluice
