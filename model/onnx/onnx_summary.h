// model/onnx/onnx_summary.h
//
// What an ONNX file says of itself, before anything is made of it: for people who look at a model.

#ifndef SLUICE_MODEL_ONNX_ONNX_SUMMARY_H_
#define SLUICE_MODEL_ONNX_ONNX_SUMMARY_H_

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "model/data_type.h"
#include "model/onnx/onnx_importer.h"

namespace sluice {

struct OnnxPort {
  std::string name;
  std::optional<DataType> type;   // Absent for a type that is not supported.
  std::vector<std::string> dims;  // A number, the name of a symbolic dimension, or "?".
};

struct OnnxSummary {
  std::string producer;
  std::int64_t opset = 0;         // Of the standard operators.
  std::vector<OnnxPort> inputs;   // Without those that are initialisers.
  std::vector<OnnxPort> outputs;  // A shape that the file does not state is left empty.
  std::map<std::string, std::size_t> operators;  // As in the file; foreign ones with their domain.
  std::size_t nodes = 0;
};

// Fails, memory, threads: as ImportOnnx, but for what is UNIMPLEMENTED or has no dimensions there.
absl::StatusOr<OnnxSummary> SummarizeOnnx(const std::filesystem::path& path,
                                          const ImportOptions& options);

}  // namespace sluice

#endif  // SLUICE_MODEL_ONNX_ONNX_SUMMARY_H_
