// planner/usage_record.h
//
// What a plan has to place: bytes that must survive for a range of steps.

#ifndef SLUICE_PLANNER_USAGE_RECORD_H_
#define SLUICE_PLANNER_USAGE_RECORD_H_

#include <optional>
#include <span>
#include <vector>

#include "base/bytes.h"
#include "base/ids.h"

namespace sluice {

// A tensor usage record.
struct UsageRecord {
  Bytes size;                          // Zero is allowed.
  StepRange live;                      // Steps during which the contents must survive.
  Bytes alignment = kBufferAlignment;  // Of the offset; a power of two.
  // The only offset it may have; a multiple of the alignment. Of no meaning for a size of zero.
  std::optional<Bytes> fixed = {};
};

// Bytes live at one step, over all steps, at most.
Bytes LargestBreadth(std::span<const UsageRecord> records);

}  // namespace sluice

#endif  // SLUICE_PLANNER_USAGE_RECORD_H_
