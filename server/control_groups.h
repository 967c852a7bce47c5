// server/control_groups.h
//
// The control groups that this process is in, versions 1 and 2, and what they allow.

#ifndef SLUICE_SERVER_CONTROL_GROUPS_H_
#define SLUICE_SERVER_CONTROL_GROUPS_H_

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/bytes.h"

namespace sluice {

// Folders of the groups of one controller, from the process's own up to the hierarchy's root: a
// limit of each of them holds. Some may not exist.
struct ControlGroups {
  std::vector<std::filesystem::path> version1, version2;
};

// `proc_cgroup` is the text of /proc/self/cgroup, `root` most often /sys/fs/cgroup. Inside a
// container the path may not exist below the mount; the mount's own files then are the group's.
ControlGroups FindControlGroups(std::string_view proc_cgroup, const std::filesystem::path& root,
                                std::string_view controller);
// Of this process.
ControlGroups OwnControlGroups(std::string_view controller);

// The tightest limit; nullopt when there is none. Of the controllers "memory" and "cpu".
std::optional<Bytes> MemoryLimit(const ControlGroups& groups);
std::optional<double> CpuQuota(const ControlGroups& groups);  // CPUs: 1.5 for 150 ms in 100.

}  // namespace sluice

#endif  // SLUICE_SERVER_CONTROL_GROUPS_H_
