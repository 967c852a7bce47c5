// server/config.h
//
// The daemon's configuration (YAML; docs/configuration.md has a line for every key).

#ifndef SLUICE_SERVER_CONFIG_H_
#define SLUICE_SERVER_CONFIG_H_

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/bytes.h"
#include "base/clock.h"

namespace sluice {

// A model description: an entry of `models:`, or the file NAME/model.yaml in the repository.
struct ModelConfig {
  enum class Pipeline { kAsynchronous, kResident };
  enum class Load { kStart, kExplicit };

  std::string name;
  std::string version = "1";
  std::filesystem::path path;  // The model file.
  std::filesystem::path root;  // External data must lie in it.
  std::map<std::string, std::int64_t> dims;
  Pipeline pipeline = Pipeline::kAsynchronous;
  std::optional<Bytes> max_resident;  // Most of its weights that stay in memory; the rest streams.
  int priority = 2;                   // 1 is highest.
  std::optional<Duration> deadline;   // For requests that bring none.
  Load load = Load::kStart;
  std::string where;  // "FILE:LINE", for errors.
};

struct Config {
  std::string server_name = "sluice";
  std::vector<std::string> listen = {"127.0.0.1:8001"};  // HOST:PORT or unix:/PATH.
  std::optional<std::string> metrics_listen;             // HOST:PORT; nothing is exported without.
  bool insecure = false;        // Allows addresses beyond loopback without TLS.
  std::optional<Bytes> budget;  // Of the whole process; or `budget_percent` of the machine.
  double budget_percent = 50;
  std::filesystem::path cache_dir = "/var/cache/sluice";
  int threads = 0;  // 0: as many as the process may use.
  bool io_uring = true;
  std::optional<Bytes> max_request;  // One message on the wire; see LargestMessage.
  std::size_t max_queue = 64;        // Waiting requests of one model.
  std::size_t max_in_flight = 256;   // Requests in the whole daemon.
  Duration drain_timeout = std::chrono::seconds(30);
  std::string log_level = "info";
  std::optional<std::filesystem::path> model_repository;
  std::vector<ModelConfig>
      models;  // Those of the file; the repository's are found when it is scanned.
};

// The largest message that is taken. gRPC holds a message before anybody can refuse it, so this
// much of the budget is set aside: a sixteenth, and 4 MiB at least, unless the configuration says
// otherwise, which may take a quarter.
Bytes LargestMessage(const Config& config, Bytes budget);

// Fails: INVALID_ARGUMENT, with every error found, a line each:
//        "FILE:LINE: KEY: got FOUND, want WANTED". NOT_FOUND, no such file.
absl::StatusOr<Config> ReadConfig(const std::filesystem::path& path);

// Models of the repository: NAME/VERSION/model.onnx, the highest version of each, with the keys of
// NAME/model.yaml where there is one. Links that lead out of the repository are refused.
// Fails: as ReadConfig; one bad model does not hide the others: its error is in `errors`.
struct RepositoryScan {
  std::vector<ModelConfig> models;
  std::vector<absl::Status> errors;
};
RepositoryScan ScanRepository(const std::filesystem::path& root);

}  // namespace sluice

#endif  // SLUICE_SERVER_CONFIG_H_
