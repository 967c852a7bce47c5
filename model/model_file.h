// model/model_file.h
//
// A file of weights that is read in windows: never mapped, never whole, and nothing of it stays in
// the page cache.

#ifndef SLUICE_MODEL_MODEL_FILE_H_
#define SLUICE_MODEL_MODEL_FILE_H_

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/bytes.h"
#include "model/constant.h"
#include "model/data_type.h"

namespace sluice {

// Threads: Read from several at once. Owns: the descriptor.
class ModelFile {
 public:
  // Fails: NOT_FOUND; INVALID_ARGUMENT, not a regular file, not readable, or outside `folder` once
  //        links are resolved. Requires: `folder`, when given, is absolute and without links.
  static absl::StatusOr<std::shared_ptr<const ModelFile>> Open(
      const std::filesystem::path& path,
      const std::optional<std::filesystem::path>& folder = std::nullopt);
  ~ModelFile();
  ModelFile(const ModelFile&) = delete;
  ModelFile& operator=(const ModelFile&) = delete;

  const std::filesystem::path& path() const { return path_; }  // Absolute, without links.
  Bytes size() const { return size_; }                         // When it was opened.

  // Copies [offset, offset + into.size()). Requires: within size().
  // Fails: DATA_LOSS, it cannot be read, or was changed since it was opened.
  absl::Status Read(Bytes offset, std::span<std::byte> into) const;

 private:
  ModelFile(std::filesystem::path path, int descriptor, Bytes size, std::int64_t changed_ns);

  std::filesystem::path path_;
  int descriptor_;
  Bytes size_;
  std::int64_t changed_ns_;
};

// The bytes [offset, offset + size) of the file, as they are. Requires: within the file.
std::shared_ptr<const Constant> FileConstant(std::shared_ptr<const ModelFile> file, Bytes offset,
                                             Bytes size);

// Integers that lie in the file as `count` base-128 varints in [offset, offset + length), and are
// decoded as they are read: elements of `type` from the low bytes of each. Scans them once.
// Fails: INVALID_ARGUMENT, another number of varints or a malformed one. DATA_LOSS as Read.
// Memory: eight bytes for each 4096 elements.
absl::StatusOr<std::shared_ptr<const Constant>> VarintConstant(
    std::shared_ptr<const ModelFile> file, Bytes offset, Bytes length, DataType type,
    std::uint64_t count);

}  // namespace sluice

#endif  // SLUICE_MODEL_MODEL_FILE_H_
