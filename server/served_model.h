// server/served_model.h
//
// A model that the daemon knows, from the first line of its description until it vanishes.

#ifndef SLUICE_SERVER_SERVED_MODEL_H_
#define SLUICE_SERVER_SERVED_MODEL_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "planner/residency.h"
#include "server/config.h"
#include "server/memory_ledger.h"
#include "server/model_service.h"
#include "server/statistics.h"
#include "streamer/executor.h"

namespace sluice {

// What a model runs with. Reservations are given back after the memory itself.
struct LoadedModel {
  Reservation kernels, metadata, weights;
  std::unique_ptr<StreamedModel> streamed;
  std::vector<StepCost> costs;
  std::uint64_t answer = 0;       // Of its self-test, once it has been measured.
  StreamPlan plan;                // As applied.
  std::string stamp;              // Size and times of its files, as imported.
  absl::Status damage;            // Not OK when its weights could not be brought into memory.
  std::vector<Bytes> read_bytes;  // Of the disk, by extent: whole pages.
  std::map<std::string, std::vector<std::byte>> required;  // Contents of inputs: PortInfo.
  std::vector<Bytes> input_bytes, output_bytes;            // Of one inference, by port.
};

struct ServedModel {
  explicit ServedModel(std::string model_name)
      : name(std::move(model_name)), statistics(std::make_shared<ModelStatistics>()) {}

  const std::string name;
  const std::shared_ptr<ModelStatistics> statistics;  // Shared: scrapes may outlive the model.

  // The description, and what the outside sees. Changed under the registry's lock, `config` by the
  // loader's thread alone, which therefore reads it without.
  ModelConfig config;
  ModelStatus status;

  // What a client asked for at run time; it stands until the description's `load` changes. The
  // loader's thread alone.
  enum class Wish { kAsDescribed, kLoaded, kUnloaded };
  Wish wish = Wish::kAsDescribed;

  // Null while not loaded. The loader's thread alone changes it, and only on the compute team
  // between inferences; so either may read it without a lock.
  std::unique_ptr<LoadedModel> loaded;
};

}  // namespace sluice

#endif  // SLUICE_SERVER_SERVED_MODEL_H_
