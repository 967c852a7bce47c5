// model/onnx/onnx_tensor.h
//
// Tensors of an ONNX file become constants.

#ifndef SLUICE_MODEL_ONNX_ONNX_TENSOR_H_
#define SLUICE_MODEL_ONNX_ONNX_TENSOR_H_

#include <onnx/onnx_pb.h>

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/bytes.h"
#include "model/graph.h"
#include "model/model_file.h"
#include "model/onnx/onnx_structure.h"

namespace sluice {

// The element type of the format's number; nullopt for strings, complex numbers and the like.
std::optional<DataType> DataTypeFromOnnx(std::int64_t type);

// Networks in 16-bit floating point are computed in FP32: only inputs, outputs and what an explicit
// Cast rounds to have those types in an imported graph. Constants stay as they are in the file, and
// are widened as they are read.
void Widen(Value& constant);

// Threads: one at a time.
class OnnxTensors {
 public:
  // `folder` is the model's; external files must lie below `root`. Both are canonical.
  OnnxTensors(std::shared_ptr<const ModelFile> model, std::filesystem::path folder,
              std::filesystem::path root, Bytes max_tensor);

  // Name, type, shape and constant of a tensor whose contents may lie elsewhere.
  // Fails: INVALID_ARGUMENT, DATA_LOSS, UNIMPLEMENTED (type), RESOURCE_EXHAUSTED, NOT_FOUND
  //        (external file), as ImportOnnx. Messages name the tensor.
  absl::StatusOr<Value> Read(const onnx::TensorProto& tensor, const TensorContents& contents);

  // External files that were opened, each once.
  std::vector<std::filesystem::path> external_files() const;

 private:
  using MaybeConstant = absl::StatusOr<std::shared_ptr<const Constant>>;
  MaybeConstant External(const onnx::TensorProto& tensor, Bytes size);
  MaybeConstant InFile(const TensorContents& contents, const Value& value);
  absl::StatusOr<std::shared_ptr<const ModelFile>> OpenExternal(const std::string& location);

  std::shared_ptr<const ModelFile> model_;
  std::filesystem::path folder_, root_;
  Bytes max_tensor_;
  std::map<std::string, std::shared_ptr<const ModelFile>> by_location_;
};

}  // namespace sluice

#endif  // SLUICE_MODEL_ONNX_ONNX_TENSOR_H_
