// server/setting.h
//
// Reads the value of one key: text to a number, a duration, an address. Each returns nullopt for
// anything but a whole, sensible value; what was wanted is the key's to say.

#ifndef SLUICE_SERVER_SETTING_H_
#define SLUICE_SERVER_SETTING_H_

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/bytes.h"
#include "base/clock.h"

namespace sluice {

std::optional<std::int64_t> ParseInteger(std::string_view text);
std::optional<bool> ParseBool(std::string_view text);  // true, false

// "0660" or "660": octal, read and write bits alone, the owner's among them.
std::optional<unsigned> ParseSocketMode(std::string_view text);

// "50ms", "2s", "1.5 s", "1m", "250us"; a bare number has no unit and is refused. At most a day.
std::optional<Duration> ParseDuration(std::string_view text);

// "40%": above 0, at most 100.
std::optional<double> ParsePercentage(std::string_view text);

// HOST:PORT, [IPV6]:PORT or unix:/PATH.
struct ListenAddress {
  std::string host;  // Without brackets; empty for a Unix socket.
  int port = 0;
  std::string path;       // Of a Unix socket.
  bool loopback() const;  // Nobody outside this machine can reach it. True for a Unix socket.
};
std::optional<ListenAddress> ParseListenAddress(std::string_view text);

// [A-Za-z0-9._-]{1,128}, but neither "." nor "..".
bool IsModelName(std::string_view text);

// The known word that is fewest edits away, when it is close enough to be meant.
std::optional<std::string_view> Nearest(std::string_view word,
                                        std::span<const std::string_view> known);

}  // namespace sluice

#endif  // SLUICE_SERVER_SETTING_H_
