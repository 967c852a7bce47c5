// client/npy.h
//
// NumPy's .npy files, format versions 1.0 to 3.0 (NumPy Enhancement Proposal 1), row-major and
// little endian.

#ifndef SLUICE_CLIENT_NPY_H_
#define SLUICE_CLIENT_NPY_H_

#include <filesystem>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "client/tensor.h"

namespace sluice {

// The tensor has no name. `where` (a file's name) stands first in every message.
// Fails: INVALID_ARGUMENT, with what was found and wanted: not a .npy file, an unknown version, a
//        header that is not the three keys descr, fortran_order and shape, column-major order, a
//        type that the protocol lacks (big endian, complex, records, objects), or another number of
//        bytes than the shape says.
absl::StatusOr<Tensor> ParseNpy(std::string contents, std::string_view where);

// Fails: as ParseNpy and ReadFile.
absl::StatusOr<Tensor> ReadNpy(const std::filesystem::path& path);

// Format version 1.0; the data begins at a multiple of 64 bytes.
// Fails: INVALID_ARGUMENT, a type that NumPy lacks (BF16, BYTES), or data that is not the shape's.
absl::StatusOr<std::string> FormatNpy(const Tensor& tensor);

}  // namespace sluice

#endif  // SLUICE_CLIENT_NPY_H_
