#include "server/config_keys.h"

#include <algorithm>
#include <array>
#include <limits>
#include <span>

#include "absl/strings/str_format.h"
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

struct DaemonTarget {
  Config& config;
  struct Address {
    int line;
    std::string key, text;
  };
  std::vector<Address> addresses = {};  // gRPC's.
  std::optional<Address> metrics = {};
  std::optional<int> tls_line = {};       // Of the first key of `tls`.
  std::optional<int> insecure_line = {};  // Of `insecure: true`.
};

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

// A file whose path counts from the configuration's folder.
bool TakeFile(const YamlNode& node, const Place<DaemonTarget>& place, std::filesystem::path& into) {
  if (!IsText(node) || node.text.empty() || node.text.find('\0') != std::string::npos) return false;
  const auto folder = std::filesystem::path(place.errors.file()).parent_path();
  into = (folder / node.text).lexically_normal();
  return true;
}

TlsConfig& Tls(const YamlNode& node, const Place<DaemonTarget>& place) {
  if (!place.target.tls_line) place.target.tls_line = node.line;
  std::optional<TlsConfig>& tls = place.target.config.tls;
  return tls ? *tls : tls.emplace();
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

bool ApplyCacheQuota(const YamlNode& node, const Place<DaemonTarget>& place) {
  if (!IsText(node)) return false;
  Config& config = place.target.config;
  config.cache_quota.reset();
  config.cache_quota_percent = ParsePercentage(node.text);
  if (config.cache_quota_percent || node.text == "none") return true;
  const absl::StatusOr<Bytes> bytes = ParseBytes(node.text);
  if (!bytes.ok() || bytes->count() == 0) return false;
  config.cache_quota = *bytes;
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
    if (read.version) model.version = *read.version;
    model.where = absl::StrFormat("%s:%d", errors.file(), item.line);
    models.push_back(std::move(model));
  }
  return true;
}

constexpr std::array<std::string_view, 6> kLogLevels = {"trace", "debug", "info",
                                                        "warn",  "error", "off"};

