// model/quantized_operations.h
//
// Numbers as 8-bit integers: x = scale * (q - zero point). Scales and zero points have one element,
// or one for each entry of dimension `axis`. A zero point that is absent is 0.
//
// See model/operation.h for what all of these share.

#ifndef SLUICE_MODEL_QUANTIZED_OPERATIONS_H_
#define SLUICE_MODEL_QUANTIZED_OPERATIONS_H_

#include <cstdint>

namespace sluice {

// q = saturate(round half to even(x / scale) + zero point), of the output's type: kInt8, kUint8 or
// kInt32. Inputs: x, scale, zero point.
struct Quantize {
  std::int64_t axis = 0;
};

// Inputs: q, scale, zero point.
struct Dequantize {
  std::int64_t axis = 0;
};

}  // namespace sluice

#endif  // SLUICE_MODEL_QUANTIZED_OPERATIONS_H_
