#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <string>

#include "absl/strings/numbers.h"
#include "absl/strings/str_format.h"
#include "server/config_keys.h"
#include "server/key_table.h"
#include "server/setting.h"

namespace sluice {
namespace {

using config_internal::Infos;
using config_internal::IsText;
using config_internal::Key;
using config_internal::Place;
using config_internal::ReadKeys;
using config_internal::TakeInteger;

bool ApplyDims(const YamlNode& node, const Place<ModelDescription>& place) {
  if (node.kind != YamlNode::Kind::kMap || node.entries.size() > 64) return false;
  for (const auto& [name, value] : node.entries) {
    const std::string key = absl::StrFormat("%s.%s", place.key, name.substr(0, 80));
    std::int64_t size = 0;
    if (name.empty() || name.size() > 256) {
      place.errors.Add(value.line, key, "a name of this length", "1 to 256 characters");
    } else if (value.kind == YamlNode::Kind::kMap) {
      place.errors.Add(value.line, key, Describe(value), "one size ({min, max} is not supported)");
    } else if (!TakeInteger(value, 1, std::numeric_limits<std::int32_t>::max(), size)) {
      place.errors.Add(value.line, key, Describe(value), "a size from 1 to 2147483647");
    } else {
      place.target.config.dims[name] = size;
    }
  }
  return true;
}

// Most numbers of one input, which decide shapes and branches: few do.
constexpr std::size_t kMaxValues = 256;

bool TakeNumber(const YamlNode& node, std::vector<double>& numbers) {
  double number = 0;
  if (!IsText(node) || !absl::SimpleAtod(node.text, &number) || !std::isfinite(number)) {
    return false;
  }
  numbers.push_back(number);
  return true;
}

// One number, or a list of them.
bool TakeNumbers(const YamlNode& node, std::vector<double>& numbers) {
  if (node.kind != YamlNode::Kind::kList) return TakeNumber(node, numbers);
  return !node.items.empty() && node.items.size() <= kMaxValues &&
         std::ranges::all_of(node.items,
                             [&](const YamlNode& item) { return TakeNumber(item, numbers); });
}

bool ApplyValues(const YamlNode& node, const Place<ModelDescription>& place) {
  if (node.kind != YamlNode::Kind::kMap || node.entries.size() > 64) return false;
  for (const auto& [name, value] : node.entries) {
    const std::string key = absl::StrFormat("%s.%s", place.key, name.substr(0, 80));
    std::vector<double> numbers;
    if (name.empty() || name.size() > 256) {
      place.errors.Add(value.line, key, "a name of this length", "1 to 256 characters");
    } else if (!TakeNumbers(value, numbers)) {
      place.errors.Add(value.line, key, Describe(value),
                       absl::StrFormat("a number, or a list of 1 to %d", kMaxValues));
    } else {
      place.target.config.values[name] = std::move(numbers);
    }
  }
  return true;
}

constexpr std::array<Key<ModelDescription>, 11> kModelKeys = {{
    {"name", "a name of 1 to 128 of A-Z a-z 0-9 . _ -",
     [](const YamlNode& node, const Place<ModelDescription>& place) {
       if (!IsText(node) || !IsModelName(node.text)) return false;
       place.target.name = node.text;
       return true;
     }},
    {"version", "a number from 1 to 2147483647",
     [](const YamlNode& node, const Place<ModelDescription>& place) {
       std::int64_t version = 0;
       if (!TakeInteger(node, 1, std::numeric_limits<std::int32_t>::max(), version)) return false;
       place.target.version = absl::StrFormat("%d", version);
       return true;
     }},
    {"path", "the path of a model file (.onnx)",
     [](const YamlNode& node, const Place<ModelDescription>& place) {
       if (!IsText(node) || node.text.empty() || node.text.find('\0') != std::string::npos) {
         return false;
       }
       place.target.path = node.text;
       return true;
     }},
    {"dims", "a map of at most 64 dimensions to sizes, such as {batch: 1, height: 608}", ApplyDims},
    {"values", "a map of at most 64 inputs to numbers, such as {sr: 16000}", ApplyValues},
    {"pipeline", "asynchronous or resident (others are not supported)",
     [](const YamlNode& node, const Place<ModelDescription>& place) {
       if (!IsText(node)) return false;
       using Pipeline = ModelConfig::Pipeline;
       if (node.text == "asynchronous") place.target.config.pipeline = Pipeline::kAsynchronous;
       if (node.text == "resident") place.target.config.pipeline = Pipeline::kResident;
       return node.text == "asynchronous" || node.text == "resident";
     }},
    {"weights", "as_is, fp16, bf16 or int8",
     [](const YamlNode& node, const Place<ModelDescription>& place) {
       const std::optional<WeightStorage> storage =
           IsText(node) ? WeightStorageFromName(node.text) : std::nullopt;
       if (storage) place.target.config.weights = *storage;
       return storage.has_value();
     }},
    {"max_resident", "bytes, such as 16MiB; 0 lets every weight stream",
     [](const YamlNode& node, const Place<ModelDescription>& place) {
       const absl::StatusOr<Bytes> bytes = ParseBytes(IsText(node) ? node.text : "");
       if (!bytes.ok()) return false;
       place.target.config.max_resident = *bytes;
       return true;
     }},
    {"priority", "a number from 1 (highest) to 1000",
     [](const YamlNode& node, const Place<ModelDescription>& place) {
       std::int64_t priority = 0;
       if (!TakeInteger(node, 1, 1000, priority)) return false;
       place.target.config.priority = static_cast<int>(priority);
       return true;
     }},
    {"deadline", "a duration above zero such as 50ms, at most a day",
     [](const YamlNode& node, const Place<ModelDescription>& place) {
       const std::optional<Duration> deadline =
           IsText(node) ? ParseDuration(node.text) : std::nullopt;
       if (!deadline || *deadline <= Duration::zero()) return false;
       place.target.config.deadline = *deadline;
       return true;
     }},
    {"load", "start or explicit (loading on request is not supported)",
     [](const YamlNode& node, const Place<ModelDescription>& place) {
       if (!IsText(node)) return false;
       if (node.text == "start") place.target.config.load = ModelConfig::Load::kStart;
       if (node.text == "explicit") place.target.config.load = ModelConfig::Load::kExplicit;
       return node.text == "start" || node.text == "explicit";
     }},
}};

}  // namespace

std::vector<KeyInfo> ModelKeys() { return Infos(kModelKeys); }

ModelDescription ReadModelKeys(const YamlNode& node, std::string_view prefix,
                               ConfigErrors& errors) {
  ModelDescription description;
  if (node.kind != YamlNode::Kind::kMap) {
    errors.Add(node.line, prefix.empty() ? "model description" : prefix, Describe(node),
               "a map of keys");
    return description;
  }
  const std::string dotted = prefix.empty() ? "" : absl::StrFormat("%s.", prefix);
  ReadKeys<ModelDescription>(node, kModelKeys, "", dotted, description, errors);
  const ModelConfig& config = description.config;
  if (config.max_resident && config.pipeline == ModelConfig::Pipeline::kResident) {
    errors.Add(node.line, absl::StrFormat("%smax_resident", dotted), "pipeline: resident with it",
               "one of the two");
  }
  return description;
}

}  // namespace sluice
