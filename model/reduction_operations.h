// model/reduction_operations.h
//
// Operations on whole rows: reductions, normalisations, orders.
//
// See model/operation.h for what all of these share.

#ifndef SLUICE_MODEL_REDUCTION_OPERATIONS_H_
#define SLUICE_MODEL_REDUCTION_OPERATIONS_H_

#include <cstdint>
#include <string_view>
#include <vector>

namespace sluice {

struct Reduce {
  enum class Kind : std::uint8_t { kSum, kMean, kMax, kMin, kProduct, kL2, kL1 };
  Kind kind = Kind::kMean;
  std::vector<std::int64_t> axes;  // In [0, rank), ascending. The output's shape says keepdims.
};
std::string_view Name(Reduce::Kind kind);

// Where the largest or smallest element along `axis` lies, as kInt64. The output's shape says
// keepdims.
struct ArgReduce {
  enum class Kind : std::uint8_t { kMax, kMin };
  Kind kind = Kind::kMax;
  std::int64_t axis = 0;
  bool last = false;  // Of equal ones, the last rather than the first.
};

struct Softmax {
  std::int64_t axis = -1;  // In [0, rank) after import; over this dimension alone.
  bool log = false;
};

// 1 where the largest element along `axis` is first met, 0 elsewhere.
struct Hardmax {
  std::int64_t axis = 0;
};

// Sums of all elements up to each one. Inputs: x.
struct CumulativeSum {
  std::int64_t axis = 0;
  bool exclusive = false, reverse = false;
};

// y = (x - mean) / sqrt(variance + epsilon) * scale + shift over dimensions from `axis` on, or over
// all but the first two where `per_channel`, with groups of channels (dimension 1) normalised
// together; without `centred` the mean is taken for 0. Inputs: x, scale, shift; the last two may
// be absent, and have the shape of the normalised dimensions, or [C] where `per_channel`.
struct Normalize {
  std::int64_t axis = 0;
  float epsilon = 1e-5f;
  bool centred = true;
  bool per_channel = false;
  std::int64_t groups = 1;  // Where per_channel; divides the channels.
};

// The k largest (smallest) elements along `axis`, k being the output's size there; or where they
// lie, as kInt64. In order; equal ones by their place.
struct TopK {
  std::int64_t axis = 0;
  bool largest = true;
  bool indices = false;
};

}  // namespace sluice

#endif  // SLUICE_MODEL_REDUCTION_OPERATIONS_H_
