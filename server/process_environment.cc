#include "server/process_environment.h"

#include <sys/prctl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <string>

#include "absl/strings/str_format.h"
#include "server/compute_threads.h"

namespace sluice {
namespace {

constexpr const char* kGuard = "SLUICED_ENVIRONMENT";

// What threads keep of freed memory for themselves holds whole pages back from the system: 1 MiB
// and more after models have come and gone. Ours come after the user's, so that they win.
void SetTunables() {
  const char* const set = std::getenv("GLIBC_TUNABLES");
  const std::string before = set == nullptr || *set == '\0' ? "" : absl::StrFormat("%s:", set);
  setenv("GLIBC_TUNABLES", (before + "glibc.malloc.tcache_count=0").c_str(), 1);
}

}  // namespace

absl::Status RestartWithEnvironment(const Config& config, char** argv) {
  if (std::getenv(kGuard) != nullptr) {
    unsetenv(kGuard);
    // The second start ran "exe"; tools that list processes look for the program's own name.
    prctl(PR_SET_NAME, "sluiced");
    return absl::OkStatus();
  }
  setenv(kGuard, "set", 1);
  setenv("OMP_NUM_THREADS", absl::StrFormat("%d", ComputeThreads(config).threads).c_str(), 1);
  setenv("OMP_DYNAMIC", "false", 1);
  setenv("OMP_WAIT_POLICY", "passive", 1);
  setenv("MALLOC_ARENA_MAX", "2", 1);
  SetTunables();
  execv("/proc/self/exe", argv);
  const int error = errno;
  unsetenv(kGuard);
  return absl::InternalError(
      absl::StrFormat("/proc/self/exe: got \"%s\", want to start again with passive waits; the "
                      "environment stays as it is",
                      std::strerror(error)));
}

}  // namespace sluice
