// model/movement_operations.h
//
// Operations that move elements and compute nothing.
//
// See model/operation.h for what all of these share.

#ifndef SLUICE_MODEL_MOVEMENT_OPERATIONS_H_
#define SLUICE_MODEL_MOVEMENT_OPERATIONS_H_

#include <cstdint>
#include <vector>

namespace sluice {

// Inputs: the parts, all of one type.
struct Concat {
  std::int64_t axis = 0;  // In [0, rank).
};

// Output dimension i is input dimension perm[i].
struct Transpose {
  std::vector<std::int64_t> perm;
};

// The same elements in the same row-major order with the output's shape: Reshape, Flatten, Squeeze,
// Unsqueeze, Identity, Dropout.
struct Reshape {};

// Output index i of dimension d reads starts[d] + i * steps[d]; one entry for each dimension, all
// in range for the output's shape. steps may be negative.
struct Slice {
  std::vector<std::int64_t> starts, steps;
};

// Adds a constant (or what the mode says) around x; one entry for each dimension, none negative.
// Inputs: x, the constant (of x's type, one element; absent: `value`).
struct Pad {
  enum class Mode : std::uint8_t {
    kConstant,
    kReflect,
    kEdge,
    kWrap,  // The other end of x, as if it were repeated.
  };
  Mode mode = Mode::kConstant;
  std::vector<std::int64_t> begin, end;
  float value = 0;
};

// Repeats dimensions of size 1 to the output's shape.
struct Expand {};

// Inputs: x, indices (kInt32 or kInt64, negative ones count from the end).
struct Gather {
  std::int64_t axis = 0;
};

// Output element i reads x at i, but for dimension `axis`, where it reads at indices[i]. Inputs: x,
// indices (kInt32 or kInt64, negative ones count from the end) of the output's shape.
struct GatherElements {
  std::int64_t axis = 0;
};

// The last dimension of the indices is a position in x behind its first `batch_dims` dimensions,
// which x and indices share; negative ones count from the end. Inputs: x, indices (kInt32 or
// kInt64).
struct GatherNd {
  std::int64_t batch_dims = 0;
};

enum class ScatterReduction : std::uint8_t { kNone, kAdd, kMultiply, kMaximum, kMinimum };

// A copy of x in which updates are written (or added, ...) where GatherElements would read.
// Inputs: x, indices, updates (of the indices' shape). Places out of range stay as they are.
struct ScatterElements {
  std::int64_t axis = 0;
  ScatterReduction reduction = ScatterReduction::kNone;
};

// The same where GatherNd without batch dimensions would read. Inputs: x, indices, updates.
struct ScatterNd {
  ScatterReduction reduction = ScatterReduction::kNone;
};

// Reverses the first lengths[b] elements along `time_axis` of each batch b. Inputs: x, lengths
// (kInt64).
struct ReverseSequence {
  std::int64_t batch_axis = 1, time_axis = 0;
};

// Keeps the elements of each matrix (the last two dimensions) on and above its diagonal number k,
// or on and below it; the rest is zero. Inputs: x, k (kInt64, one element; absent: 0).
struct Triangle {
  bool upper = true;
};

// Inputs: indices, values (of the output's type: off, on). Inserts a dimension `axis`, whose size
// the output's shape gives: on where it equals the index, counting negative ones from the end.
struct OneHot {
  std::int64_t axis = -1;  // In [0, rank of the output).
};

}  // namespace sluice

#endif  // SLUICE_MODEL_MOVEMENT_OPERATIONS_H_
