// server/model_service.h
//
// The daemon without its wire: models, their memory, and the queue in front of the compute slot.
// The gRPC services and the metrics page are written against this.

#ifndef SLUICE_SERVER_MODEL_SERVICE_H_
#define SLUICE_SERVER_MODEL_SERVICE_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/bytes.h"
#include "base/clock.h"
#include "engine/program.h"
#include "engine/weight_encoder.h"
#include "server/config.h"
#include "server/memory_ledger.h"
#include "server/statistics.h"
#include "streamer/extent_stream.h"

namespace sluice {

enum class ModelState { kLoading, kReady, kUnavailable };
std::string_view Name(ModelState state);  // "LOADING", "READY", "UNAVAILABLE"

// What a model looks like from outside; plain data, a copy.
struct ModelStatus {
  std::string name, version;
  ModelState state = ModelState::kUnavailable;
  std::string reason;                     // Why it is unavailable.
  std::vector<PortInfo> inputs, outputs;  // Empty until it has been loaded once.
  Bytes weights, resident, activations, ring, kernels;
  Bytes stored;              // Weights as the disk has them.
  WeightError weight_error;  // What storing them changed.
  Duration predicted{};
  std::shared_ptr<const ModelStatistics> statistics;  // Never null.
};

// One inference. The spans are borrowed until `done` has been called.
struct InferenceCall {
  std::string model, version;  // The version may be empty: the one that is loaded.
  std::vector<std::span<const std::byte>> inputs;  // In the model's order, each exactly its size.
  std::vector<std::span<std::byte>> outputs;       // Likewise; empty for one that is not wanted.
  // One for each output, or empty: set for those whose size is computed, of which only the real
  // elements are written.
  std::span<std::int64_t> counts = {};
  int priority = 0;  // 1 is highest; 0: the model's own.
  std::optional<Instant> deadline;
  Instant arrival{};
  // Asked before the call runs and between steps; must not wait.
  std::function<bool()> cancelled;
  // Called exactly once, on any thread, also when Infer is refused.
  std::function<void(absl::Status)> done;
};

struct MemoryReport {
  Bytes budget;
  std::string budget_source;
  Bytes reserved;
  std::vector<MemoryLedger::Line> lines;   // With what is in use of each: base_memory.h.
  Bytes resident, peak_resident, swapped;  // Of the process, from the kernel.
  // Resident and swapped less what the lines use: what no line explains.
  std::int64_t unaccounted = 0;
  std::string device;
  Duration uptime{};
};

// How often the configuration was read again, and when last; the start counts as the first time.
struct ReloadReport {
  std::uint64_t succeeded = 0, failed = 0;
  bool last_succeeded = true;
  double last_success_seconds = 0;  // Since 1970.
};

// Threads: callable from several at once; nothing here waits for an inference or a load, except
// Shutdown and what says so.
class ModelService {
 public:
  // Opens everything but the models, and reserves what an empty daemon takes.
  // Fails: FAILED_PRECONDITION, the budget is below that, with both numbers; UNAVAILABLE, cache_dir
  //        cannot be written.
  static absl::StatusOr<std::unique_ptr<ModelService>> Open(const Config& config);
  // Measures the base, which is why all else of the daemon runs by now, and begins to load, in the
  // order of the configuration, on a thread of its own. Called once.
  // Fails: FAILED_PRECONDITION, the budget is below what the empty daemon holds.
  absl::Status LoadAtStart();
  // Both, for a service without a wire.
  static absl::StatusOr<std::unique_ptr<ModelService>> Start(const Config& config);
  ~ModelService();

  // True once every model that loads at start has been loaded or refused.
  bool ready() const;
  std::vector<ModelStatus> models() const;
  // Fails: NOT_FOUND "Request for unknown model: ..." for a name or version that is not known;
  //        INVALID_ARGUMENT for a version that is no number.
  absl::StatusOr<ModelStatus> Find(std::string_view name, std::string_view version) const;
  MemoryReport memory() const;

  // Sizes the request's memory before it is read. The reservation lives as long as the request.
  // A refusal is counted in the statistics of `model`, where one is named.
  // Fails: RESOURCE_EXHAUSTED over budget now; UNAVAILABLE too many in flight, or draining.
  absl::StatusOr<Reservation> AdmitRequest(Bytes bytes, std::string_view model = {});

  // The most that all requests together may reserve: one that takes more is never admitted.
  Bytes requests_room() const;

  // Puts the call in the model's queue. `done` gets: OK; NOT_FOUND; UNAVAILABLE (loading, cannot be
  // loaded, queue full, draining); DEADLINE_EXCEEDED; CANCELLED; DATA_LOSS; INTERNAL.
  void Infer(InferenceCall call);

  // Reads repository and model descriptions again: new models are loaded, vanished ones unloaded,
  // changed ones loaded anew. Other keys need a restart, and a log line says so.
  void Reload(const Config& config);
  // At run time, for clients. `answered` is called exactly once, on any thread, when the model is
  // ready or gone, or with why not; a load that was refused leaves what was loaded as it was.
  // Load:   finds the model in the configuration, or in the repository as it is now. Loads it, or
  //         loads it anew when its description or its file have changed.
  // Unload: answers the calls that wait, then takes the model out of memory; it stays known.
  // Fail:   NOT_FOUND, no such model; UNAVAILABLE, draining, or too many such calls wait; what
  //         loading fails with. Texts begin "failed to load" and "failed to unload".
  using Answered = std::function<void(const absl::Status&)>;
  void Load(std::string model, Answered answered);
  void Unload(std::string model, Answered answered);
  // For the metrics: false for a configuration with errors, or a certificate that was refused.
  void CountReload(bool succeeded);
  ReloadReport reloads() const;
  // All that was read from the disk. Lives as long as the service.
  const StorageStatistics& storage() const;
  // True while a load, a reload or a repair runs or waits.
  bool loading() const;

  // Grows while the daemon works: with every step, every packed extent, and, when idle, every turn
  // of the compute team. Asks for such a turn; a watchdog calls it in intervals, and a number that
  // has not changed since means that compute team or reader hang.
  std::uint64_t Progress();

  // Called after each change of a model's state, on any thread; must not wait.
  void OnChange(std::function<void()> listener);

  // Refuses what comes, finishes what runs or waits until `until`, then cancels the rest. Waits.
  void Shutdown(Instant until);

 private:
  class Impl;
  explicit ModelService(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace sluice

#endif  // SLUICE_SERVER_MODEL_SERVICE_H_
