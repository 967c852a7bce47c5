// sluiced: the daemon's program.

#include <spdlog/spdlog.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <string>

#include "absl/strings/str_format.h"
#include "server/check_models.h"
#include "server/config.h"
#include "server/daemon.h"
#include "server/grpc_server.h"
#include "server/log_format.h"
#include "server/private_folder.h"
#include "server/process_environment.h"
#include "server/verbs.h"

namespace sluice {
namespace {

int Main(int argc, char** argv) {
  CLI::App app("Serves neural networks inside one memory budget.", "sluiced");
  std::string path = "/etc/sluice/sluice.yaml";
  bool check = false;
  app.add_option("-c,--config", path, "Configuration file")->capture_default_str();
  app.add_flag("--check", check, "Say what is wrong with configuration and models, and exit");
  Verbs verbs(app);
  app.set_version_flag("--version", std::string("sluiced ") + SLUICE_VERSION);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    // Help and version are reported by the same exception, with success.
    return app.exit(error) == 0 ? 0 : static_cast<int>(ExitCode::kUsage);
  }
  SetUpLog();
  if (const std::optional<int> code = verbs.Run(argv)) return *code;
  const absl::StatusOr<Config> config = ReadConfig(path);
  if (!config.ok()) {
    spdlog::critical("{}", std::string(config.status().message()));
    return static_cast<int>(ExitCode::kConfiguration);
  }
  if (const absl::Status restarted = RestartWithEnvironment(*config, argv); !restarted.ok()) {
    spdlog::warn("{}", std::string(restarted.message()));
  }
  SetLogLevel(config->log_level);
  const auto warnings = GrpcServer::Check(*config);
  if (!warnings.ok()) {
    spdlog::critical("{}: {}", path, std::string(warnings.status().message()));
    return static_cast<int>(ExitCode::kConfiguration);
  }
  for (const std::string& warning : *warnings) spdlog::warn("{}", warning);
  if (check) {
    const absl::Status cache = CheckPrivateFolder(config->cache_dir);
    if (!cache.ok() && !absl::IsNotFound(cache)) {
      spdlog::critical("{}: cache_dir: {}", path, std::string(cache.message()));
      return static_cast<int>(ExitCode::kConfiguration);
    }
    if (CheckModels(*config) > 0) return static_cast<int>(ExitCode::kConfiguration);
    spdlog::info("{}: everything is right", path);
    return 0;
  }
  return static_cast<int>(Serve(path, *config));
}

}  // namespace
}  // namespace sluice

int main(int argc, char** argv) { return sluice::Main(argc, argv); }
