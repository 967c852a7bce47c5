// model/shape_rule.h
//
// Which output shape each operation has, and which inputs it takes. Importers ask what follows;
// Validate checks that a graph agrees.

#ifndef SLUICE_MODEL_SHAPE_RULE_H_
#define SLUICE_MODEL_SHAPE_RULE_H_

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "model/graph.h"

namespace sluice {

// Where a window of `kernel` fits, with `stride`, into `size` and its pads; nullopt when nowhere.
struct WindowDim {
  std::int64_t size = 0, kernel = 1, stride = 1, dilation = 1, pad_begin = 0, pad_end = 0;
};
std::optional<std::int64_t> WindowCount(const WindowDim& dim);

// The shape that a and b have together under numpy's broadcasting; nullopt when they have none.
std::optional<Shape> BroadcastShape(std::span<const std::int64_t> a,
                                    std::span<const std::int64_t> b);

// The output's shape where the operation and its inputs leave no choice; nullopt for Reshape,
// Slice, Resize, Reduce and Expand, whose output says what they do. Absent inputs are null.
// Fails: INVALID_ARGUMENT, inputs that the operation cannot take, saying found and wanted.
absl::StatusOr<std::optional<Shape>> OutputShape(const Operation& operation,
                                                 std::span<const Value* const> inputs);

// Checks inputs and output of one node against its operation. Requires: ids within the graph.
// Fails: INVALID_ARGUMENT, saying found and wanted.
absl::Status CheckShapes(const Graph& graph, const Node& node);

// The tail of an operation; empty for operations that have none.
std::span<const Epilogue> EpiloguesOf(const Operation& operation);

// How many inputs come before those that epilogues name: 4, 4 and 3 for the operations that have a
// tail. Requires: an operation with a tail.
std::size_t FixedInputs(const Operation& operation);

}  // namespace sluice

#endif  // SLUICE_MODEL_SHAPE_RULE_H_
