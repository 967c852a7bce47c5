// streamer/package_format.h
//
// The bytes of a package, as docs/formats/package.md describes them: header, identity, table of
// extents, extents. Pure functions between bytes and records.
//
// Threads: callable from anywhere.

#ifndef SLUICE_STREAMER_PACKAGE_FORMAT_H_
#define SLUICE_STREAMER_PACKAGE_FORMAT_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "base/bytes.h"
#include "streamer/package.h"

namespace sluice {

inline constexpr std::uint32_t kPackageVersion = 2;
inline constexpr Bytes kMaxIdentity = 1_MiB;
// A package that is being built is called as it will be, and this.
inline constexpr std::string_view kBuildEnding = ".sluice-build";

// What the header says; checked against the size of the file, so that nothing read from it leads
// to an allocation larger than the file.
struct PackageHeader {
  Bytes file_size;
  Bytes identity_size;
  std::uint64_t extents = 0, runs = 0;
  WeightError weight_error;
  std::uint64_t identity_checksum = 0;
  std::uint64_t table_checksum = 0;
};

// Where the parts lie, given their sizes. Saturates.
struct PackageLayout {
  Bytes identity, table, runs, table_end;  // `identity` ends where zeros up to `table` begin.
  Bytes data;                              // Of the first extent; whole pages.
};
// `runs`: places for records of runs, of which the last may be empty.
PackageLayout LayOutPackage(Bytes identity_size, std::uint64_t extents, std::uint64_t runs);

// The most runs that extents of these sizes can have: each takes kLeastRun of memory.
std::uint64_t MostRuns(std::span<const Bytes> extent_sizes);

// All that comes before the first extent. Requires: records that follow each other from the
// layout's `data` on, into.size() == that, and no more than `runs` runs in all.
void EncodeMetadata(std::string_view identity, std::span<const ExtentRecord> records,
                    std::uint64_t runs, const WeightError& error, std::span<std::byte> into);

// Requires: the first page of the file. Messages begin with what is wrong, not with the path.
// Fails: FAILED_PRECONDITION, another version. DATA_LOSS, damaged, or not `file_size` long.
absl::StatusOr<PackageHeader> DecodeHeader(std::span<const std::byte> page, Bytes file_size);

// Requires: the file up to the layout's `data`.
// Fails: FAILED_PRECONDITION, another identity, or extents of other sizes in memory than wanted.
//        DATA_LOSS, damaged: runs that cannot be widened, extents that do not follow each other.
absl::Status CheckIdentity(const PackageHeader& header, std::span<const std::byte> metadata,
                           std::string_view wanted);
absl::StatusOr<std::vector<ExtentRecord>> DecodeTable(const PackageHeader& header,
                                                      std::span<const std::byte> metadata,
                                                      std::span<const Bytes> wanted);

}  // namespace sluice

#endif  // SLUICE_STREAMER_PACKAGE_FORMAT_H_
