// model/onnx/convolution_windows.h
//
// What all convolutions of the format share.

#ifndef SLUICE_MODEL_ONNX_CONVOLUTION_WINDOWS_H_
#define SLUICE_MODEL_ONNX_CONVOLUTION_WINDOWS_H_

#include <cstddef>

#include "absl/status/statusor.h"
#include "model/onnx/onnx_node.h"
#include "model/operation.h"

namespace sluice {

// The plain convolution that the attributes describe, of inputs number `x` and `weights`.
// Fails: INVALID_ARGUMENT, attributes or shapes that do not fit.
absl::StatusOr<Convolution> ConvolutionOf(OnnxNode& node, std::size_t x, std::size_t weights);

}  // namespace sluice

#endif  // SLUICE_MODEL_ONNX_CONVOLUTION_WINDOWS_H_
