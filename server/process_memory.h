// server/process_memory.h
//
// What the kernel says of memory: this process's and the machine's; and the budget that follows.

#ifndef SLUICE_SERVER_PROCESS_MEMORY_H_
#define SLUICE_SERVER_PROCESS_MEMORY_H_

#include <optional>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "base/bytes.h"

namespace sluice {

struct ProcessMemory {
  Bytes resident;       // VmRSS
  Bytes peak_resident;  // VmHWM
  Bytes swapped;        // VmSwap
  Bytes files;          // RssFile and RssShmem: the part of resident that is mapped from files.
};

// The text of /proc/self/status. Lines that are missing are zero.
ProcessMemory ParseProcessStatus(std::string_view text);
ProcessMemory ReadProcessMemory();

// Of /proc/self/smaps_rollup, which walks every page: seldom, not on each scrape.
struct ProcessPages {
  Bytes resident, proportional, anonymous, locked;
};
ProcessPages ParseSmapsRollup(std::string_view text);
ProcessPages ReadProcessPages();

struct MachineMemory {
  Bytes total;      // MemTotal
  Bytes available;  // MemAvailable
};
MachineMemory ParseMemInfo(std::string_view text);
MachineMemory ReadMachineMemory();

// The budget: what is configured, but never more than the control group allows or than the machine
// has left for us.
struct BudgetInputs {
  std::optional<Bytes> configured{};  // Bytes; else `percent` of the machine's memory.
  double percent = 50;
  std::optional<Bytes> cgroup_limit{};
  MachineMemory machine{};
  Bytes own;  // What this process already holds.
};
struct BudgetCeiling {
  Bytes bytes;
  std::string source;       // Which won: "configuration", "cgroup" or "machine".
  std::string explanation;  // All three with their numbers, for the log.
};
BudgetCeiling ResolveBudget(const BudgetInputs& inputs);

}  // namespace sluice

#endif  // SLUICE_SERVER_PROCESS_MEMORY_H_
