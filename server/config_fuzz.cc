// Any bytes as a configuration: they are read or refused, and what is read is within its limits.

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/check.h"
#include "server/config_keys.h"
#include "server/setting.h"
#include "server/yaml_tree.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using sluice::Config;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const absl::StatusOr<sluice::YamlNode> root = sluice::ParseYaml(text, "sluice.yaml");
  if (!root.ok()) return 0;
  sluice::ConfigErrors errors("sluice.yaml");
  Config config;
  sluice::ReadDaemonKeys(*root, errors, config);
  if (!errors.status().ok()) return 0;
  SLUICE_CHECK(!config.listen.empty());
  for (const std::string& listen : config.listen) {
    SLUICE_CHECK(sluice::ParseListenAddress(listen).has_value());
  }
  for (const sluice::ModelConfig& model : config.models) {
    SLUICE_CHECK(sluice::IsModelName(model.name));
    SLUICE_CHECK(!model.path.empty() && model.priority >= 1);
    for (const auto& [name, dimension] : model.dims) SLUICE_CHECK(dimension >= 1);
  }
  return 0;
}
