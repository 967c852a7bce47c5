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

}  // namespace

ProcessMemory ParseProcessStatus(std::string_view text) {
  return {.resident = KilobytesOf(text, "VmRSS"),
          .peak_resident = KilobytesOf(text, "VmHWM"),
          .swapped = KilobytesOf(text, "VmSwap"),
          .files = KilobytesOf(text, "RssFile") + KilobytesOf(text, "RssShmem")};
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
