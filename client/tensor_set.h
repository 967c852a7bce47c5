// client/tensor_set.h
//
// A tensor set: a folder with tensors.json and one file of raw little-endian values a tensor.
//
//   {"schema": "tensor-set/1",
//    "tensors": [{"name": "x", "dtype": "float32", "shape": [1, 3], "file": "00.bin"}]}

#ifndef SLUICE_CLIENT_TENSOR_SET_H_
#define SLUICE_CLIENT_TENSOR_SET_H_

#include <filesystem>
#include <vector>

#include "absl/status/statusor.h"
#include "client/tensor.h"

namespace sluice {

// Files must lie in the folder itself: a name with a path in it is refused.
// Fails: as ReadFile; INVALID_ARGUMENT, with file, found and wanted, for any other damage.
absl::StatusOr<std::vector<Tensor>> ReadTensorSet(const std::filesystem::path& folder);

// Makes the folder where it is missing; tensors.json is written last.
// Fails: INVALID_ARGUMENT, a tensor without a fixed element size; INTERNAL, the disk.
absl::Status WriteTensorSet(const std::filesystem::path& folder,
                            const std::vector<Tensor>& tensors);

}  // namespace sluice

#endif  // SLUICE_CLIENT_TENSOR_SET_H_
