#include "server/process_environment.h"

#include <sched.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "absl/strings/str_format.h"

namespace sluice {
namespace {

constexpr const char* kGuard = "SLUICED_ENVIRONMENT";

}  // namespace

int ComputeThreads(const Config& config) {
  if (config.threads > 0) return config.threads;
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  if (sched_getaffinity(0, sizeof allowed, &allowed) != 0) return 1;
  return std::max(1, CPU_COUNT(&allowed));
}

absl::Status RestartWithEnvironment(const Config& config, char** argv) {
  if (std::getenv(kGuard) != nullptr) {
    unsetenv(kGuard);
    // The second start ran "exe"; tools that list processes look for the program's own name.
    prctl(PR_SET_NAME, "sluiced");
    return absl::OkStatus();
  }
  setenv(kGuard, "set", 1);
  setenv("OMP_NUM_THREADS", absl::StrFormat("%d", ComputeThreads(config)).c_str(), 1);
  setenv("OMP_DYNAMIC", "false", 1);
  setenv("OMP_WAIT_POLICY", "passive", 1);
  setenv("MALLOC_ARENA_MAX", "2", 1);
  execv("/proc/self/exe", argv);
  const int error = errno;
  unsetenv(kGuard);
  return absl::InternalError(
      absl::StrFormat("/proc/self/exe: got \"%s\", want to start again with passive waits; the "
                      "environment stays as it is",
                      std::strerror(error)));
}

}  // namespace sluice
