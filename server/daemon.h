// server/daemon.h
//
// The daemon's life: start, serve, reload, drain.

#ifndef SLUICE_SERVER_DAEMON_H_
#define SLUICE_SERVER_DAEMON_H_

#include <filesystem>

#include "server/config.h"
#include "server/exit_code.h"

namespace sluice {

// Serves until SIGTERM or SIGINT; SIGHUP reads `path` again. Call on the main thread, before any
// other thread exists: signals are blocked for all of them.
ExitCode Serve(const std::filesystem::path& path, const Config& config);

}  // namespace sluice

#endif  // SLUICE_SERVER_DAEMON_H_
