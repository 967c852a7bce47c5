// engine/cpu/weight_run.h
//
// What a part of a step's weights says of how it may be stored (engine/weight_encoding.h): which
// type its numbers had in the file, and where in its layout the output channels are.

#ifndef SLUICE_ENGINE_CPU_WEIGHT_RUN_H_
#define SLUICE_ENGINE_CPU_WEIGHT_RUN_H_

#include <optional>
#include <span>

#include "absl/status/status.h"
#include "base/bytes.h"
#include "engine/cpu/weight_part.h"
#include "engine/weight_encoding.h"

namespace sluice {

// Where the part's output channels are; group zero where they are so placed that no group and
// period tell them apart. The output channels are the factors that move on the index of the scale.
ChannelMap ChannelsOf(const WeightPart& part);

// The part as a run whose offset is counted as the part's; nullopt when it may not be stored
// narrower: biases, integers, whatever is no floats.
std::optional<WeightRun> RunOf(const WeightPart& part);

// Writes the scale of each channel slot, and 1 where the slot is filling: as Program::ReadScale.
// Requires: RunOf gives a scaled run with channels. Fails: DATA_LOSS.
absl::Status ReadScaleOf(const WeightPart& part, std::span<float> into);

// Bytes that ReadScaleOf and the encoder (engine/weight_encoder.h) take for the part.
Bytes EncodingMemory(const WeightPart& part);

}  // namespace sluice

#endif  // SLUICE_ENGINE_CPU_WEIGHT_RUN_H_
