// server/process_usage.h
//
// What this process uses of the machine, for the process_* metrics.

#ifndef SLUICE_SERVER_PROCESS_USAGE_H_
#define SLUICE_SERVER_PROCESS_USAGE_H_

#include <cstdint>
#include <optional>
#include <string_view>

#include "base/bytes.h"

namespace sluice {

struct ProcessUsage {
  Bytes resident, virtual_size;
  double cpu_seconds = 0;
  std::uint64_t threads = 0;
  std::uint64_t open_fds = 0, max_fds = 0;
  double start_seconds = 0;  // Since 1970.
};

// From /proc/self; what cannot be read is zero. Cost: a few small files, some microseconds.
ProcessUsage ReadProcessUsage();

// Fields of the line in /proc/PID/stat, counted from 1 as in proc(5). The second, the program's
// name, may contain spaces and brackets. None when there are fewer.
std::optional<std::uint64_t> StatField(std::string_view stat, int field);

}  // namespace sluice

#endif  // SLUICE_SERVER_PROCESS_USAGE_H_
