// engine/cpu/node_order.h
//
// The order of a graph's nodes with the lowest peak of activations, as far as that can be told
// before kernels are chosen: every value in the layout it most likely has, reshapes as other names,
// parts of joined concats in the place of the whole, in-place nodes as such.
//
// Threads: a pure function, callable from anywhere. Same graph, same answer.

#ifndef SLUICE_ENGINE_CPU_NODE_ORDER_H_
#define SLUICE_ENGINE_CPU_NODE_ORDER_H_

#include <optional>

#include "model/graph.h"

namespace sluice {

// The same graph in another order; nothing where none is estimated to be better.
// Requires: a valid graph.
std::optional<Graph> ReorderNodes(const Graph& graph);

}  // namespace sluice

#endif  // SLUICE_ENGINE_CPU_NODE_ORDER_H_
