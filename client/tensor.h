// client/tensor.h
//
// A tensor as it travels, and the element types that the protocol, NumPy and tensor sets name
// differently.

#ifndef SLUICE_CLIENT_TENSOR_H_
#define SLUICE_CLIENT_TENSOR_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace sluice {

// Row-major, little endian.
struct Tensor {
  std::string name;
  std::string datatype;  // "FP32", "INT64", ...
  std::vector<std::int64_t> shape;
  std::string data;
};

// What a model says of an input or an output. A dimension of -1 is open.
struct TensorInfo {
  std::string name;
  std::string datatype;
  std::vector<std::int64_t> shape;
};

// An element of fixed size. BYTES is none.
struct ElementType {
  std::string_view datatype;  // In the protocol: "FP32".
  std::string_view npy;       // In a .npy header: "<f4"; empty when NumPy has no such type.
  std::string_view set;       // In a tensor set: "float32".
  std::size_t bytes = 0;
};

// Null when there is no such type.
const ElementType* FindDatatype(std::string_view datatype);
const ElementType* FindNpyType(std::string_view descr);
const ElementType* FindSetType(std::string_view name);
// "FP16, FP32, ...", for errors.
std::string KnownDatatypes();

// Absent when a dimension is negative or the product does not fit 63 bits.
std::optional<std::uint64_t> ElementCount(std::span<const std::int64_t> shape);

// The bytes of a tensor, in whole.
// Fails: INVALID_ARGUMENT, a type without a fixed size, an open dimension, a product too large.
absl::StatusOr<std::uint64_t> TensorBytes(std::string_view datatype,
                                          std::span<const std::int64_t> shape);

// "[1, 3, 320, 480]".
std::string FormatShape(std::span<const std::int64_t> shape);

// The values, whatever their type. 64-bit integers lose what a double cannot hold.
// Fails: INVALID_ARGUMENT, as TensorBytes, or data of another size.
absl::StatusOr<std::vector<double>> Values(const Tensor& tensor);

}  // namespace sluice

#endif  // SLUICE_CLIENT_TENSOR_H_
