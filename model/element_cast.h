// model/element_cast.h
//
// Conversion between all element types. To a float type the nearest value, from a float to an
// integer type towards zero and clamped (NaN to zero), between integers modulo the range, to BOOL
// "is not zero". A BOOL is true whatever its byte is, but zero.

#ifndef SLUICE_MODEL_ELEMENT_CAST_H_
#define SLUICE_MODEL_ELEMENT_CAST_H_

#include <cstddef>

#include "model/data_type.h"

namespace sluice {

// Converts n elements, aligned as their type wants. x and y are apart.
// Threads: a pure function.
using CastLoop = void (*)(const std::byte* x, std::byte* y, std::size_t n);
CastLoop CastLoopFor(DataType from, DataType to);

}  // namespace sluice

#endif  // SLUICE_MODEL_ELEMENT_CAST_H_
