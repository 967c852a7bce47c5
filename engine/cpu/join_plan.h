// engine/cpu/join_plan.h
//
// Which values are written straight to their place in the result of a later concat, so that nothing
// is copied there. Blocked channels of one image lie one behind the other, so a part that fills its
// blocks is a run of bytes of the whole, and so is a concat of the first parts of a longer one:
//
//   concat(x, a, b)   |    x    |  a  |  b  |   one buffer
//   concat(x, a)      |    x    |  a  |         another name for its start
//
// A whole that waits long for its last part takes memory all the while; such concats, which raise
// the peak of the activations, are left alone. Where a whole is what the peak is made of and only
// convolutions read it, it never comes to be: each of them sums what the parts contribute,
//
//   conv(concat(a, b), w)  =  conv(a, first channels of w) + conv(b, the rest of w)
//
// which costs one more pass over the result for each part but the first. The estimate behind both
// gives every value a buffer of its own, so the real peak may still differ either way.
//
// Threads: a pure function, callable from anywhere. Same graph, same answer.

#ifndef SLUICE_ENGINE_CPU_JOIN_PLAN_H_
#define SLUICE_ENGINE_CPU_JOIN_PLAN_H_

#include <optional>
#include <vector>

#include "base/bytes.h"
#include "base/ids.h"
#include "model/graph.h"

namespace sluice {

// Where the blocked bytes of a value belong.
struct JoinPlace {
  ValueId whole{};  // The result of a concat.
  Bytes offset;     // In its blocked bytes.
};

struct JoinPlan {
  std::vector<std::optional<JoinPlace>> places;  // By value; a whole is at the start of itself.
  std::vector<bool> elided;                      // By value: results that never come to be.
};

// Requires: a valid graph.
JoinPlan PlanJoins(const Graph& graph);

// The input whose bytes the node's output may take when nobody needs them afterwards, before
// kernels are chosen.
std::optional<ValueId> OverwritableInput(const Graph& graph, const Node& node);

// Whether Concat can join blocked tensors: channels, where every part fills its blocks.
bool JoinsBlocks(const Graph& graph, const Node& node);

}  // namespace sluice

#endif  // SLUICE_ENGINE_CPU_JOIN_PLAN_H_
