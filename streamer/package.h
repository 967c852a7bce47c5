// streamer/package.h
//
// The compiled weights of a model on disk: extents in execution order, in the kernels' own layout,
// some of them stored narrower than in memory (engine/weight_encoding.h). The bytes are described
// in docs/formats/package.md.
//
// Owns: a Package holds an open file, readable without the page cache where the file system can. It
// stays readable when somebody removes the name. A shared lock (flock) on it tells every process
// that the package is in use.
// Threads: immutable after Open; use from anywhere.

#ifndef SLUICE_STREAMER_PACKAGE_H_
#define SLUICE_STREAMER_PACKAGE_H_

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/bytes.h"
#include "base/ids.h"
#include "engine/weight_encoder.h"

namespace sluice {

struct ExtentRecord {
  Bytes offset;                // In the file; a multiple of kPageSize.
  Bytes size;                  // Payload in memory.
  Bytes stored;                // Payload in the file; what fills its pages is zero.
  std::uint64_t checksum = 0;  // XXH3-64 of the stored pages, whole.
  // What is stored narrower. Without, zeros follow the payload; with, they come before it, so that
  // it can be widened in place.
  std::vector<EncodedRun> runs = {};
  Bytes stored_pages() const { return AlignUp(stored, kPageSize); }
};

// Everything that the package's bytes depend on, in readable form: source files with size and
// change time, structure hash, dimensions, the program's fingerprint. Equal text, equal package.
struct PackageIdentity {
  std::string text;
  // Sixteen hexadecimal digits of a hash of `text`; the file is called HASH.sluice.
  std::string FileName() const;
};

class Package {
 public:
  ~Package();
  Package(const Package&) = delete;
  Package& operator=(const Package&) = delete;

  // Reads and verifies everything but the extents themselves.
  // Fails: NOT_FOUND, no such file. FAILED_PRECONDITION, another identity or format version: to be
  //        rebuilt. DATA_LOSS, truncated or damaged. ABORTED, another process finishes or removes
  //        it at this moment: try again.
  static absl::StatusOr<std::shared_ptr<const Package>> Open(const std::filesystem::path& path,
                                                             const PackageIdentity& identity,
                                                             std::span<const Bytes> extent_sizes);

  std::span<const ExtentRecord> extents() const { return extents_; }
  int fd() const { return fd_; }
  bool direct() const { return direct_; }  // False where reads pass through the page cache.
  Bytes file_size() const { return file_size_; }
  // By how much storing changed the weights; zeros where it did not.
  const WeightError& weight_error() const { return weight_error_; }
  const std::filesystem::path& path() const { return path_; }

 private:
  Package() = default;
  std::filesystem::path path_;
  std::vector<ExtentRecord> extents_;
  int fd_ = -1;
  bool direct_ = false;
  Bytes file_size_;
  WeightError weight_error_;
};

struct BuildOptions {
  // Called before each extent is packed: bytes done and in all. Returning an error stops the build.
  std::function<absl::Status(Bytes done, Bytes total)> progress;
  // Page-aligned memory for one extent at a time, at least the largest, in whole pages.
  std::span<std::byte> staging;
  // What is booked: bytes that each extent is expected to take in the file, as many as in memory
  // when empty; and the most runs that all of them have together.
  std::span<const Bytes> stored_sizes = {};
  std::uint64_t most_runs = 0;
  // Calls `create`, which makes the file at its full size, when there is room for so many bytes.
  std::function<absl::Status(Bytes total, const std::function<absl::Status()>& create)> with_room =
      nullptr;
};

// Packs every extent in order into a temporary file beside `path`, syncs it and renames it there,
// so that a file of that name is always whole. `pack` fills its span, one extent's place in memory,
// as PackExtent does.
// Leaves nothing in the page cache. Removes the temporary file when it fails. The temporary file is
// locked: one build of a package at a time, over all processes; what a dead one left is taken over.
// Fails: what `pack`, progress or with_room return; RESOURCE_EXHAUSTED, disk full; UNAVAILABLE,
// cannot write there; ABORTED, somebody else builds this package.
absl::Status BuildPackage(
    const std::filesystem::path& path, const PackageIdentity& identity,
    std::span<const Bytes> extent_sizes,
    const std::function<absl::StatusOr<PackedExtent>(ExtentIndex, std::span<std::byte>)>& pack,
    const BuildOptions& options);

}  // namespace sluice

#endif  // SLUICE_STREAMER_PACKAGE_H_
