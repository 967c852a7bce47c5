#include "server/process_memory.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>

#include "absl/strings/str_format.h"
#include "server/setting.h"

namespace sluice {
namespace {

// Files of /proc and /sys that we read are shorter than this.
using Text = std::array<char, 16 * 1024>;

std::string_view ReadText(const char* path, Text& into) {
  const int fd = open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return {};
  std::size_t size = 0;
  while (size < into.size()) {
    const ssize_t got = read(fd, into.data() + size, into.size() - size);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) break;
    size += static_cast<std::size_t>(got);
  }
  close(fd);
  return {into.data(), size};
}

// Takes one line off the front.
std::string_view TakeLine(std::string_view& text) {
  const std::size_t end = std::min(text.find('\n'), text.size());
  const std::string_view line = text.substr(0, end);
  text.remove_prefix(std::min(end + 1, text.size()));
  return line;
}

// The number behind "NAME:   123 kB"; zero when there is no such line.
Bytes KilobytesOf(std::string_view text, std::string_view name) {
  while (!text.empty()) {
    std::string_view line = TakeLine(text);
    if (!line.starts_with(name) || line.size() <= name.size() || line[name.size()] != ':') continue;
    line.remove_prefix(name.size() + 1);
    const std::size_t begin = line.find_first_of("0123456789");
    if (begin == std::string_view::npos) return Bytes();
    const std::size_t end = line.find_first_not_of("0123456789", begin);
    const auto value = ParseInteger(line.substr(begin, end - begin));
    return value ? Bytes::Of(static_cast<std::uint64_t>(*value)) * 1024 : Bytes();
  }
  return Bytes();
}

// A limit file; "max", and the huge number by which version 1 says the same, are no limit.
std::optional<Bytes> ReadLimit(const std::filesystem::path& file) {
  Text text;
  std::string_view word = ReadText(file.c_str(), text);
  word = TakeLine(word);
  const std::optional<std::int64_t> value = ParseInteger(word);
  constexpr std::int64_t kUnlimited = std::int64_t{1} << 60;
  if (!value || *value < 0 || *value >= kUnlimited) return std::nullopt;
  return Bytes::Of(static_cast<std::uint64_t>(*value));
}

void Tighten(std::optional<Bytes>& limit, std::optional<Bytes> other) {
  if (other && (!limit || *other < *limit)) limit = other;
}

// Limits from a group up to the hierarchy's root: each of them holds. Inside a container the path
// may not exist below the mount; the mount's own files then are the group's.
void TightenUpwards(std::optional<Bytes>& limit, const std::filesystem::path& mount,
                    std::string_view group, std::string_view file) {
  std::filesystem::path path = std::filesystem::path(group).relative_path().lexically_normal();
  if (!path.empty() && *path.begin() == "..") path.clear();
  for (;;) {
    Tighten(limit, ReadLimit(mount / path / file));
    if (path.empty() || path == ".") return;
    path = path.parent_path();
  }
}

bool HasController(std::string_view controllers, std::string_view wanted) {
  while (!controllers.empty()) {
    const std::size_t end = std::min(controllers.find(','), controllers.size());
    if (controllers.substr(0, end) == wanted) return true;
    controllers.remove_prefix(std::min(end + 1, controllers.size()));
  }
  return false;
}

}  // namespace

ProcessMemory ParseProcessStatus(std::string_view text) {
  return {.resident = KilobytesOf(text, "VmRSS"),
          .peak_resident = KilobytesOf(text, "VmHWM"),
          .swapped = KilobytesOf(text, "VmSwap")};
}

ProcessMemory ReadProcessMemory() {
  Text text;
  return ParseProcessStatus(ReadText("/proc/self/status", text));
}

ProcessPages ParseSmapsRollup(std::string_view text) {
  return {.resident = KilobytesOf(text, "Rss"),
          .proportional = KilobytesOf(text, "Pss"),
          .anonymous = KilobytesOf(text, "Anonymous"),
          .locked = KilobytesOf(text, "Locked")};
}

ProcessPages ReadProcessPages() {
  Text text;
  return ParseSmapsRollup(ReadText("/proc/self/smaps_rollup", text));
}

MachineMemory ParseMemInfo(std::string_view text) {
  return {.total = KilobytesOf(text, "MemTotal"), .available = KilobytesOf(text, "MemAvailable")};
}

MachineMemory ReadMachineMemory() {
  Text text;
  return ParseMemInfo(ReadText("/proc/meminfo", text));
}

std::optional<Bytes> ReadCgroupLimit(std::string_view proc_cgroup,
                                     const std::filesystem::path& root) {
  std::optional<Bytes> limit;
  while (!proc_cgroup.empty()) {
    // "HIERARCHY:CONTROLLERS:PATH"; version 2 has the number 0 and no controllers.
    const std::string_view line = TakeLine(proc_cgroup);
    const std::size_t first = line.find(':');
    const std::size_t second = first == std::string_view::npos ? first : line.find(':', first + 1);
    if (second == std::string_view::npos) continue;
    const std::string_view controllers = line.substr(first + 1, second - first - 1);
    const std::string_view group = line.substr(second + 1);
    if (HasController(controllers, "memory")) {
      TightenUpwards(limit, root / "memory", group, "memory.limit_in_bytes");
    } else if (controllers.empty() && line.starts_with("0:")) {
      TightenUpwards(limit, root, group, "memory.max");
      TightenUpwards(limit, root / "unified", group, "memory.max");
    }
  }
  return limit;
}

std::optional<Bytes> ReadCgroupLimit() {
  Text text;
  return ReadCgroupLimit(ReadText("/proc/self/cgroup", text), "/sys/fs/cgroup");
}

BudgetCeiling ResolveBudget(const BudgetInputs& inputs) {
  const Bytes configured =
      inputs.configured
          ? *inputs.configured
          : Bytes::Of(static_cast<std::uint64_t>(static_cast<double>(inputs.machine.total.count()) *
                                                 inputs.percent / 100));
  const Bytes machine = inputs.machine.available + inputs.own;
  BudgetCeiling ceiling{.bytes = configured, .source = "configuration", .explanation = {}};
  if (inputs.cgroup_limit && *inputs.cgroup_limit < ceiling.bytes) {
    ceiling.bytes = *inputs.cgroup_limit;
    ceiling.source = "cgroup";
  }
  // No /proc/meminfo, as in some sandboxes: nothing is known of the machine.
  const bool machine_known = inputs.machine.total > Bytes();
  if (machine_known && machine < ceiling.bytes) {
    ceiling.bytes = machine;
    ceiling.source = "machine";
  }
  ceiling.explanation =
      absl::StrFormat("configuration %s, cgroup %s, machine %s", FormatBytes(configured),
                      inputs.cgroup_limit ? FormatBytes(*inputs.cgroup_limit) : "no limit",
                      machine_known ? FormatBytes(machine) : "unknown");
  return ceiling;
}

}  // namespace sluice
