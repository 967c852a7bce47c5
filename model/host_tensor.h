// model/host_tensor.h
//
// Small constants as numbers: shapes, axes, per-channel vectors. And the operations of a graph on
// them, for what folds at import.

#ifndef SLUICE_MODEL_HOST_TENSOR_H_
#define SLUICE_MODEL_HOST_TENSOR_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "base/bytes.h"
#include "model/constant.h"
#include "model/graph.h"

namespace sluice {

// Constants above this stay where they are.
inline constexpr Bytes kMaxFolded = 64_KiB;
// Vectors of per-channel parameters above this are refused.
inline constexpr Bytes kMaxVector = Bytes::Of(1024 * 1024);

bool IsFloat(DataType type);
bool IsInteger(DataType type);  // Bool too.

// The elements of a constant of a floating point type.
// Fails: INVALID_ARGUMENT, computed or of another type. RESOURCE_EXHAUSTED, above kMaxVector.
//        DATA_LOSS, it cannot be read. Messages name the value.
absl::StatusOr<std::vector<float>> ReadFloats(const Value& value);
// The same for integers; UINT64 above the range of INT64 wraps.
absl::StatusOr<std::vector<std::int64_t>> ReadIntegers(const Value& value);

// Elements as bytes of `type`, rounded to nearest even or to the low bits. Requires: IsFloat and
// IsInteger, respectively.
std::vector<std::byte> PackFloats(DataType type, std::span<const float> elements);
std::vector<std::byte> PackIntegers(DataType type, std::span<const std::int64_t> elements);
// Of any type. Fails: INVALID_ARGUMENT, a fraction or more than 2^53 for integers.
absl::StatusOr<std::vector<std::byte>> PackNumbers(DataType type, std::span<const double> elements);

// Steps through the elements of `from` in the order of a broadcast to `to`: element i of the result
// is where element i of `to` comes from. Requires: the shapes broadcast.
std::vector<std::size_t> BroadcastIndices(std::span<const std::int64_t> from,
                                          std::span<const std::int64_t> to);

// What the node computes, when its inputs are constants, and all of them and its output are at most
// kMaxFolded; null when they are not, or the operation or its types are none that shapes are
// computed with. A reshape shares the contents, whatever their size.
// Fails: INVALID_ARGUMENT, division by zero or an index out of range. DATA_LOSS.
absl::StatusOr<std::shared_ptr<const Constant>> Fold(const Graph& graph, const Node& node);

}  // namespace sluice

#endif  // SLUICE_MODEL_HOST_TENSOR_H_
