// engine/dynamic_output.h
//
// Reading an output whose size is computed. Its buffer has room for the largest; what is real are
// the first entries of one dimension, as many as a count says.
//
//   axis 1 of [2, 4], count 3:   a b c . d e f .   ->   a b c d e f
//
// Threads: pure functions.

#ifndef SLUICE_ENGINE_DYNAMIC_OUTPUT_H_
#define SLUICE_ENGINE_DYNAMIC_OUTPUT_H_

#include <cstddef>
#include <cstdint>

#include "engine/program.h"

namespace sluice {

// How many entries are real, of the buffer that the port names for it; brought into range.
// Requires, here and below: a port whose size is computed.
std::int64_t RealCount(const PortInfo& port, const std::byte* buffer);

Shape RealShape(const PortInfo& port, std::int64_t count);

// Writes the real elements, row-major, and returns how many bytes. Allocates nothing. Requires:
// `to` has room for them; it may be `from`, and overlaps it no other way.
Bytes CopyReal(const PortInfo& port, std::int64_t count, const std::byte* from, std::byte* to);

}  // namespace sluice

#endif  // SLUICE_ENGINE_DYNAMIC_OUTPUT_H_
