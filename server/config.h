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
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "base/bytes.h"
#include "base/clock.h"
#include "engine/weight_encoding.h"

namespace sluice {

// A model description: an entry of `models:`, or the file NAME/model.yaml in the repository.
struct ModelConfig {
  enum class Pipeline { kAsynchronous, kResident };
  enum class Load { kStart, kExplicit };

  std::string name;
  std::string version = "1";
  std::filesystem::path path;  // The model file.
  std::filesystem::path root;  // Where model and external data must lie; empty: see ImportOptions.
  std::map<std::string, std::int64_t> dims;
  // Contents of inputs that decide shapes or branches; requests must bring the same.
  std::map<std::string, std::vector<double>> values;
  Pipeline pipeline = Pipeline::kAsynchronous;
  WeightStorage weights = WeightStorage::kAsIs;
  std::optional<Bytes> max_resident;  // Most of its weights that stay in memory; the rest streams.
  int priority = 2;                   // 1 is highest.
  std::optional<Duration> deadline;   // For requests that bring none.
  Load load = Load::kStart;
  std::string where;  // "FILE:LINE", for errors.
};

// Files in PEM form that make addresses speak TLS; server/tls_identity.h reads them.
struct TlsConfig {
  std::filesystem::path certificate;  // Of the server, then those that signed it.
  std::filesystem::path key;
  std::optional<std::filesystem::path> client_ca;  // Clients must show a certificate it signed.
  bool loopback = false;                           // Loopback addresses speak TLS too.
  bool operator==(const TlsConfig&) const = default;
};

// Who may connect to the Unix sockets.
struct SocketAccess {
  unsigned mode = 0660;
  std::optional<std::string> group;  // A name or a number; absent: the process's.
  bool operator==(const SocketAccess&) const = default;
};

struct Config {
  std::string server_name = "sluice";
  std::vector<std::string> listen = {"127.0.0.1:8001"};  // HOST:PORT or unix:/PATH.
  std::optional<std::string> metrics_listen;             // HOST:PORT; nothing is exported without.
  bool metrics_insecure = false;  // Allows a metrics address beyond loopback.
  std::optional<TlsConfig> tls;   // gRPC addresses beyond loopback speak TLS.
  bool insecure = false;          // Allows addresses beyond loopback without TLS.
  SocketAccess socket;
  std::optional<Bytes> budget;  // Of the whole process; or `budget_percent` of the machine.
  double budget_percent = 50;
  std::filesystem::path cache_dir = "/var/cache/sluice";
  std::optional<Bytes> cache_quota;           // Of all packages; or
  std::optional<double> cache_quota_percent;  // of the size of the disk; or what the disk has.
  int threads = 0;                            // 0: as many as the process may use.
  bool io_uring = true;
  std::optional<Bytes> max_request;   // One message on the wire; see ReceiveLimitsOf.
  std::size_t max_queue = 64;         // Waiting requests of one model.
  std::size_t max_in_flight = 256;    // Requests in the whole daemon.
  std::size_t max_connections = 256;  // gRPC's.
  Duration drain_timeout = std::chrono::seconds(30);
  bool control_tcp = false;  // Models are loaded and unloaded over TCP too, not only Unix sockets.
  std::string log_level = "info";
  std::optional<std::filesystem::path> model_repository;
  std::vector<ModelConfig>
      models;  // Those of the file; the repository's are found when it is scanned.
};

// What the wire may hold of messages before they are measured and admitted (message_gate.h). As
// much is set aside of the budget from the start.
struct ReceiveLimits {
  Bytes largest;                 // One message, on the wire and once more when decompressed.
  std::size_t most_waiting = 0;  // Calls that wait for their turn, each with a window sent.
  std::size_t most_calls = 0;    // Open calls of any kind; further ones are refused.
  Bytes memory() const;
};
// A call may send so much before it is asked for its message: HTTP/2's own initial window.
inline constexpr Bytes kReceiveWindow = Bytes::Of(65'535);
// What a call without a message takes of gRPC's memory and ours (docs/benchmarks.md).
inline constexpr Bytes kCallMemory = 18_KiB;
// Calls beside the requests: health, metadata, control.
inline constexpr std::size_t kSmallCalls = 64;
// `largest` is a sixteenth of the budget, and 4 MiB at least, unless the configuration says
// otherwise, which may take a quarter. The windows take a sixteenth at most, the calls half of
// that.
ReceiveLimits ReceiveLimitsOf(const Config& config, Bytes budget);

// Whether a gRPC address of the configuration speaks TLS: those that other machines can reach do,
// and with `tls.loopback` those of the loopback too; Unix sockets never. Requires: well formed.
bool SpeaksTls(const Config& config, std::string_view listen);

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

// One model of the repository.
// Fails: NOT_FOUND, it has no such folder, or there is no repository; INVALID_ARGUMENT, as above.
absl::StatusOr<ModelConfig> ScanRepositoryModel(const std::filesystem::path& root,
                                                const std::string& name);

}  // namespace sluice

#endif  // SLUICE_SERVER_CONFIG_H_
