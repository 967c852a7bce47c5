// engine/widen_loops.h
//
// The innermost loops of Widen (weight_encoding.h), compiled once for each instruction set. As in
// kernels/loops.h, nothing here may be a function that the linker could share between them.
//
// Threads: pure functions. `y` overlaps no input. Pointers have the alignment of their type.

#ifndef SLUICE_ENGINE_WIDEN_LOOPS_H_
#define SLUICE_ENGINE_WIDEN_LOOPS_H_

#include <cstddef>
#include <cstdint>

namespace sluice {

struct WidenLoops {
  const char* isa;
  // y[i] = x[i], bit for bit: signalling NaNs too.
  void (*half)(const std::uint16_t* x, float* y, std::size_t n);
  void (*bfloat)(const std::uint16_t* x, float* y, std::size_t n);
  // y[i] = x[i] * scale[i % period]. Requires: n is a multiple of the period.
  void (*half_scaled)(const std::uint16_t* x, const float* scale, std::size_t period, float* y,
                      std::size_t n);
  void (*bfloat_scaled)(const std::uint16_t* x, const float* scale, std::size_t period, float* y,
                        std::size_t n);
  void (*int8_scaled)(const std::int8_t* x, const float* scale, std::size_t period, float* y,
                      std::size_t n);
};

enum class WidenIsa : std::uint8_t { kGeneric, kAvx2, kAvx512 };

// Null when this build or this machine lacks it.
const WidenLoops* WidenLoopsFor(WidenIsa isa);
// The widest that the machine has.
const WidenLoops& BestWidenLoops();

}  // namespace sluice

#endif  // SLUICE_ENGINE_WIDEN_LOOPS_H_
