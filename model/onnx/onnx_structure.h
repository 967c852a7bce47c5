// model/onnx/onnx_structure.h
//
// An ONNX file without the contents of its large tensors.

#ifndef SLUICE_MODEL_ONNX_ONNX_STRUCTURE_H_
#define SLUICE_MODEL_ONNX_ONNX_STRUCTURE_H_

#include <onnx/onnx_pb.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "base/bytes.h"
#include "model/model_file.h"

namespace sluice {

inline constexpr int kMaxGraphDepth = 32;

// Where the contents of a tensor lie when they are too large to be parsed.
struct TensorContents {
  std::uint32_t field = 0;  // The field of TensorProto that they are; 0: they were parsed.
  Bytes begin, size;
};

// One graph of a file: nodes, inputs, outputs and initialisers. Documentation, value_info, contents
// of large tensors and the subgraphs of attributes are left out of the message.
struct OnnxGraph {
  onnx::GraphProto proto;
  std::vector<TensorContents> initializers;  // One for each of the graph's initialisers.
  // Of the tensors and the graphs of attributes, by node and attribute.
  std::map<std::pair<int, int>, TensorContents> attributes;
  std::map<std::pair<int, int>, std::unique_ptr<OnnxGraph>> subgraphs;
};

struct OnnxStructure {
  onnx::ModelProto model;  // The header alone: opsets and producer.
  OnnxGraph graph;
  std::uint64_t hash = 0;
  Bytes memory;  // What was charged against the limit: an upper estimate of what this holds.
};

// Fails: INVALID_ARGUMENT, not an ONNX model. DATA_LOSS, cut short. RESOURCE_EXHAUSTED, more
//        structure than `limit`, more nodes or initialisers than `max_nodes` in all graphs, or
//        graphs in graphs deeper than kMaxGraphDepth.
// Memory: `limit` at most, about half of it as bytes of the file.
absl::StatusOr<OnnxStructure> ReadOnnxStructure(const ModelFile& file, Bytes limit,
                                                std::size_t max_nodes);

}  // namespace sluice

#endif  // SLUICE_MODEL_ONNX_ONNX_STRUCTURE_H_
