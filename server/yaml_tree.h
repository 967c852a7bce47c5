// server/yaml_tree.h
//
// A YAML document as a plain tree that remembers lines. Limits keep a hostile file cheap: it is at
// most 256 KiB, 16 levels deep, and has no anchors, aliases or second document.

#ifndef SLUICE_SERVER_YAML_TREE_H_
#define SLUICE_SERVER_YAML_TREE_H_

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "base/bytes.h"

namespace sluice {

struct YamlEntry;

struct YamlNode {
  enum class Kind { kNull, kScalar, kList, kMap };
  Kind kind = Kind::kNull;
  int line = 0;  // Counted from 1.
  std::string text;
  std::vector<YamlNode> items;     // Of a list.
  std::vector<YamlEntry> entries;  // Of a map, as in the file.
};

// A type of its own, because a pair of an unfinished type is more than clang 14 takes.
struct YamlEntry {
  std::string key;
  YamlNode value;
};

inline constexpr Bytes kMaxYamlSize = 256_KiB;
inline constexpr int kMaxYamlDepth = 16;

// An empty document is an empty map.
// Fails: INVALID_ARGUMENT, "NAME:LINE: what is wrong".
absl::StatusOr<YamlNode> ParseYaml(std::string_view text, std::string_view name);

// What the node is, for an error: `"abc"`, `a list`, `a map`, `nothing`. Long text is cut.
std::string Describe(const YamlNode& node);

}  // namespace sluice

#endif  // SLUICE_SERVER_YAML_TREE_H_
