#include "base/bytes.h"

#include <array>
#include <cctype>
#include <cmath>

#include "absl/strings/numbers.h"
#include "absl/strings/str_format.h"

namespace sluice {
namespace {

struct Unit {
  std::string_view name;
  double factor;
};

constexpr double kKi = 1024.0;
constexpr std::array<Unit, 17> kUnits = {{
    {"", 1},
    {"b", 1},
    {"k", kKi},
    {"kib", kKi},
    {"kb", 1e3},
    {"m", kKi* kKi},
    {"mib", kKi* kKi},
    {"mb", 1e6},
    {"g", kKi* kKi* kKi},
    {"gib", kKi* kKi* kKi},
    {"gb", 1e9},
    {"t", kKi* kKi* kKi* kKi},
    {"tib", kKi* kKi* kKi* kKi},
    {"tb", 1e12},
    {"bytes", 1},
    {"byte", 1},
    {"ki", kKi},
}};

absl::Status NotAnAmount(std::string_view text) {
  return absl::InvalidArgumentError(absl::StrFormat(
      "got \"%s\", want an amount of bytes such as 96MiB, 1.5GiB, 64MB or 4096", text));
}

}  // namespace

std::string FormatBytes(Bytes bytes) {
  static constexpr std::array<const char*, 5> kNames = {"B", "KiB", "MiB", "GiB", "TiB"};
  double value = static_cast<double>(bytes.count());
  std::size_t unit = 0;
  while (value >= kKi && unit + 1 < kNames.size()) {
    value /= kKi;
    ++unit;
  }
  std::string digits = absl::StrFormat("%.2f", value);
  while (digits.back() == '0') digits.pop_back();
  if (digits.back() == '.') digits.pop_back();
  return absl::StrFormat("%s %s", digits, kNames[unit]);
}

absl::StatusOr<Bytes> ParseBytes(std::string_view text) {
  std::size_t digits = 0;
  while (digits < text.size() &&
         (std::isdigit(static_cast<unsigned char>(text[digits])) != 0 || text[digits] == '.')) {
    ++digits;
  }
  double value = 0;
  if (digits == 0 || !absl::SimpleAtod(std::string(text.substr(0, digits)), &value)) {
    return NotAnAmount(text);
  }
  std::string unit;
  for (const char c : text.substr(digits)) {
    if (c != ' ' || !unit.empty()) {
      unit.push_back(static_cast<char>(std::tolower(static_cast<unsigned char>(c))));
    }
  }
  for (const Unit& known : kUnits) {
    if (unit != known.name) continue;
    const double bytes = value * known.factor;
    if (!(bytes < 9.0e18)) return NotAnAmount(text);
    return Bytes::Of(static_cast<std::uint64_t>(std::llround(bytes)));
  }
  return NotAnAmount(text);
}

}  // namespace sluice
