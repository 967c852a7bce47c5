// server/system_pressure.h
//
// What surrounds the process, for the metrics: how long tasks of the machine waited for a resource,
// and the control group's limit.

#ifndef SLUICE_SERVER_SYSTEM_PRESSURE_H_
#define SLUICE_SERVER_SYSTEM_PRESSURE_H_

#include <array>
#include <cstddef>
#include <optional>
#include <string_view>

#include "base/bytes.h"

namespace sluice {

inline constexpr std::array<std::string_view, 3> kPressureResources = {"cpu", "io", "memory"};

struct SystemPressure {
  // Seconds that some task waited for the resource; zero on a kernel that does not count them.
  std::array<double, kPressureResources.size()> stalled_seconds{};
  std::optional<Bytes> cgroup_limit;  // The tightest; nullopt for none.
};

// Cost: a few small files.
SystemPressure ReadSystemPressure();

// The `total` of the line "some" in a file of /proc/pressure, in seconds; zero without one.
double ParsePressure(std::string_view text);

}  // namespace sluice

#endif  // SLUICE_SERVER_SYSTEM_PRESSURE_H_
