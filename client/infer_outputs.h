// client/infer_outputs.h
//
// What is told and kept of an answer's tensors.

#ifndef SLUICE_CLIENT_INFER_OUTPUTS_H_
#define SLUICE_CLIENT_INFER_OUTPUTS_H_

#include <cstddef>
#include <filesystem>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "client/tensor.h"

namespace sluice {

// Of the finite values; the others are counted.
struct TensorSummary {
  double min = 0, max = 0, mean = 0;
  std::size_t not_finite = 0;
  std::vector<double> first;  // At most five.
};
// Fails: as Values.
absl::StatusOr<TensorSummary> Summarise(const Tensor& tensor);

struct RankedClass {
  std::size_t index = 0;
  double score = 0;
};
// The `count` largest values, the largest first, equal ones by index; a value that is no number
// ranks last. With more than one place in the first dimension of two or more, each is ranked alone.
// Fails: as Values.
absl::StatusOr<std::vector<std::vector<RankedClass>>> RankClasses(const Tensor& tensor,
                                                                  std::size_t count);

// One label a line. Fails: as ReadFile.
absl::StatusOr<std::vector<std::string>> ReadLabels(const std::filesystem::path& path);

// Writes each tensor as NAME.npy; characters that a file name should not have become "_", and a
// name that comes twice gets a number. Returns the files.
// Fails: as FormatNpy and WriteFile.
absl::StatusOr<std::vector<std::filesystem::path>> WriteNpyFiles(
    const std::filesystem::path& folder, const std::vector<Tensor>& tensors);

// Of durations in seconds. Requires: at least one.
struct LatencySummary {
  double min = 0, median = 0, p99 = 0, max = 0;
};
LatencySummary SummariseLatencies(std::vector<double> seconds);

}  // namespace sluice

#endif  // SLUICE_CLIENT_INFER_OUTPUTS_H_
