#include "server/setting.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <vector>

namespace sluice {
namespace {

// Reads a decimal number without sign at the start of `text` and removes it.
std::optional<double> TakeNumber(std::string_view& text) {
  if (text.empty() || text.front() < '0' || text.front() > '9') return std::nullopt;
  double value = 0;
  const auto [end, error] =
      std::from_chars(text.data(), text.data() + text.size(), value, std::chars_format::fixed);
  if (error != std::errc()) return std::nullopt;
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
  return value;
}

// 127.0.0.0/8 in its usual form.
bool IsLoopbackIpv4(std::string_view host) {
  if (!host.starts_with("127.")) return false;
  int dots = 0;
  for (const char c : host) {
    if (c == '.') {
      ++dots;
    } else if (c < '0' || c > '9') {
      return false;
    }
  }
  return dots == 3;
}

bool IsHost(std::string_view host) {
  if (host.empty() || host.size() > 253) return false;
  return std::ranges::all_of(host, [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' ||
           c == '-';
  });
}

bool IsIpv6(std::string_view host) {
  if (host.size() < 2 || host.size() > 45) return false;
  return std::ranges::all_of(host, [](char c) {
    return (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F') || (c >= '0' && c <= '9') || c == ':' ||
           c == '.';
  });
}

// Levenshtein's distance.
std::size_t EditDistance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t replaced = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({replaced, row[j] + 1, row[j - 1] + 1});
    }
  }
  return row[b.size()];
}

}  // namespace

std::optional<std::int64_t> ParseInteger(std::string_view text) {
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

std::optional<bool> ParseBool(std::string_view text) {
  if (text == "true") return true;
  if (text == "false") return false;
  return std::nullopt;
}

std::optional<unsigned> ParseSocketMode(std::string_view text) {
  if (text.size() == 4 && text.front() == '0') text.remove_prefix(1);
  if (text.size() != 3) return std::nullopt;
  unsigned mode = 0;
  for (const char digit : text) {
    if (digit < '0' || digit > '7') return std::nullopt;
    mode = mode * 8 + static_cast<unsigned>(digit - '0');
  }
  if ((mode & ~0666u) != 0 || (mode & 0600u) != 0600u) return std::nullopt;
  return mode;
}

std::optional<Duration> ParseDuration(std::string_view text) {
  struct Unit {
    std::string_view name;
    double nanoseconds;
  };
  static constexpr std::array<Unit, 6> kUnits = {
      {{"ns", 1}, {"us", 1e3}, {"ms", 1e6}, {"s", 1e9}, {"m", 60e9}, {"h", 3600e9}}};
  const std::optional<double> number = TakeNumber(text);
  if (!number) return std::nullopt;
  for (const Unit& unit : kUnits) {
    if (text != unit.name) continue;
    const double nanoseconds = *number * unit.nanoseconds;
    if (nanoseconds > 24 * 3600e9) return std::nullopt;
    return Duration(static_cast<Duration::rep>(nanoseconds));
  }
  return std::nullopt;
}

std::optional<double> ParsePercentage(std::string_view text) {
  const std::optional<double> number = TakeNumber(text);
  if (!number || text != "%" || *number <= 0 || *number > 100) return std::nullopt;
  return number;
}

bool ListenAddress::loopback() const {
  return !path.empty() || host == "localhost" || host == "::1" || IsLoopbackIpv4(host);
}

std::optional<ListenAddress> ParseListenAddress(std::string_view text) {
  constexpr std::string_view kUnix = "unix:";
  constexpr std::size_t kMaxSocketPath = 107;  // sockaddr_un.sun_path, less its terminating zero.
  ListenAddress address;
  if (text.starts_with(kUnix)) {
    text.remove_prefix(kUnix.size());
    if (text.size() < 2 || text.front() != '/' || text.size() > kMaxSocketPath ||
        text.find('\0') != std::string_view::npos) {
      return std::nullopt;
    }
    address.path = text;
    return address;
  }
  const std::size_t colon = text.rfind(':');
  if (colon == std::string_view::npos) return std::nullopt;
  const std::optional<std::int64_t> port = ParseInteger(text.substr(colon + 1));
  if (!port || *port < 0 || *port > 65535) return std::nullopt;
  std::string_view host = text.substr(0, colon);
  if (host.size() > 2 && host.front() == '[' && host.back() == ']') {
    host = host.substr(1, host.size() - 2);
    if (!IsIpv6(host)) return std::nullopt;
  } else if (!IsHost(host)) {
    return std::nullopt;
  }
  address.host = host;
  address.port = static_cast<int>(*port);
  return address;
}

bool IsModelName(std::string_view text) {
  if (text.empty() || text.size() > 128 || text == "." || text == "..") return false;
  return std::ranges::all_of(text, [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' ||
           c == '_' || c == '-';
  });
}

std::optional<std::string_view> Nearest(std::string_view word,
                                        std::span<const std::string_view> known) {
  if (word.size() > 64) return std::nullopt;
  std::optional<std::string_view> best;
  std::size_t least = word.size() / 3 + 1;
  for (const std::string_view candidate : known) {
    const std::size_t distance = EditDistance(word, candidate);
    if (distance > least || (best && distance == least)) continue;
    least = distance;
    best = candidate;
  }
  return best;
}

}  // namespace sluice
