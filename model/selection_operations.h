// model/selection_operations.h
//
// Operations whose result has a size that depends on the data. Their output has room for the
// largest, its contents are left-aligned along the dynamic dimension, and the rest is zero. A twin
// with `count` set gives the size as kInt64, of shape [].
//
// See model/operation.h for what all of these share.

#ifndef SLUICE_MODEL_SELECTION_OPERATIONS_H_
#define SLUICE_MODEL_SELECTION_OPERATIONS_H_

#include <cstdint>
#include <optional>

namespace sluice {

// The places of elements that are not zero, in row-major order: [rank, count], as kInt64. Input: x.
struct NonZero {
  bool count = false;
};

// The slices along `axis` (of x made flat, without one) for which the condition holds. Inputs: x,
// condition (kBool, [n]).
struct Compress {
  std::optional<std::int64_t> axis = {};
  bool count = false;
};

// The distinct slices of x along `axis` (elements, without one), sorted or in order of appearance.
// Input: x.
struct Unique {
  enum class Output : std::uint8_t {
    kValues,
    kFirst,    // Where each is first met, as kInt64.
    kInverse,  // For each of x, which one it is, as kInt64; its size is not dynamic.
    kCounts,   // How often each occurs, as kInt64.
    kCount,    // How many there are.
  };
  std::optional<std::int64_t> axis = {};
  bool sorted = true;
  Output output = Output::kValues;
};

// Inputs: boxes [N, B, 4], scores [N, C, B], then, each absent or of one element: the most boxes
// per class (kInt64; absent: 0), the threshold of overlap, that of scores. The output is [count,
// 3] of (batch, class, box), as kInt64, best first in each class.
struct NonMaxSuppression {
  bool centred = false;  // Boxes are x, y, width, height of their centre, not two corners (y, x).
  bool count = false;
};

}  // namespace sluice

#endif  // SLUICE_MODEL_SELECTION_OPERATIONS_H_
