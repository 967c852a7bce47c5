// engine/weight_encoding.h
//
// Weights that take fewer bytes on the disk than in memory: runs of floats inside an extent, stored
// in 16 or 8 bits each and widened by the reader, in place.
//
//   memory  | raw |        run of floats         | raw |       run      |pad|  what kernels read
//   stored             |zeros| raw |     run     | raw |       run          |  what the disk holds
//                                                                          ^ both end with the
//                                                                          place
//
// The stored bytes are read into the tail of the extent's place and widened from front to back. No
// rest of an extent takes more bytes stored than in memory, so what is still to be widened lies at
// or behind the place where the next float goes: no other memory is needed.
//
// A run whose floats are values times a scale for each channel is stored in groups, each with the
// scales of its channels in front:
//
//   | scale 0 .. scale period-1 | value 0 .. value group-1 | scale 0 .. | ...
//   float p of the group = value p * scale p % period
//
// Threads: pure functions, callable from anywhere. Nothing is allocated unless said.

#ifndef SLUICE_ENGINE_WEIGHT_ENCODING_H_
#define SLUICE_ENGINE_WEIGHT_ENCODING_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "base/bytes.h"
#include "model/data_type.h"

namespace sluice {

// How a model's weights are stored. All but kAsIs change them, unless they have 16 bits anyway:
// what is stored is what the model computes with from then on, resident or streamed.
enum class WeightStorage : std::uint8_t {
  kAsIs,      // Weights that the file has in 16 bits keep them; the rest is stored as packed.
  kFloat16,   // Rounded to the nearest.
  kBfloat16,  // Rounded to the nearest.
  kInt8,      // From -127 to 127 times a scale for each output channel; bfloat16 without channels.
};
std::string_view Name(WeightStorage storage);  // "as_is", "fp16", "bf16", "int8".
std::optional<WeightStorage> WeightStorageFromName(std::string_view name);

// Where the channels of packed floats are: all floats p of a run that have the same slot
// p / group * period + p % period belong to one channel. Blocks of 16 output channels have the
// period 16, and a group is one block; rows of a matrix [N, K] the period 1 and groups of K.
struct ChannelMap {
  std::uint64_t group = 0;  // A multiple of the period. Zero: the channels are not known.
  std::uint32_t period = 0;
  friend bool operator==(const ChannelMap&, const ChannelMap&) = default;
};

// Floats of an extent that may be stored narrower: what a program says of its weights.
struct WeightRun {
  Bytes offset = {};         // In the extent's memory.
  std::uint64_t floats = 0;  // A multiple of the channels' group.
  ChannelMap channels = {};  // Those of the output, or of the scale.
  DataType source = {};      // fp16 or bf16: every float is such a number, before it is scaled.
  bool scaled = false;       // Multiplied by a scale for each channel (Program::ReadScale).
  bool may_change = false;   // Rounding these changes the answer by little.
};

// As an unsigned number in a package: never renumbered.
enum class Encoding : std::uint8_t { kFloat16 = 1, kBfloat16 = 2, kInt8 = 3 };

// Floats of an extent that are stored narrower.
struct EncodedRun {
  Bytes offset = {};
  std::uint64_t floats = 0;
  Encoding encoding{};
  ChannelMap scales = {};  // Group zero: there are none.
  friend bool operator==(const EncodedRun&, const EncodedRun&) = default;
};

// Shorter runs are left as they are: a package's table takes some bytes for each.
inline constexpr Bytes kLeastRun = 4_KiB;
// Scales of a group that the reader keeps on its stack.
inline constexpr std::uint32_t kMostPeriod = 4096;

// How a run is stored; nullopt: as it is. Which runs can be, only their contents tell
// (weight_encoder.h), and fewer may be stored so.
std::optional<EncodedRun> PlannedRun(const WeightRun& run, WeightStorage storage);
std::vector<EncodedRun> PlannedRuns(std::span<const WeightRun> runs, WeightStorage storage);

// Bytes that a run, and an extent of `size` bytes with these runs, takes on the disk.
// Requires: sound runs.
Bytes StoredSize(const EncodedRun& run);
Bytes StoredSize(Bytes size, std::span<const EncodedRun> runs);

// Fails: INVALID_ARGUMENT when the runs are not ones that Widen can be given: each of a known
//        encoding and of kLeastRun at least, in order and apart, within `size`, never larger stored
//        than in memory.
absl::Status CheckRuns(Bytes size, std::span<const EncodedRun> runs);

// Turns the stored bytes at the end of `place` into the `size` bytes of the extent at its start.
// What lies behind those is left undefined. Requires: CheckRuns, place.size() >= size, aligned to
// floats.
// Cost: one pass at 5 GB/s of floats or more.
void Widen(std::span<std::byte> place, Bytes size, std::span<const EncodedRun> runs);

}  // namespace sluice

#endif  // SLUICE_ENGINE_WEIGHT_ENCODING_H_
