#include "server/check_models.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "base/status_macros.h"
#include "engine/backend.h"
#include "engine/compute_team.h"
#include "server/model_loader.h"

namespace sluice {
namespace {

absl::Status CheckModel(const ModelConfig& config, ComputeTeam& team, Backend& backend) {
  constexpr Bytes kMaxStructure = 16_MiB;
  SLUICE_ASSIGN_OR_RETURN(const ImportedModel imported, ImportModel(config, kMaxStructure));
  absl::StatusOr<std::unique_ptr<Program>> program;
  team.Run([&] { program = backend.Lower(imported.graph, {}); });
  SLUICE_RETURN_IF_ERROR(program.status());
  Bytes weights;
  for (const ExtentInfo& extent : (*program)->extents()) {
    weights += AlignUp(extent.size, kPageSize);
  }
  spdlog::info("model '{}': version {}, opset {}, {} nodes in {} steps, weights {}", config.name,
               config.version, imported.opset, imported.graph.nodes.size(),
               (*program)->steps().size(), FormatBytes(weights));
  return absl::OkStatus();
}

}  // namespace

std::size_t CheckModels(const Config& config) {
  std::size_t wrong = 0;
  std::vector<ModelConfig> models = config.models;
  if (config.model_repository) {
    RepositoryScan scan = ScanRepository(*config.model_repository);
    for (const absl::Status& error : scan.errors) spdlog::error("{}", std::string(error.message()));
    wrong += scan.errors.size();
    for (ModelConfig& model : scan.models) {
      if (std::ranges::find(models, model.name, &ModelConfig::name) != models.end()) {
        spdlog::error("{}: name: got \"{}\", want one that `models` does not have", model.where,
                      model.name);
        ++wrong;
        continue;
      }
      models.push_back(std::move(model));
    }
  }
  ComputeTeam team(1);
  const std::unique_ptr<Backend> backend = CpuBackend(1);
  for (const ModelConfig& model : models) {
    const absl::Status checked = CheckModel(model, team, *backend);
    if (checked.ok()) continue;
    spdlog::error("model '{}' ({}): {}", model.name, model.where, std::string(checked.message()));
    ++wrong;
  }
  return wrong;
}

}  // namespace sluice
