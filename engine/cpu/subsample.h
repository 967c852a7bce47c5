// engine/cpu/subsample.h
//
// A convolution of one pixel with strides reads every so many-th pixel only. oneDNN copies those
// together in scratch of its own, for each thread; made a step, the copy is smaller, is shared by
// convolutions of the same source, and frees the source before they run.
//
// Threads: a pure function, callable from anywhere.

#ifndef SLUICE_ENGINE_CPU_SUBSAMPLE_H_
#define SLUICE_ENGINE_CPU_SUBSAMPLE_H_

#include <optional>

#include "model/graph.h"

namespace sluice {

// The same network with slices before such convolutions; nothing where there are none.
// Requires: a valid graph.
std::optional<Graph> SubsampleFirst(const Graph& graph);

}  // namespace sluice

#endif  // SLUICE_ENGINE_CPU_SUBSAMPLE_H_
