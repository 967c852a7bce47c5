// engine/kernels/typed_loops.h
//
// The loops of element-wise kernels for what loops.h has none for: element types but FP32, and
// functions that are rare. One compilation serves every machine.
//
// Threads: pure functions. `y` may be an operand, starting at the same element; it overlaps none
// otherwise.

#ifndef SLUICE_ENGINE_KERNELS_TYPED_LOOPS_H_
#define SLUICE_ENGINE_KERNELS_TYPED_LOOPS_H_

#include <cstddef>

#include "model/data_type.h"
#include "model/operation.h"

namespace sluice::kernels {

// y[i] = f(x[i]).
using TypedUnary = void (*)(const std::byte* x, std::byte* y, std::size_t n, float alpha,
                            float beta);
// An operand moves by `step` elements, 0 or 1, with each of the result's.
struct StepOperand {
  const std::byte* data;
  std::size_t step;
};
// y[i] = f(a[i], b[i]).
using TypedBinary = void (*)(StepOperand a, StepOperand b, std::byte* y, std::size_t n);

// Null where the type has no such function. Every kind has one for FP32 and FP64, but those of
// booleans and bits.
TypedUnary TypedUnaryFor(Unary::Kind kind, DataType type);
// Of operands of one type; kPower is none of these.
TypedBinary TypedBinaryFor(Binary::Kind kind, DataType type);
TypedBinary TypedCompareFor(Compare::Kind kind, DataType type);

}  // namespace sluice::kernels

#endif  // SLUICE_ENGINE_KERNELS_TYPED_LOOPS_H_
