// planner/instance_families.h
//
// Families of planning problems of any size, for tests and benchmarks: what users' graphs look
// like, and what is hardest to plan.
//
// Threads: pure functions, callable from anywhere. Same family, size and seed, same records on
// every machine.

#ifndef SLUICE_PLANNER_INSTANCE_FAMILIES_H_
#define SLUICE_PLANNER_INSTANCE_FAMILIES_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "planner/usage_record.h"

namespace sluice {

enum class InstanceFamily {
  kPerfect,   // A rectangle of time and bytes cut into pieces: a plan without a lost byte exists.
  kLoose,     // The same with some pieces taken out and others shortened. The cut is still a plan.
  kTraining,  // Forward and backward pass: activations live until their layer comes again.
  kSkip,      // Encoder and decoder with long skips, branches and concatenations.
  kDecoder,   // Layers of a language model: few sizes, the same lifetimes again and again.
};

inline constexpr InstanceFamily kInstanceFamilies[] = {
    InstanceFamily::kPerfect, InstanceFamily::kLoose, InstanceFamily::kTraining,
    InstanceFamily::kSkip, InstanceFamily::kDecoder};

std::string_view Name(InstanceFamily family);
std::optional<InstanceFamily> FindInstanceFamily(std::string_view name);

// About `count` records, by some per cent fewer in some families; sizes are multiples of 64, the
// alignment is a byte.
std::vector<UsageRecord> MakeInstance(InstanceFamily family, std::size_t count, std::uint64_t seed);

// Of the rectangle that perfect and loose instances are cut from: no plan needs more.
inline constexpr Bytes kCutHeight = Bytes::Of(1 << 20);

}  // namespace sluice

#endif  // SLUICE_PLANNER_INSTANCE_FAMILIES_H_
