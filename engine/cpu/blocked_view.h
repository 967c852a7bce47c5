// engine/cpu/blocked_view.h
//
// Operations on blocked bytes by row-major kernels: a blocked tensor [N, C, spatial...] whose
// channels fill their blocks is a row-major tensor [N, C / b, spatial..., b], and many operations
// on the one are operations of the same kind on the other.

#ifndef SLUICE_ENGINE_CPU_BLOCKED_VIEW_H_
#define SLUICE_ENGINE_CPU_BLOCKED_VIEW_H_

#include <optional>
#include <vector>

#include "engine/cpu/layout.h"
#include "model/graph.h"

namespace sluice {

struct BlockedNode {
  Graph graph;  // The node's values alone, seen as above.
  Node node;
  std::vector<Layout> inputs;  // In which layout each input's bytes are meant.
};

// The same operation on blocked bytes; nothing when there is none.
std::optional<BlockedNode> ViewInBlocks(const Graph& graph, const Node& node);

}  // namespace sluice

#endif  // SLUICE_ENGINE_CPU_BLOCKED_VIEW_H_
