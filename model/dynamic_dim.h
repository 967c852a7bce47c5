// model/dynamic_dim.h
//
// How a dimension whose size is computed (DynamicDim) passes through an operation. It does where
// the operation treats the entries of that dimension one by one; what stands behind the real size
// is then computed too, and means nothing.

#ifndef SLUICE_MODEL_DYNAMIC_DIM_H_
#define SLUICE_MODEL_DYNAMIC_DIM_H_

#include <optional>
#include <span>

#include "absl/status/statusor.h"
#include "model/graph.h"

namespace sluice {

// The dynamic dimension of the output, which has the shape `y`; nullopt where no input has one.
// Inputs that are absent are null. Requires: shapes that were checked.
// Fails: UNIMPLEMENTED, the operation would need the real size; the message names the value.
absl::StatusOr<std::optional<DynamicDim>> DynamicDimOf(const Operation& operation,
                                                       std::span<const Value* const> inputs,
                                                       const Shape& y);

}  // namespace sluice

#endif  // SLUICE_MODEL_DYNAMIC_DIM_H_
