#include "server/config_keys.h"

#include <algorithm>
#include <array>
#include <limits>
#include <span>

#include "absl/strings/str_format.h"
#include "server/setting.h"

namespace sluice {
namespace {

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

struct DaemonTarget {
  Config& config;
  struct Address {
    int line;
    std::string key, text;
  };
  std::vector<Address> addresses = {};
};

bool IsText(const YamlNode& node) { return node.kind == YamlNode::Kind::kScalar; }

bool TakeInteger(const YamlNode& node, std::int64_t low, std::int64_t high, std::int64_t& into) {
  if (!IsText(node)) return false;
  const std::optional<std::int64_t> value = ParseInteger(node.text);
  if (!value || *value < low || *value > high) return false;
  into = *value;
  return true;
}

bool TakeCount(const YamlNode& node, std::int64_t high, std::size_t& into) {
  std::int64_t value = 0;
  if (!TakeInteger(node, 1, high, value)) return false;
  into = static_cast<std::size_t>(value);
  return true;
}

bool TakeBool(const YamlNode& node, bool& into) {
  if (!IsText(node)) return false;
  const std::optional<bool> value = ParseBool(node.text);
  if (value) into = *value;
  return value.has_value();
}

bool TakeAbsolutePath(const YamlNode& node, std::filesystem::path& into) {
  if (!IsText(node) || !node.text.starts_with('/') || node.text.find('\0') != std::string::npos) {
    return false;
  }
  into = std::filesystem::path(node.text).lexically_normal();
  return true;
}

bool TakeAddress(const YamlNode& node, const Place<DaemonTarget>& place, std::string key) {
  if (!IsText(node) || !ParseListenAddress(node.text)) return false;
  place.target.addresses.push_back({node.line, std::move(key), node.text});
  return true;
}

constexpr std::string_view kAddressForm =
    "HOST:PORT, [IPV6]:PORT or unix:/PATH (at most 107 bytes)";

bool ApplyListen(const YamlNode& node, const Place<DaemonTarget>& place) {
  if (node.kind != YamlNode::Kind::kList || node.items.empty() || node.items.size() > 16) {
    return false;
  }
  std::vector<std::string> listen;
  for (std::size_t i = 0; i < node.items.size(); ++i) {
    const YamlNode& item = node.items[i];
    const std::string key = absl::StrFormat("%s[%d]", place.key, i);
    if (std::ranges::find(listen, item.text) != listen.end()) {
      place.errors.Add(item.line, key, Describe(item), "each address once");
    } else if (!TakeAddress(item, place, key)) {
      place.errors.Add(item.line, key, Describe(item), kAddressForm);
    }
    listen.push_back(item.text);
  }
  place.target.config.listen = std::move(listen);
  return true;
}

bool ApplyBudget(const YamlNode& node, const Place<DaemonTarget>& place) {
  if (!IsText(node)) return false;
  Config& config = place.target.config;
  if (const std::optional<double> percent = ParsePercentage(node.text)) {
    config.budget.reset();
    config.budget_percent = *percent;
    return true;
  }
  const absl::StatusOr<Bytes> bytes = ParseBytes(node.text);
  if (!bytes.ok() || bytes->count() == 0) return false;
  config.budget = *bytes;
  return true;
}

bool ApplyMaxRequest(const YamlNode& node, const Place<DaemonTarget>& place) {
  if (!IsText(node)) return false;
  const absl::StatusOr<Bytes> bytes = ParseBytes(node.text);
  // gRPC counts the bytes of a message with a signed 32-bit number.
  if (!bytes.ok() || *bytes < 1_KiB ||
      bytes->count() > static_cast<std::uint64_t>(std::numeric_limits<std::int32_t>::max())) {
    return false;
  }
  place.target.config.max_request = *bytes;
  return true;
}

bool ApplyModels(const YamlNode& node, const Place<DaemonTarget>& place) {
  if (node.kind == YamlNode::Kind::kNull) return true;
  if (node.kind != YamlNode::Kind::kList || node.items.size() > 1000) return false;
  ConfigErrors& errors = place.errors;
  std::vector<ModelConfig>& models = place.target.config.models;
  for (std::size_t i = 0; i < node.items.size(); ++i) {
    const YamlNode& item = node.items[i];
    const std::string prefix = absl::StrFormat("%s[%d]", place.key, i);
    ModelDescription read = ReadModelKeys(item, prefix, errors);
    if (item.kind != YamlNode::Kind::kMap) continue;
    if (!read.name) errors.Add(item.line, prefix + ".name", "nothing", "the model's name");
    if (!read.path) errors.Add(item.line, prefix + ".path", "nothing", "the model's file");
    if (!read.name || !read.path) continue;
    if (std::ranges::find(models, *read.name, &ModelConfig::name) != models.end()) {
      errors.Add(item.line, prefix + ".name", absl::StrFormat("\"%s\" again", *read.name),
                 "each name once");
    }
    ModelConfig model = std::move(read.config);
    const auto folder = std::filesystem::path(errors.file()).parent_path();
    model.name = *read.name;
    model.path = (folder / *read.path).lexically_normal();
    model.root = model.path.parent_path();
    if (read.version) model.version = *read.version;
    model.where = absl::StrFormat("%s:%d", errors.file(), item.line);
    models.push_back(std::move(model));
  }
  return true;
}

constexpr std::array<std::string_view, 6> kLogLevels = {"trace", "debug", "info",
                                                        "warn",  "error", "off"};

constexpr std::array<Key<DaemonTarget>, 16> kDaemonKeys = {{
    {"server_name", "a name of 1 to 128 characters",
     [](const YamlNode& node, const Place<DaemonTarget>& place) {
       if (!IsText(node) || node.text.empty() || node.text.size() > 128) return false;
       place.target.config.server_name = node.text;
       return true;
     }},
    {"listen", "a list of 1 to 16 addresses", ApplyListen},
    {"insecure", "true or false",
     [](const YamlNode& node, const Place<DaemonTarget>& place) {
       return TakeBool(node, place.target.config.insecure);
     }},
    {"metrics.listen", "HOST:PORT or [IPV6]:PORT",
     [](const YamlNode& node, const Place<DaemonTarget>& place) {
       if (node.text.starts_with("unix:") || !TakeAddress(node, place, place.key)) return false;
       place.target.config.metrics_listen = node.text;
       return true;
     }},
    {"memory.budget", "bytes such as 256MiB, or a percentage of the machine's memory such as 50%",
     ApplyBudget},
    {"cache_dir", "an absolute path of a folder",
     [](const YamlNode& node, const Place<DaemonTarget>& place) {
       return TakeAbsolutePath(node, place.target.config.cache_dir);
     }},
    {"compute.threads", "a number of threads from 0 (as many as allowed) to 256",
     [](const YamlNode& node, const Place<DaemonTarget>& place) {
       std::int64_t threads = 0;
       if (!TakeInteger(node, 0, 256, threads)) return false;
       place.target.config.threads = static_cast<int>(threads);
       return true;
     }},
    {"compute.slots", "1 (several inferences at a time are not supported)",
     [](const YamlNode& node, const Place<DaemonTarget>&) {
       std::int64_t slots = 0;
       return TakeInteger(node, 1, 1, slots);
     }},
    {"storage.io_uring", "true or false",
     [](const YamlNode& node, const Place<DaemonTarget>& place) {
       return TakeBool(node, place.target.config.io_uring);
     }},
    {"limits.max_request", "bytes of one message, 1KiB to 2GiB less one byte", ApplyMaxRequest},
    {"limits.max_queue", "a number of requests from 1 to 10000",
     [](const YamlNode& node, const Place<DaemonTarget>& place) {
       return TakeCount(node, 10'000, place.target.config.max_queue);
     }},
    {"limits.max_in_flight", "a number of requests from 1 to 10000",
     [](const YamlNode& node, const Place<DaemonTarget>& place) {
       return TakeCount(node, 10'000, place.target.config.max_in_flight);
     }},
    {"drain_timeout", "a duration such as 30s, at most a day",
     [](const YamlNode& node, const Place<DaemonTarget>& place) {
       const std::optional<Duration> drain = IsText(node) ? ParseDuration(node.text) : std::nullopt;
       if (drain) place.target.config.drain_timeout = *drain;
       return drain.has_value();
     }},
    {"log.level", "trace, debug, info, warn, error or off",
     [](const YamlNode& node, const Place<DaemonTarget>& place) {
       if (!IsText(node) || std::ranges::find(kLogLevels, node.text) == kLogLevels.end()) {
         return false;
       }
       place.target.config.log_level = node.text;
       return true;
     }},
    {"model_repository", "an absolute path of a folder",
     [](const YamlNode& node, const Place<DaemonTarget>& place) {
       std::filesystem::path path;
       if (!TakeAbsolutePath(node, path)) return false;
       place.target.config.model_repository = std::move(path);
       return true;
     }},
    {"models", "a list of at most 1000 model descriptions", ApplyModels},
}};

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

constexpr std::array<Key<ModelDescription>, 9> kModelKeys = {{
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
    {"pipeline", "asynchronous or resident (others are not supported)",
     [](const YamlNode& node, const Place<ModelDescription>& place) {
       if (!IsText(node)) return false;
       using Pipeline = ModelConfig::Pipeline;
       if (node.text == "asynchronous") place.target.config.pipeline = Pipeline::kAsynchronous;
       if (node.text == "resident") place.target.config.pipeline = Pipeline::kResident;
       return node.text == "asynchronous" || node.text == "resident";
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
  for (const Key<Target>& key : keys) infos.push_back({key.path, key.wanted});
  return infos;
}

}  // namespace

std::vector<KeyInfo> DaemonKeys() { return Infos(kDaemonKeys); }
std::vector<KeyInfo> ModelKeys() { return Infos(kModelKeys); }

void ReadDaemonKeys(const YamlNode& root, ConfigErrors& errors, Config& config) {
  if (root.kind != YamlNode::Kind::kMap) {
    return errors.Add(root.line, "configuration", Describe(root), "a map of keys");
  }
  DaemonTarget target{config};
  ReadKeys<DaemonTarget>(root, kDaemonKeys, "", "", target, errors);
  for (const DaemonTarget::Address& address : target.addresses) {
    const std::optional<ListenAddress> parsed = ParseListenAddress(address.text);
    if (config.insecure || parsed->loopback()) continue;
    errors.Add(address.line, address.key,
               absl::StrFormat("\"%s\", which other machines can reach without TLS", address.text),
               "an address of this machine alone (127.0.0.1, [::1], unix:), or `insecure: true`");
  }
}

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
