// engine/kernels/typed_pool.h
//
// Pools of what the vectorised loops do not take: element types but FP32, more dimensions.

#ifndef SLUICE_ENGINE_KERNELS_TYPED_POOL_H_
#define SLUICE_ENGINE_KERNELS_TYPED_POOL_H_

#include "engine/kernels/makers.h"

namespace sluice::kernels {

// Fails: UNIMPLEMENTED, averages of integers, or too many dimensions.
absl::StatusOr<Kernel> MakeTypedPool(const Pool& operation, const Problem& problem);

}  // namespace sluice::kernels

#endif  // SLUICE_ENGINE_KERNELS_TYPED_POOL_H_
