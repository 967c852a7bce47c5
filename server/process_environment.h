// server/process_environment.h
//
// Settings that libraries read from the environment as they are loaded: the team of threads waits
// passively and has the configured size, and the allocator keeps few arenas and no caches of
// threads. The program sets them and starts itself once more.

#ifndef SLUICE_SERVER_PROCESS_ENVIRONMENT_H_
#define SLUICE_SERVER_PROCESS_ENVIRONMENT_H_

#include "absl/status/status.h"
#include "server/config.h"

namespace sluice {

// Does not return the first time, unless the program cannot be started again; returns OK the
// second time. Call before any thread exists.
absl::Status RestartWithEnvironment(const Config& config, char** argv);

}  // namespace sluice

#endif  // SLUICE_SERVER_PROCESS_ENVIRONMENT_H_
