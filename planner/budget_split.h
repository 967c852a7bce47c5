// planner/budget_split.h
//
// Divides weight memory among models: each gets what it cannot do without, and the rest goes where
// it saves the most reading.
//
// Threads: pure functions, callable from anywhere.

#ifndef SLUICE_PLANNER_BUDGET_SPLIT_H_
#define SLUICE_PLANNER_BUDGET_SPLIT_H_

#include <optional>
#include <span>
#include <vector>

#include "base/bytes.h"

namespace sluice {

struct SplitRequest {
  Bytes minimum;      // Of resident bytes; most often zero, the slot's ring being shared.
  Bytes useful;       // More than this brings nothing: all weights are resident. >= minimum.
  double weight = 1;  // Value of a byte not read: request rate times priority. Above zero.
};

// bytes[i] for requests[i]: minimum <= bytes <= useful and the sum <= budget. Small models come
// first, because a model that is wholly resident reads nothing at all; what is left goes in
// proportion to weight.
// Fails: nullopt when the minima alone are over the budget.
std::optional<std::vector<Bytes>> SplitBudget(std::span<const SplitRequest> requests, Bytes budget);

}  // namespace sluice

#endif  // SLUICE_PLANNER_BUDGET_SPLIT_H_
