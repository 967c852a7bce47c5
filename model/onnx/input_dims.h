// model/onnx/input_dims.h
//
// Symbolic dimensions of a model's inputs get their values.

#ifndef SLUICE_MODEL_ONNX_INPUT_DIMS_H_
#define SLUICE_MODEL_ONNX_INPUT_DIMS_H_

#include <onnx/onnx_pb.h>

#include <cstdint>
#include <map>
#include <span>
#include <string>

#include "absl/status/statusor.h"
#include "model/graph.h"

namespace sluice {

// Name, type and shape of an input; `dims` as in ImportOptions.
// Fails: INVALID_ARGUMENT, a dimension without a value, or one that contradicts the file: the
//        message says how to give it. UNIMPLEMENTED, not a tensor of a supported type.
absl::StatusOr<Value> ReadInput(const onnx::ValueInfoProto& input,
                                const std::map<std::string, std::int64_t>& dims);

// Whether each key of `dims` is a place or a name that some input has, or a role.
// Fails: INVALID_ARGUMENT, with the key and all that there are.
absl::Status CheckDimKeys(std::span<const onnx::ValueInfoProto* const> inputs,
                          const std::map<std::string, std::int64_t>& dims);

}  // namespace sluice

#endif  // SLUICE_MODEL_ONNX_INPUT_DIMS_H_
