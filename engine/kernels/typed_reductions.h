// engine/kernels/typed_reductions.h
//
// Reductions and softmax of the element types that loops.h has no loops for: FP64 and integers.

#ifndef SLUICE_ENGINE_KERNELS_TYPED_REDUCTIONS_H_
#define SLUICE_ENGINE_KERNELS_TYPED_REDUCTIONS_H_

#include "engine/kernels/makers.h"

namespace sluice::kernels {

// Fails: UNIMPLEMENTED, a type that has no such function.
absl::StatusOr<Kernel> MakeTypedReduce(const Reduce& operation, const Problem& problem);
absl::StatusOr<Kernel> MakeTypedSoftmax(const Softmax& operation, const Problem& problem);

}  // namespace sluice::kernels

#endif  // SLUICE_ENGINE_KERNELS_TYPED_REDUCTIONS_H_
