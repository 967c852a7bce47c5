// The model repository: NAME/VERSION/model.onnx and NAME/model.yaml.

#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <optional>
#include <string>
#include <system_error>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_format.h"
#include "base/regular_file.h"
#include "base/status_macros.h"
#include "server/config.h"
#include "server/config_keys.h"
#include "server/setting.h"
#include "server/yaml_tree.h"

namespace sluice {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kMaxEntries = 10'000;

// Names in a folder, sorted; without those that start with a dot.
absl::StatusOr<std::vector<std::string>> List(const fs::path& folder) {
  std::vector<std::string> names;
  std::error_code error;
  fs::directory_iterator entry(folder, error);
  for (; !error && entry != fs::directory_iterator(); entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    if (name.starts_with('.')) continue;
    if (names.size() == kMaxEntries) {
      return absl::InvalidArgumentError(absl::StrFormat("%s: got more than %d entries, want fewer",
                                                        folder.string(), kMaxEntries));
    }
    names.push_back(name);
  }
  if (error) {
    return absl::InvalidArgumentError(absl::StrFormat("%s: got \"%s\", want a readable folder",
                                                      folder.string(), error.message()));
  }
  std::ranges::sort(names);
  return names;
}

bool IsFolder(const fs::path& path) {
  std::error_code error;
  return fs::is_directory(path, error);
}

// Fails: INVALID_ARGUMENT, `path` is no file, or leads out of `root` once links are resolved.
absl::Status CheckFile(const fs::path& path, const fs::path& root) {
  SLUICE_ASSIGN_OR_RETURN(const RegularFile file, OpenRegularFile(path, root));
  close(file.fd);
  return absl::OkStatus();
}

std::optional<std::int64_t> VersionOf(std::string_view name) {
  const std::optional<std::int64_t> version = ParseInteger(name);
  const bool plain =
      version && *version >= 1 && *version <= 2147483647 && absl::StrFormat("%d", *version) == name;
  return plain ? version : std::nullopt;
}

// The folder of the highest version, or of the one that the description asks for.
absl::StatusOr<std::string> ChooseVersion(const fs::path& folder,
                                          const std::optional<std::string>& asked) {
  SLUICE_ASSIGN_OR_RETURN(const std::vector<std::string> names, List(folder));
  std::int64_t best = 0;
  for (const std::string& name : names) {
    const std::optional<std::int64_t> version = VersionOf(name);
    if (!version || !IsFolder(folder / name)) continue;
    if (asked && *asked == name) return name;
    best = std::max(best, *version);
  }
  if (asked || best == 0) {
    return absl::InvalidArgumentError(
        absl::StrFormat("%s: got no folder %s, want VERSION/model.onnx with a number from 1 up",
                        folder.string(), asked ? *asked : "that is a version"));
  }
  return absl::StrFormat("%d", best);
}

absl::StatusOr<ModelConfig> ScanModel(const fs::path& root, const std::string& name) {
  const fs::path folder = root / name;
  if (!IsModelName(name)) {
    return absl::InvalidArgumentError(absl::StrFormat(
        "%s: got this folder's name, want 1 to 128 of A-Z a-z 0-9 . _ -", folder.string()));
  }
  ModelDescription description;
  const fs::path file = folder / "model.yaml";
  std::error_code error;
  if (fs::exists(fs::symlink_status(file, error))) {
    SLUICE_ASSIGN_OR_RETURN(const std::string text, ReadSmallFile(file, kMaxYamlSize, root));
    SLUICE_ASSIGN_OR_RETURN(const YamlNode node, ParseYaml(text, file.string()));
    ConfigErrors errors(file.string());
    description = ReadModelKeys(node, "", errors);
    if (description.name && *description.name != name) {
      errors.Add(node.line, "name", absl::StrFormat("\"%s\"", *description.name),
                 absl::StrFormat("the folder's name \"%s\", or no such key", name));
    }
    if (description.path) {
      errors.Add(node.line, "path", "a path", "none: the file is VERSION/model.onnx");
    }
    SLUICE_RETURN_IF_ERROR(errors.status());
    description.config.where = absl::StrFormat("%s:%d", file.string(), node.line);
  }
  SLUICE_ASSIGN_OR_RETURN(const std::string version, ChooseVersion(folder, description.version));
  ModelConfig model = std::move(description.config);
  model.name = name;
  model.version = version;
  model.path = folder / version / "model.onnx";
  model.root = root;
  if (model.where.empty()) model.where = folder.string();
  SLUICE_RETURN_IF_ERROR(CheckFile(model.path, root));
  return model;
}

}  // namespace

absl::StatusOr<ModelConfig> ScanRepositoryModel(const fs::path& root, const std::string& name) {
  std::error_code error;
  const fs::path real = fs::canonical(root, error);
  // Nothing of a name that is no model's gets as far as a path.
  if (error || name.starts_with('.') || !IsModelName(name) || !IsFolder(real / name)) {
    return absl::NotFoundError(
        absl::StrFormat("%s: got no folder of that name, want one", root.string()));
  }
  return ScanModel(real, name);
}

RepositoryScan ScanRepository(const fs::path& root) {
  RepositoryScan scan;
  std::error_code error;
  const fs::path real = fs::canonical(root, error);
  if (error) {
    scan.errors.push_back(absl::NotFoundError(absl::StrFormat(
        "%s: model_repository: got \"%s\", want a folder", root.string(), error.message())));
    return scan;
  }
  const absl::StatusOr<std::vector<std::string>> names = List(real);
  if (!names.ok()) {
    scan.errors.push_back(names.status());
    return scan;
  }
  for (const std::string& name : *names) {
    if (!IsFolder(real / name)) continue;  // A README beside the models does no harm.
    absl::StatusOr<ModelConfig> model = ScanModel(real, name);
    if (model.ok()) {
      scan.models.push_back(*std::move(model));
    } else {
      scan.errors.push_back(model.status());
    }
  }
  return scan;
}

}  // namespace sluice
