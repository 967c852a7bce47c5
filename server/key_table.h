// server/key_table.h
//
// How a table of keys is walked: for config_keys.cc and model_keys.cc alone.

#ifndef SLUICE_SERVER_KEY_TABLE_H_
#define SLUICE_SERVER_KEY_TABLE_H_

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/strings/str_format.h"
#include "server/config_keys.h"
#include "server/setting.h"
#include "server/yaml_tree.h"

namespace sluice::config_internal {

// Where a key's value goes, and where its errors go.
template <typename Target>
struct Place {
  Target& target;
  ConfigErrors& errors;
  std::string key;  // Whole, for errors: "models[2].dims".
};

template <typename Target>
struct Key {
  std::string_view path;
  std::string_view wanted;
  // False: the value is not what is wanted. True also when it has added a finer error itself.
  bool (*apply)(const YamlNode& value, const Place<Target>& place);
};

inline bool IsText(const YamlNode& node) { return node.kind == YamlNode::Kind::kScalar; }

inline bool TakeInteger(const YamlNode& node, std::int64_t low, std::int64_t high,
                        std::int64_t& into) {
  if (!IsText(node)) return false;
  const std::optional<std::int64_t> value = ParseInteger(node.text);
  if (!value || *value < low || *value > high) return false;
  into = *value;
  return true;
}

template <typename Target>
void RefuseUnknownKey(std::span<const Key<Target>> keys, std::string_view path,
                      std::string_view prefix, int line, ConfigErrors& errors) {
  std::vector<std::string_view> known;
  for (const Key<Target>& key : keys) known.push_back(key.path);
  // A word is also looked for as a section and without one: "budget" is "memory.budget".
  std::vector<std::string_view> words = known;
  for (const std::string_view key : known) {
    if (const std::size_t dot = key.find('.'); dot != std::string_view::npos) {
      words.push_back(key.substr(0, dot));
      words.push_back(key.substr(dot + 1));
    }
  }
  std::string wanted = "a known key (docs/configuration.md lists them)";
  if (const std::optional<std::string_view> nearest = Nearest(path, words)) {
    std::string_view meant = *nearest;
    for (const std::string_view key : known) {
      if (key.ends_with(absl::StrFormat(".%s", meant))) meant = key;
    }
    wanted = absl::StrFormat("a known key: did you mean \"%s\"?", meant);
  }
  errors.Add(line, absl::StrFormat("%s%s", prefix, path.substr(0, 80)), "an unknown key", wanted);
}

// Walks a map; keys of a section are written in the table as SECTION.KEY.
template <typename Target>
void ReadKeys(const YamlNode& map, std::span<const Key<Target>> keys, std::string_view section,
              std::string_view prefix, Target& target, ConfigErrors& errors) {
  for (const auto& [name, value] : map.entries) {
    const std::string path = absl::StrFormat("%s%s", section, name);
    const auto key = std::ranges::find(keys, path, &Key<Target>::path);
    if (key != keys.end()) {
      const std::string whole = absl::StrFormat("%s%s", prefix, path);
      if (!key->apply(value, {target, errors, whole})) {
        errors.Add(value.line, whole, Describe(value), key->wanted);
      }
      continue;
    }
    const std::string inside = path + ".";
    const bool is_section = std::ranges::any_of(
        keys, [&](const Key<Target>& known) { return known.path.starts_with(inside); });
    if (!is_section) {
      RefuseUnknownKey(keys, path, prefix, value.line, errors);
    } else if (value.kind == YamlNode::Kind::kMap) {
      ReadKeys(value, keys, inside, prefix, target, errors);
    } else if (value.kind != YamlNode::Kind::kNull) {
      errors.Add(value.line, path, Describe(value), "a map");
    }
  }
}

template <typename Target, std::size_t n>
std::vector<KeyInfo> Infos(const std::array<Key<Target>, n>& keys) {
  std::vector<KeyInfo> infos;
  infos.reserve(n);
  for (const Key<Target>& key : keys) infos.push_back({key.path, key.wanted});
  return infos;
}

}  // namespace sluice::config_internal

#endif  // SLUICE_SERVER_KEY_TABLE_H_
