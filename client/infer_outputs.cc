#include "client/infer_outputs.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "absl/strings/str_format.h"
#include "base/check.h"
#include "base/status_macros.h"
#include "client/file.h"
#include "client/npy.h"

namespace sluice {
namespace {

constexpr std::size_t kShownValues = 5;
constexpr Bytes kMaxLabels = Bytes::Of(16 * 1024 * 1024);

// A tensor's name as a file's.
std::string FileName(const std::string& name) {
  std::string file;
  for (const char c : name) {
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                       c == '_' || c == '-' || c == '.';
    file.push_back(plain && file.size() < 100 ? c : '_');
    if (file.size() > 100) break;
  }
  if (file.empty() || file.front() == '.') file.insert(file.begin(), '_');
  return file;
}

std::vector<RankedClass> RankRow(const double* values, std::size_t size, std::size_t count) {
  std::vector<RankedClass> classes(size);
  for (std::size_t i = 0; i < size; ++i) classes[i] = {i, values[i]};
  count = std::min(count, size);
  std::partial_sort(classes.begin(), classes.begin() + static_cast<std::ptrdiff_t>(count),
                    classes.end(), [](const RankedClass& a, const RankedClass& b) {
                      const bool a_is_number = !std::isnan(a.score);
                      const bool b_is_number = !std::isnan(b.score);
                      if (a_is_number != b_is_number) return a_is_number;
                      if (a_is_number && a.score != b.score) return a.score > b.score;
                      return a.index < b.index;
                    });
  classes.resize(count);
  return classes;
}

}  // namespace

absl::StatusOr<TensorSummary> Summarise(const Tensor& tensor) {
  SLUICE_ASSIGN_OR_RETURN(const std::vector<double> values, Values(tensor));
  TensorSummary summary;
  double sum = 0;
  std::size_t finite = 0;
  for (const double value : values) {
    if (!std::isfinite(value)) continue;
    summary.min = finite == 0 ? value : std::min(summary.min, value);
    summary.max = finite == 0 ? value : std::max(summary.max, value);
    sum += value;
    ++finite;
  }
  summary.not_finite = values.size() - finite;
  if (finite > 0) summary.mean = sum / static_cast<double>(finite);
  const std::size_t shown = std::min(kShownValues, values.size());
  summary.first.assign(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(shown));
  return summary;
}

absl::StatusOr<std::vector<std::vector<RankedClass>>> RankClasses(const Tensor& tensor,
                                                                  std::size_t count) {
  SLUICE_ASSIGN_OR_RETURN(const std::vector<double> values, Values(tensor));
  std::vector<std::vector<RankedClass>> ranked;
  if (values.empty()) return ranked;
  const std::size_t rows =
      tensor.shape.size() >= 2 ? static_cast<std::size_t>(tensor.shape.front()) : 1;
  const std::size_t size = values.size() / rows;
  for (std::size_t row = 0; row < rows; ++row) {
    ranked.push_back(RankRow(values.data() + row * size, size, count));
  }
  return ranked;
}

absl::StatusOr<std::vector<std::string>> ReadLabels(const std::filesystem::path& path) {
  SLUICE_ASSIGN_OR_RETURN(const std::string text, ReadFile(path, kMaxLabels));
  std::vector<std::string> labels;
  std::size_t begin = 0;
  while (begin < text.size()) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    std::string label = text.substr(begin, end - begin);
    if (!label.empty() && label.back() == '\r') label.pop_back();
    labels.push_back(std::move(label));
    begin = end + 1;
  }
  return labels;
}

absl::StatusOr<std::vector<std::filesystem::path>> WriteNpyFiles(
    const std::filesystem::path& folder, const std::vector<Tensor>& tensors) {
  SLUICE_RETURN_IF_ERROR(MakeFolder(folder));
  std::vector<std::filesystem::path> files;
  std::set<std::string> taken;
  for (const Tensor& tensor : tensors) {
    SLUICE_ASSIGN_OR_RETURN(const std::string contents, FormatNpy(tensor));
    std::string name = FileName(tensor.name);
    for (std::size_t n = 2; !taken.insert(name).second; ++n) {
      name = absl::StrFormat("%s_%d", FileName(tensor.name), n);
    }
    files.push_back(folder / (name + ".npy"));
    SLUICE_RETURN_IF_ERROR(WriteFile(files.back(), contents));
  }
  return files;
}

LatencySummary SummariseLatencies(std::vector<double> seconds) {
  SLUICE_CHECK(!seconds.empty());
  std::ranges::sort(seconds);
  // Nearest rank: the least value that is not below the wanted part of all.
  const auto rank = [&](double part) {
    const double at = std::ceil(part * static_cast<double>(seconds.size()));
    return seconds[static_cast<std::size_t>(std::max(at, 1.0)) - 1];
  };
  return {.min = seconds.front(), .median = rank(0.5), .p99 = rank(0.99), .max = seconds.back()};
}

}  // namespace sluice
