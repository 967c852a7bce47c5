// streamer/self_test.h
//
// One inference whose input anybody can make again: the same values for the same ports on every
// machine. Its answer tells whether a model still computes what it did when it was packed.
//
// Threads: pure functions, callable from anywhere.

#ifndef SLUICE_STREAMER_SELF_TEST_H_
#define SLUICE_STREAMER_SELF_TEST_H_

#include <cstddef>
#include <cstdint>
#include <span>

#include "engine/program.h"
#include "streamer/checksum.h"

namespace sluice {

// Values for input number `index`: numbers with a fraction lie in [0, 1), whole ones are 0 or 1,
// which are indices that almost any table has.
// Requires: into.size() == the bytes of the port's tensor.
void FillSelfTestInput(const PortInfo& port, std::size_t index, std::span<std::byte> into);

// Adds an output to the answer: all its bits, but that one NaN is as good as another.
// Requires: output.size() == the bytes of the port's tensor.
void AddSelfTestOutput(const PortInfo& port, std::span<const std::byte> output,
                       RunningChecksum& answer);

}  // namespace sluice

#endif  // SLUICE_STREAMER_SELF_TEST_H_
