// server/config_keys.h
//
// Every key of the configuration, once: its name, what it takes, and how it is stored. The parser,
// the suggestions for misspelt keys, and the test of docs/configuration.md read the same tables.

#ifndef SLUICE_SERVER_CONFIG_KEYS_H_
#define SLUICE_SERVER_CONFIG_KEYS_H_

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "server/config.h"
#include "server/yaml_tree.h"

namespace sluice {

struct KeyInfo {
  std::string_view path;    // "memory.budget"
  std::string_view wanted;  // "bytes such as 256MiB, or ..."
};
std::vector<KeyInfo> DaemonKeys();  // Of the file.
std::vector<KeyInfo> ModelKeys();   // Of a model description.

// Errors of one file, a line each.
class ConfigErrors {
 public:
  explicit ConfigErrors(std::string file) : file_(std::move(file)) {}
  void Add(int line, std::string_view key, std::string_view found, std::string_view wanted);
  const std::string& file() const { return file_; }
  // OK when there are none.
  absl::Status status() const;

 private:
  std::string file_;
  std::size_t count_ = 0;
  std::string lines_;
};

void ReadDaemonKeys(const YamlNode& root, ConfigErrors& errors, Config& config);

// What a description says; `name`, `path` and `version` are where it is read, so whoever asked for
// it decides whether they must be there.
struct ModelDescription {
  ModelConfig config;
  std::optional<std::string> name;
  std::optional<std::filesystem::path> path;
  std::optional<std::string> version;
};
ModelDescription ReadModelKeys(const YamlNode& node, std::string_view prefix, ConfigErrors& errors);

}  // namespace sluice

#endif  // SLUICE_SERVER_CONFIG_KEYS_H_
