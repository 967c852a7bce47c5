// engine/cpu/constant_part.h
//
// Constants as parts of a step's weights, whole tensors in a given layout.

#ifndef SLUICE_ENGINE_CPU_CONSTANT_PART_H_
#define SLUICE_ENGINE_CPU_CONSTANT_PART_H_

#include <oneapi/dnnl/dnnl.hpp>

#include "engine/cpu/weight_part.h"
#include "model/graph.h"

namespace sluice {

// Row-major bytes of any type. Requires: a constant.
WeightPart PlainPart(const Value& value);

// `count` elements of an fp32 constant from `first` on, as they lie.
WeightPart VectorPart(const Value& value, std::int64_t first, std::int64_t count);

// An fp32 constant as a tensor of shape `shape`, placed as `desc` says.
// Requires: as many elements, and the rank of `desc`.
WeightPart TensorPart(const Value& value, const Shape& shape, const dnnl::memory::desc& desc);

}  // namespace sluice

#endif  // SLUICE_ENGINE_CPU_CONSTANT_PART_H_