constexpr std::array<Key<DaemonTarget>, 26> kDaemonKeys = {{
    {"server_name", "a name of 1 to 128 characters",
     [](const YamlNode& node, const Place<DaemonTarget>& place) {
       if (!IsText(node) || node.text.empty() || node.text.size() > 128) return false;
       place.target.config.server_name = node.text;
       return true;
     }},
    {"listen", "a list of 1 to 16 addresses", ApplyListen},
    {"insecure", "true or false",
     [](const YamlNode& node, const Place<DaemonTarget>& place) {
       bool& insecure = place.target.config.insecure;
       if (!TakeBool(node, insecure)) return false;
       if (insecure) place.target.insecure_line = node.line;
       return true;
     }},
    {"tls.certificate", "the path of a PEM file",
     [](const YamlNode& node, const Place<DaemonTarget>& place) {
       return TakeFile(node, place, Tls(node, place).certificate);
     }},
    {"tls.key", "the path of a PEM file",
     [](const YamlNode& node, const Place<DaemonTarget>& place) {
       return TakeFile(node, place, Tls(node, place).key);
     }},
    {"tls.client_ca", "the path of a PEM file",
     [](const YamlNode& node, const Place<DaemonTarget>& place) {
       return TakeFile(node, place, Tls(node, place).client_ca.emplace());
     }},
    {"tls.loopback", "true or false",
     [](const YamlNode& node, const Place<DaemonTarget>& place) {
       return TakeBool(node, Tls(node, place).loopback);
     }},
    {"socket.mode", "an octal mode of read and write bits such as 0660",
     [](const YamlNode& node, const Place<DaemonTarget>& place) {
       const auto mode = IsText(node) ? ParseSocketMode(node.text) : std::nullopt;
       if (mode) place.target.config.socket.mode = *mode;
       return mode.has_value();
     }},
    {"socket.group", "a group's name or number",
     [](const YamlNode& node, const Place<DaemonTarget>& place) {
       if (!IsText(node) || !IsModelName(node.text)) return false;
       place.target.config.socket.group = node.text;
       return true;
     }},
    {"metrics.listen", "HOST:PORT or [IPV6]:PORT",
     [](const YamlNode& node, const Place<DaemonTarget>& place) {
       if (!IsText(node) || node.text.starts_with("unix:") || !ParseListenAddress(node.text)) {
         return false;
       }
       place.target.metrics = {node.line, place.key, node.text};
       place.target.config.metrics_listen = node.text;
       return true;
     }},
    {"metrics.insecure", "true or false",
     [](const YamlNode& node, const Place<DaemonTarget>& place) {
       return TakeBool(node, place.target.config.metrics_insecure);
     }},
    {"memory.budget", "bytes such as 256MiB, or a percentage of the machine's memory such as 50%",
     ApplyBudget},
    {"cache_dir", "an absolute path of a folder",
     [](const YamlNode& node, const Place<DaemonTarget>& place) {
       return TakeAbsolutePath(node, place.target.config.cache_dir);
     }},
    {"cache_quota", "bytes such as 8GiB, a percentage of the disk such as 20%, or none",
     ApplyCacheQuota},
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
    {"limits.max_connections", "a number of connections from 1 to 100000",
     [](const YamlNode& node, const Place<DaemonTarget>& place) {
       return TakeCount(node, 100'000, place.target.config.max_connections);
     }},
    {"drain_timeout", "a duration such as 30s, at most a day",
     [](const YamlNode& node, const Place<DaemonTarget>& place) {
       const std::optional<Duration> drain = IsText(node) ? ParseDuration(node.text) : std::nullopt;
       if (drain) place.target.config.drain_timeout = *drain;
       return drain.has_value();
     }},
    {"control.tcp", "true or false",
     [](const YamlNode& node, const Place<DaemonTarget>& place) {
       return TakeBool(node, place.target.config.control_tcp);
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

// What other machines can reach is encrypted, or said to be open.
void CheckAccess(const DaemonTarget& target, ConfigErrors& errors) {
  const Config& config = target.config;
  const auto open = [&errors](const DaemonTarget::Address& address, std::string_view wanted) {
    if (ParseListenAddress(address.text)->loopback()) return;
    errors.Add(address.line, address.key,
               absl::StrFormat("\"%s\", which other machines can reach without TLS", address.text),
               wanted);
  };
  if (!config.insecure && !config.tls) {
    for (const DaemonTarget::Address& address : target.addresses) {
      open(address,
           "an address of this machine alone (127.0.0.1, [::1], unix:), `tls`, or "
           "`insecure: true`");
    }
  }
  if (target.metrics && !config.insecure && !config.metrics_insecure) {
    open(*target.metrics,
         "an address of this machine alone (127.0.0.1, [::1]), or `metrics.insecure: true` (the "
         "metrics page has no TLS)");
  }
  if (!config.tls) return;
  if (config.insecure) {
    errors.Add(*target.insecure_line, "insecure", "true beside `tls`",
               "one of the two (`metrics.insecure` opens the metrics page alone)");
  }
  const auto needed = [&](const std::filesystem::path& path, std::string_view key) {
    if (path.empty()) errors.Add(*target.tls_line, key, "nothing", "the path of a PEM file");
  };
  needed(config.tls->certificate, "tls.certificate");
  needed(config.tls->key, "tls.key");
}

}  // namespace

std::vector<KeyInfo> DaemonKeys() { return Infos(kDaemonKeys); }

void ReadDaemonKeys(const YamlNode& root, ConfigErrors& errors, Config& config) {
  if (root.kind != YamlNode::Kind::kMap) {
    return errors.Add(root.line, "configuration", Describe(root), "a map of keys");
  }
  DaemonTarget target{config};
  ReadKeys<DaemonTarget>(root, kDaemonKeys, "", "", target, errors);
  CheckAccess(target, errors);
}

}  // namespace sluice
