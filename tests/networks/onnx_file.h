// tests/networks/onnx_file.h
//
// Writes an ONNX model in memory that does not grow with its weights: nodes and descriptions of
// initialisers are held, values are made while the file is written.

#ifndef SLUICE_TESTS_NETWORKS_ONNX_FILE_H_
#define SLUICE_TESTS_NETWORKS_ONNX_FILE_H_

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "tests/networks/weights.h"

namespace sluice {

// The numbers are ONNX's own.
enum class OnnxType : std::int32_t { kFloat = 1, kInt64 = 7 };

struct OnnxAttribute {
  std::string name;
  std::variant<std::int64_t, float, std::string, std::vector<std::int64_t>> value;
};

// A dimension is a number or, for a symbolic one, a name.
using OnnxDim = std::variant<std::int64_t, std::string>;

class OnnxFile {
 public:
  OnnxFile(std::string name, std::int64_t opset) : name_(std::move(name)), opset_(opset) {}

  // One output. Attributes are written in order of their names.
  void AddNode(std::string_view op, std::string_view name, std::vector<std::string> inputs,
               std::string output, std::vector<OnnxAttribute> attributes);
  // Gives the last node's output another name, if it is called `from`.
  void RenameLastOutput(std::string_view from, std::string_view to);

  void AddInput(std::string_view name, OnnxType type, std::span<const OnnxDim> shape);
  void AddOutput(std::string_view name, OnnxType type, std::span<const OnnxDim> shape);

  // Empty `shape`: a scalar.
  void AddWeights(std::string_view name, std::span<const std::int64_t> shape,
                  const UniformWeights& weights);
  void AddFloats(std::string_view name, std::span<const std::int64_t> shape,
                 std::span<const float> values);
  void AddInts(std::string_view name, std::span<const std::int64_t> shape,
               std::span<const std::int64_t> values);
  bool HasInitialiser(std::string_view name) const;
  std::size_t initialisers() const { return initialisers_.size(); }

  // Writes to a temporary name beside `path`, syncs and renames it; leaves nothing of the file in
  // the page cache and no part of a file that failed.
  // Fails: NOT_FOUND, PERMISSION_DENIED, RESOURCE_EXHAUSTED or INTERNAL, as the system says, with
  // the path.
  absl::Status Write(const std::filesystem::path& path) const;

 private:
  struct Node {
    std::string op, name, output;
    std::vector<std::string> inputs;
    std::vector<OnnxAttribute> attributes;
  };
  struct Initialiser {
    std::string name;
    std::string header;      // TensorProto up to the raw data.
    std::uint64_t raw_size;  // Bytes.
    std::variant<UniformWeights, std::string> values;
  };
  void AddInitialiser(std::string_view name, OnnxType type, std::span<const std::int64_t> shape,
                      std::uint64_t raw_size, std::variant<UniformWeights, std::string> values);
  std::string NodesMessage() const;

  std::string name_;
  std::int64_t opset_;
  std::vector<Node> nodes_;
  std::vector<Initialiser> initialisers_;
  std::string inputs_, outputs_;  // As fields of the graph.
};

}  // namespace sluice

#endif  // SLUICE_TESTS_NETWORKS_ONNX_FILE_H_
