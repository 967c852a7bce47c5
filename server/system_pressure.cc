#include "server/system_pressure.h"

#include <charconv>
#include <cstdint>
#include <fstream>
#include <iterator>
#include <string>

#include "server/control_groups.h"

namespace sluice {

double ParsePressure(std::string_view text) {
  constexpr std::string_view kTotal = "total=";
  const std::string_view line = text.substr(0, text.find('\n'));
  const std::size_t at = line.find(kTotal);
  if (!line.starts_with("some ") || at == std::string_view::npos) return 0;
  std::uint64_t microseconds = 0;
  std::from_chars(line.data() + at + kTotal.size(), line.data() + line.size(), microseconds);
  return static_cast<double>(microseconds) * 1e-6;
}

SystemPressure ReadSystemPressure() {
  SystemPressure pressure;
  for (std::size_t i = 0; i < kPressureResources.size(); ++i) {
    std::ifstream file("/proc/pressure/" + std::string(kPressureResources[i]));
    const std::string text{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
    pressure.stalled_seconds[i] = ParsePressure(text);
  }
  pressure.cgroup_limit = MemoryLimit(OwnControlGroups("memory"));
  return pressure;
}

}  // namespace sluice
