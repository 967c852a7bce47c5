// server/budget_need.h
//
// How large a budget must be: what the daemon asks of one before it serves a model, and, the other
// way round, the smallest budget that passes.
//
//   budget | start | receive |                                        before it listens
//   budget | base | receive | kernels |        import, packing         |   while it loads
//   budget | base | receive | kernels | requests | arena, and weights that may not stream |  served
//
// Threads: pure functions, callable from anywhere.

#ifndef SLUICE_SERVER_BUDGET_NEED_H_
#define SLUICE_SERVER_BUDGET_NEED_H_

#include <span>

#include "base/bytes.h"
#include "server/config.h"
#include "server/memory_split.h"

namespace sluice {

// The most that one request of a model takes from its first byte to the last of its answer. A
// message, what is parsed from it and tensors made of typed fields are in memory together, and so
// are an answer and its message.
Bytes RequestMemory(std::span<const Bytes> inputs, std::span<const Bytes> outputs);

// What the model asks of the split; borrows the spans.
ModelDemand DemandOf(const ModelConfig& model, std::span<const StepCost> steps,
                     std::span<const Bytes> extents, Bytes activations,
                     std::span<const Bytes> reads = {});

// Room for requests in flight: one of the largest model always, and up to four where that costs
// little of the budget.
Bytes RequestsRoom(Bytes largest_request, Bytes budget);

// What one model asks of a daemon that serves nothing else.
struct ModelNeed {
  Bytes start;    // What the daemon asks for before it listens.
  Bytes base;     // What it keeps of that once it does, and the headroom.
  Bytes loading;  // Most that is reserved at a time from import to the end of packing.
  Bytes kernels;  // What is left of that when it is served.
  Bytes request;  // RequestMemory.
  ModelDemand demand;
};

// The least budget with which a daemon of this configuration loads the model, imports and packs it
// itself, and serves it: the whole process. Whole pages.
Bytes SmallestBudget(const Config& config, const ModelNeed& need);

// With more than this nothing becomes faster: every weight that may stay in memory does.
Bytes LargestUsefulBudget(const Config& config, const ModelNeed& need);

}  // namespace sluice

#endif  // SLUICE_SERVER_BUDGET_NEED_H_
