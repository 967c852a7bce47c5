#include "client/table.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_format.h"
#include "base/check.h"

namespace sluice {

Table::Table(std::vector<std::string> head, std::size_t left_columns)
    : left_columns_(left_columns) {
  rows_.push_back(std::move(head));
}

void Table::Add(std::vector<std::string> row) {
  SLUICE_CHECK(row.size() == rows_.front().size());
  rows_.push_back(std::move(row));
}

std::string Table::Format() const {
  std::vector<std::size_t> widths(rows_.front().size());
  for (const std::vector<std::string>& row : rows_) {
    for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  }
  std::string text;
  for (const std::vector<std::string>& row : rows_) {
    std::string line;
    for (std::size_t i = 0; i < row.size(); ++i) {
      const std::string padding(widths[i] - row[i].size(), ' ');
      if (i > 0) line += "  ";
      line += i < left_columns_ ? row[i] + padding : padding + row[i];
    }
    line.erase(line.find_last_not_of(' ') + 1);
    text += line + "\n";
  }
  return text;
}

std::string FormatSeconds(double seconds) {
  if (!(seconds > 0)) return "-";
  if (seconds < 1e-3) return absl::StrFormat("%.0f us", seconds * 1e6);
  if (seconds < 1) return absl::StrFormat("%.1f ms", seconds * 1e3);
  return absl::StrFormat("%.2f s", seconds);
}

}  // namespace sluice
