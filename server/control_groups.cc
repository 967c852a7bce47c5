#include "server/control_groups.h"

#include <algorithm>
#include <cstdint>
#include <fstream>
#include <iterator>

#include "server/setting.h"

namespace sluice {
namespace {

namespace fs = std::filesystem;

std::string ReadText(const fs::path& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

// Takes what comes before `separator` off the front.
std::string_view Take(std::string_view& text, char separator) {
  const std::size_t end = std::min(text.find(separator), text.size());
  const std::string_view taken = text.substr(0, end);
  text.remove_prefix(std::min(end + 1, text.size()));
  return taken;
}

bool Contains(std::string_view list, std::string_view wanted) {
  while (!list.empty()) {
    if (Take(list, ',') == wanted) return true;
  }
  return false;
}

void AddUpwards(const fs::path& mount, std::string_view group, std::vector<fs::path>& folders) {
  fs::path path = fs::path(group).relative_path().lexically_normal();
  if (!path.empty() && *path.begin() == "..") path.clear();
  for (;;) {
    folders.push_back(mount / path);
    if (path.empty() || path == ".") return;
    path = path.parent_path();
  }
}

template <typename T>
void Tighten(std::optional<T>& limit, std::optional<T> other) {
  if (other && (!limit || *other < *limit)) limit = other;
}

// A number alone in its file; nullopt for "max" and for a file that is not there.
std::optional<std::int64_t> ReadNumber(const fs::path& file) {
  const std::string text = ReadText(file);
  std::string_view rest = text;
  return ParseInteger(Take(rest, '\n'));
}

// The huge number by which version 1 says that there is no limit is none.
std::optional<Bytes> ReadLimit(const fs::path& file) {
  const std::optional<std::int64_t> value = ReadNumber(file);
  constexpr std::int64_t kUnlimited = std::int64_t{1} << 60;
  if (!value || *value < 0 || *value >= kUnlimited) return std::nullopt;
  return Bytes::Of(static_cast<std::uint64_t>(*value));
}

std::optional<double> Share(std::optional<std::int64_t> quota, std::optional<std::int64_t> period) {
  if (!quota || !period || *quota <= 0 || *period <= 0) return std::nullopt;
  return static_cast<double>(*quota) / static_cast<double>(*period);
}

}  // namespace

ControlGroups FindControlGroups(std::string_view proc_cgroup, const fs::path& root,
                                std::string_view controller) {
  ControlGroups groups;
  while (!proc_cgroup.empty()) {
    // "HIERARCHY:CONTROLLERS:PATH"; version 2 has the number 0 and no controllers.
    std::string_view line = Take(proc_cgroup, '\n');
    if (std::ranges::count(line, ':') < 2) continue;
    const std::string_view hierarchy = Take(line, ':');
    const std::string_view controllers = Take(line, ':');
    if (Contains(controllers, controller)) {
      AddUpwards(root / controller, line, groups.version1);
    } else if (controllers.empty() && hierarchy == "0") {
      AddUpwards(root, line, groups.version2);
      AddUpwards(root / "unified", line, groups.version2);
    }
  }
  return groups;
}

ControlGroups OwnControlGroups(std::string_view controller) {
  return FindControlGroups(ReadText("/proc/self/cgroup"), "/sys/fs/cgroup", controller);
}

std::optional<Bytes> MemoryLimit(const ControlGroups& groups) {
  std::optional<Bytes> limit;
  for (const fs::path& group : groups.version1) {
    Tighten(limit, ReadLimit(group / "memory.limit_in_bytes"));
  }
  for (const fs::path& group : groups.version2) Tighten(limit, ReadLimit(group / "memory.max"));
  return limit;
}

std::optional<double> CpuQuota(const ControlGroups& groups) {
  std::optional<double> quota;
  for (const fs::path& group : groups.version1) {
    Tighten(quota,
            Share(ReadNumber(group / "cpu.cfs_quota_us"), ReadNumber(group / "cpu.cfs_period_us")));
  }
  for (const fs::path& group : groups.version2) {
    // "QUOTA PERIOD", or "max PERIOD".
    const std::string text = ReadText(group / "cpu.max");
    std::string_view rest = text;
    const std::string_view first = Take(rest, ' ');
    Tighten(quota, Share(ParseInteger(first), ParseInteger(Take(rest, '\n'))));
  }
  return quota;
}

}  // namespace sluice
