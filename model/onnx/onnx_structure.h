// model/onnx/onnx_structure.h
//
// An ONNX file without the contents of its large tensors.

#ifndef SLUICE_MODEL_ONNX_ONNX_STRUCTURE_H_
#define SLUICE_MODEL_ONNX_ONNX_STRUCTURE_H_

#include <onnx/onnx_pb.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "base/bytes.h"
#include "model/model_file.h"

namespace sluice {

// Where the contents of a tensor lie when they are too large to be parsed.
struct TensorContents {
  std::uint32_t field = 0;  // The field of TensorProto that they are; 0: they were parsed.
  Bytes begin, size;
};

struct OnnxStructure {
  // Nodes, inputs, outputs, initialisers and opsets; documentation, value_info, subgraphs and
  // contents of large tensors are left out.
  onnx::ModelProto model;
  std::vector<TensorContents> initializers;  // One for each of the graph's initialisers.
  // Of the tensors of attributes, by node and attribute.
  std::map<std::pair<int, int>, TensorContents> attributes;
  std::uint64_t hash = 0;
  Bytes memory;  // What was charged against the limit: an upper estimate of what this holds.
};

// Fails: INVALID_ARGUMENT, not an ONNX model. DATA_LOSS, cut short. RESOURCE_EXHAUSTED, more
//        structure than `limit`, or more nodes or initialisers than `max_nodes`.
// Memory: `limit` at most, about half of it as bytes of the file.
absl::StatusOr<OnnxStructure> ReadOnnxStructure(const ModelFile& file, Bytes limit,
                                                std::size_t max_nodes);

}  // namespace sluice

#endif  // SLUICE_MODEL_ONNX_ONNX_STRUCTURE_H_
