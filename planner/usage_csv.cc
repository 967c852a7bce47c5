#include "planner/usage_csv.h"

#include <algorithm>
#include <array>
#include <bit>
#include <charconv>
#include <cstdint>
#include <limits>
#include <optional>

#include "absl/status/status.h"
#include "absl/strings/str_format.h"
#include "base/status_macros.h"

namespace sluice {
namespace {

// A strategy takes seconds and some hundred bytes of memory a record for so many.
constexpr std::size_t kMostRecords = 2'000'000;
constexpr std::size_t kMostFields = 64;
constexpr std::size_t kMostQuoted = 40;  // Of a found text in an error.

enum class Column { kId, kLower, kUpper, kSize, kAlignment, kOffset };
constexpr std::array<std::string_view, 6> kNames = {"id",   "lower",     "upper",
                                                    "size", "alignment", "offset"};
constexpr std::size_t kRequired = 4;

absl::Status Error(std::size_t line, std::string_view found, std::string_view wanted) {
  return absl::InvalidArgumentError(
      absl::StrFormat("line %d: got %s, want %s", line, found.substr(0, kMostQuoted), wanted));
}

std::string_view Trimmed(std::string_view text) {
  constexpr std::string_view kBlank = " \t\r";
  const std::size_t begin = text.find_first_not_of(kBlank);
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(kBlank) - begin + 1);
}

// Takes text up to the separator off the front.
std::string_view Take(std::string_view& rest, char separator) {
  const std::size_t end = rest.find(separator);
  const std::string_view taken = rest.substr(0, end);
  rest = end == std::string_view::npos ? std::string_view() : rest.substr(end + 1);
  return taken;
}

std::vector<std::string_view> Fields(std::string_view line) {
  std::vector<std::string_view> fields;
  do {
    fields.push_back(Trimmed(Take(line, ',')));
  } while (!line.empty() && fields.size() < kMostFields);
  return fields;
}

class Parser {
 public:
  explicit Parser(std::string_view text) : rest_(text) {}

  absl::StatusOr<NamedRecords> Parse() {
    SLUICE_RETURN_IF_ERROR(ReadHeader());
    while (!rest_.empty()) {
      const std::string_view line = NextLine();
      if (line.empty()) continue;
      if (problem_.records.size() == kMostRecords) {
        return Error(line_, line, absl::StrFormat("at most %d records", kMostRecords));
      }
      SLUICE_RETURN_IF_ERROR(ReadRecord(line));
    }
    return std::move(problem_);
  }

 private:
  std::string_view NextLine() {
    ++line_;
    return Trimmed(Take(rest_, '\n'));
  }

  absl::Status ReadHeader() {
    const std::string_view header = NextLine();
    const std::vector<std::string_view> fields = Fields(header);
    for (std::size_t c = 0; c < kNames.size(); ++c) {
      const auto found = std::ranges::find(fields, kNames[c]);
      if (found != fields.end()) {
        places_[c] = static_cast<std::size_t>(found - fields.begin());
      } else if (c < kRequired) {
        return Error(line_, header, "a header with id, lower, upper and size");
      }
    }
    return absl::OkStatus();
  }

  absl::Status ReadRecord(std::string_view line) {
    const std::vector<std::string_view> fields = Fields(line);
    const auto field = [&](Column column) -> std::optional<std::string_view> {
      const auto place = places_[static_cast<std::size_t>(column)];
      if (!place || *place >= fields.size() || fields[*place].empty()) return std::nullopt;
      return fields[*place];
    };
    constexpr std::uint64_t kMostSteps = std::numeric_limits<std::uint32_t>::max();
    constexpr std::uint64_t kAnyBytes = std::numeric_limits<std::uint64_t>::max();
    std::uint64_t lower = 0, upper = 0, size = 0, alignment = 1;
    SLUICE_RETURN_IF_ERROR(Number(field(Column::kLower), kMostSteps, "a step", lower));
    SLUICE_RETURN_IF_ERROR(Number(field(Column::kUpper), kMostSteps, "a step", upper));
    SLUICE_RETURN_IF_ERROR(Number(field(Column::kSize), kAnyBytes, "bytes", size));
    if (field(Column::kAlignment)) {
      SLUICE_RETURN_IF_ERROR(Number(field(Column::kAlignment), kAnyBytes, "bytes", alignment));
    }
    if (lower >= upper) return Error(line_, line, "lower < upper");
    if (!std::has_single_bit(alignment)) return Error(line_, line, "a power of two to align to");
    UsageRecord record{.size = Bytes::Of(size),
                       .live = {At<StepIndex>(lower), At<StepIndex>(upper)},
                       .alignment = Bytes::Of(alignment)};
    if (field(Column::kOffset)) {
      std::uint64_t offset = 0;
      SLUICE_RETURN_IF_ERROR(Number(field(Column::kOffset), kAnyBytes, "bytes", offset));
      if (offset % alignment != 0) return Error(line_, line, "an offset that is aligned");
      record.fixed = Bytes::Of(offset);
    }
    problem_.ids.emplace_back(field(Column::kId).value_or(""));
    problem_.records.push_back(record);
    return absl::OkStatus();
  }

  absl::Status Number(std::optional<std::string_view> text, std::uint64_t most,
                      std::string_view what, std::uint64_t& number) const {
    const std::string_view digits = text.value_or("");
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), number);
    if (error == std::errc() && end == digits.data() + digits.size() && number <= most) {
      return absl::OkStatus();
    }
    return Error(line_, digits.empty() ? "nothing" : digits,
                 absl::StrFormat("%s, 0 to %d", what, most));
  }

  std::string_view rest_;
  std::size_t line_ = 0;
  std::array<std::optional<std::size_t>, kNames.size()> places_;  // By column: its field.
  NamedRecords problem_;
};

}  // namespace

absl::StatusOr<NamedRecords> ParseUsageCsv(std::string_view text) { return Parser(text).Parse(); }

std::string FormatUsageCsv(const NamedRecords& problem, std::span<const Bytes> offsets) {
  const bool aligned = std::ranges::any_of(
      problem.records, [](const UsageRecord& record) { return record.alignment > Bytes::Of(1); });
  std::string text =
      aligned ? "id,lower,upper,size,alignment,offset\n" : "id,lower,upper,size,offset\n";
  for (std::size_t i = 0; i < problem.records.size(); ++i) {
    const UsageRecord& record = problem.records[i];
    std::string id = problem.ids[i];
    std::ranges::replace_if(
        id, [](char c) { return c == ',' || c == '\n'; }, '_');
    absl::StrAppendFormat(&text, "%s,%d,%d,%d,", id, Index(record.live.begin),
                          Index(record.live.end), record.size.count());
    if (aligned) absl::StrAppendFormat(&text, "%d,", record.alignment.count());
    absl::StrAppendFormat(&text, "%d\n", offsets[i].count());
  }
  return text;
}

}  // namespace sluice
