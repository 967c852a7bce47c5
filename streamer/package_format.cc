#include "streamer/package_format.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_format.h"
#include "base/check.h"
#include "base/status_macros.h"
#include "streamer/checksum.h"

namespace sluice {
namespace {

constexpr std::array<char, 8> kMagic = {'S', 'L', 'U', 'I', 'C', 'E', 'P', 'K'};

// Offsets of the header's fields.
constexpr std::size_t kVersionAt = 8;
constexpr std::size_t kHeaderSizeAt = 12;
constexpr std::size_t kFileSizeAt = 16;
constexpr std::size_t kIdentitySizeAt = 24;
constexpr std::size_t kExtentsAt = 32;
constexpr std::size_t kRunsAt = 40;
constexpr std::size_t kIdentityChecksumAt = 48;
constexpr std::size_t kTableChecksumAt = 56;
constexpr std::size_t kLargestErrorAt = 64;
constexpr std::size_t kRmsErrorAt = 72;
constexpr std::size_t kHeaderChecksumAt = 80;
constexpr std::size_t kHeaderSize = 88;
constexpr std::size_t kRecordSize = 40;
constexpr std::size_t kRunSize = 32;

static_assert(std::endian::native == std::endian::little, "packages are little endian");

template <typename T>
T Load(std::span<const std::byte> bytes, std::size_t at) {
  T value;
  std::memcpy(&value, bytes.subspan(at, sizeof(T)).data(), sizeof(T));
  return value;
}

template <typename T>
void Store(std::span<std::byte> bytes, std::size_t at, T value) {
  std::memcpy(bytes.subspan(at, sizeof(T)).data(), &value, sizeof(T));
}

bool AllZero(std::span<const std::byte> bytes) {
  return std::ranges::all_of(bytes, [](std::byte byte) { return byte == std::byte{0}; });
}

// The first line in which two texts differ, shortened: what to tell a person.
std::string FirstDifference(std::string_view found, std::string_view wanted) {
  constexpr std::size_t kShown = 120;
  std::size_t line = 0;
  for (std::size_t i = 0; i < std::min(found.size(), wanted.size()) && found[i] == wanted[i]; ++i) {
    if (found[i] == '\n') line = i + 1;
  }
  const auto shown = [=](std::string_view text) {
    const std::string_view rest = text.substr(line);
    return std::string(rest.substr(0, std::min(kShown, rest.find('\n'))));
  };
  return absl::StrFormat("has \"%s\", want \"%s\"", shown(found), shown(wanted));
}

absl::Status DamagedPart(const char* part, std::uint64_t found, std::uint64_t wanted) {
  return absl::DataLossError(
      absl::StrFormat("%s has checksum %016x, want %016x", part, found, wanted));
}

void StoreRun(const EncodedRun& run, std::span<std::byte> into) {
  Store(into, 0, run.offset.count());
  Store(into, 8, run.floats);
  Store(into, 16, run.scales.group);
  Store(into, 24, run.scales.period);
  Store(into, 28, static_cast<std::uint32_t>(run.encoding));
}

// Encodings that nobody knows become zero, which no run has.
EncodedRun LoadRun(std::span<const std::byte> from) {
  const auto encoding = Load<std::uint32_t>(from, 28);
  return {
      .offset = Bytes::Of(Load<std::uint64_t>(from, 0)),
      .floats = Load<std::uint64_t>(from, 8),
      .encoding = static_cast<Encoding>(encoding > 0xff ? 0 : encoding),
      .scales = {.group = Load<std::uint64_t>(from, 16), .period = Load<std::uint32_t>(from, 24)}};
}

// Reads record after record of the table, each against what is wanted of it.
class TableReader {
 public:
  // Requires: whole tables of `extents` and `runs`.
  TableReader(std::span<const std::byte> extents, std::span<const std::byte> runs, Bytes data)
      : extents_(extents), runs_(runs), next_(data) {}

  absl::StatusOr<ExtentRecord> Next(std::size_t index, Bytes wanted) {
    const std::span<const std::byte> from = extents_.subspan(index * kRecordSize, kRecordSize);
    ExtentRecord record{.offset = Bytes::Of(Load<std::uint64_t>(from, 0)),
                        .size = Bytes::Of(Load<std::uint64_t>(from, 8)),
                        .stored = Bytes::Of(Load<std::uint64_t>(from, 16)),
                        .checksum = Load<std::uint64_t>(from, 24)};
    if (record.size != wanted || record.offset != next_) {
      return absl::FailedPreconditionError(
          absl::StrFormat("extent %d has %d bytes at %d, want %d at %d", index, record.size.count(),
                          record.offset.count(), wanted.count(), next_.count()));
    }
    const auto count = Load<std::uint64_t>(from, 32);
    if (count > runs_.size() / kRunSize) {
      return absl::DataLossError(absl::StrFormat("extent %d has %d runs, want at most %d", index,
                                                 count, runs_.size() / kRunSize));
    }
    record.runs.reserve(count);
    for (std::uint64_t i = 0; i < count; ++i) {
      record.runs.push_back(LoadRun(runs_.first(kRunSize)));
      runs_ = runs_.subspan(kRunSize);
    }
    if (const absl::Status sound = CheckRuns(record.size, record.runs); !sound.ok()) {
      return absl::DataLossError(
          absl::StrFormat("extent %d: %s", index, std::string(sound.message())));
    }
    if (record.stored != StoredSize(record.size, record.runs)) {
      return absl::DataLossError(absl::StrFormat("extent %d has %d bytes stored, want %d", index,
                                                 record.stored.count(),
                                                 StoredSize(record.size, record.runs).count()));
    }
    next_ += record.stored_pages();
    return record;
  }

  // Runs that no extent has.
  std::span<const std::byte> rest() const { return runs_; }

 private:
  const std::span<const std::byte> extents_;
  std::span<const std::byte> runs_;
  Bytes next_;
};

bool IsError(double value) { return std::isfinite(value) && value >= 0; }

}  // namespace

PackageLayout LayOutPackage(Bytes identity_size, std::uint64_t extents, std::uint64_t runs) {
  const Bytes identity = Bytes::Of(kHeaderSize);
  const Bytes table = AlignUp(identity + identity_size, Bytes::Of(8));
  const Bytes runs_at = table + Bytes::Of(kRecordSize) * extents;
  const Bytes table_end = runs_at + Bytes::Of(kRunSize) * runs;
  return {.identity = identity,
          .table = table,
          .runs = runs_at,
          .table_end = table_end,
          .data = AlignUp(table_end, kPageSize)};
}

std::uint64_t MostRuns(std::span<const Bytes> extent_sizes) {
  std::uint64_t most = 0;
  for (const Bytes size : extent_sizes) most += size.count() / kLeastRun.count();
  return most;
}

void EncodeMetadata(std::string_view identity, std::span<const ExtentRecord> records,
                    std::uint64_t runs, const WeightError& error, std::span<std::byte> into) {
  const Bytes identity_size = Bytes::Of(identity.size());
  const PackageLayout layout = LayOutPackage(identity_size, records.size(), runs);
  SLUICE_CHECK(into.size() == layout.data.count());
  std::ranges::fill(into, std::byte{0});
  std::ranges::copy(std::as_bytes(std::span(identity)), into.begin() + kHeaderSize);
  Bytes file_size = layout.data;
  std::size_t at = layout.table.count();
  std::size_t run_at = layout.runs.count();
  for (const ExtentRecord& record : records) {
    Store(into, at, record.offset.count());
    Store(into, at + 8, record.size.count());
    Store(into, at + 16, record.stored.count());
    Store(into, at + 24, record.checksum);
    Store(into, at + 32, static_cast<std::uint64_t>(record.runs.size()));
    at += kRecordSize;
    for (const EncodedRun& run : record.runs) {
      SLUICE_CHECK(run_at + kRunSize <= layout.table_end.count());
      StoreRun(run, into.subspan(run_at, kRunSize));
      run_at += kRunSize;
    }
    file_size = record.offset + record.stored_pages();
  }
  const std::size_t table = layout.table.count();
  std::ranges::copy(std::as_bytes(std::span(kMagic)), into.begin());
  Store(into, kVersionAt, kPackageVersion);
  Store(into, kHeaderSizeAt, static_cast<std::uint32_t>(kHeaderSize));
  Store(into, kFileSizeAt, file_size.count());
  Store(into, kIdentitySizeAt, identity_size.count());
  Store(into, kExtentsAt, static_cast<std::uint64_t>(records.size()));
  Store(into, kRunsAt, runs);
  Store(into, kIdentityChecksumAt, Checksum(into.subspan(kHeaderSize, identity.size())));
  Store(into, kTableChecksumAt, Checksum(into.subspan(table, layout.table_end.count() - table)));
  Store(into, kLargestErrorAt, error.largest);
  Store(into, kRmsErrorAt, error.rms);
  Store(into, kHeaderChecksumAt, Checksum(into.first(kHeaderChecksumAt)));
}

absl::StatusOr<PackageHeader> DecodeHeader(std::span<const std::byte> page, Bytes file_size) {
  SLUICE_CHECK(page.size() >= kHeaderSize);
  if (std::memcmp(page.data(), kMagic.data(), kMagic.size()) != 0) {
    return absl::DataLossError("it does not begin with SLUICEPK");
  }
  // Every version has its number here; the rest of the header may move.
  if (const auto version = Load<std::uint32_t>(page, kVersionAt); version != kPackageVersion) {
    return absl::FailedPreconditionError(
        absl::StrFormat("format version %d, want %d", version, kPackageVersion));
  }
  const auto wanted = Load<std::uint64_t>(page, kHeaderChecksumAt);
  const std::uint64_t found = Checksum(page.first(kHeaderChecksumAt));
  if (found != wanted) return DamagedPart("the header", found, wanted);
  const PackageHeader header{.file_size = Bytes::Of(Load<std::uint64_t>(page, kFileSizeAt)),
                             .identity_size = Bytes::Of(Load<std::uint64_t>(page, kIdentitySizeAt)),
                             .extents = Load<std::uint64_t>(page, kExtentsAt),
                             .runs = Load<std::uint64_t>(page, kRunsAt),
                             .weight_error = {.largest = Load<double>(page, kLargestErrorAt),
                                              .rms = Load<double>(page, kRmsErrorAt)},
                             .identity_checksum = Load<std::uint64_t>(page, kIdentityChecksumAt),
                             .table_checksum = Load<std::uint64_t>(page, kTableChecksumAt)};
  if (header.file_size != file_size) {
    return absl::DataLossError(absl::StrFormat("the file has %d bytes, want %d", file_size.count(),
                                               header.file_size.count()));
  }
  if (Load<std::uint32_t>(page, kHeaderSizeAt) != kHeaderSize ||
      header.identity_size > kMaxIdentity ||
      LayOutPackage(header.identity_size, header.extents, header.runs).data > file_size) {
    return absl::DataLossError(absl::StrFormat(
        "the header promises %d bytes of identity, %d extents and %d runs, which a file of %d "
        "bytes cannot hold",
        header.identity_size.count(), header.extents, header.runs, file_size.count()));
  }
  if (!IsError(header.weight_error.largest) || !IsError(header.weight_error.rms)) {
    return absl::DataLossError(absl::StrFormat("the error of the weights is %g and %g",
                                               header.weight_error.largest,
                                               header.weight_error.rms));
  }
  return header;
}

absl::Status CheckIdentity(const PackageHeader& header, std::span<const std::byte> metadata,
                           std::string_view wanted) {
  const std::span<const std::byte> identity =
      metadata.subspan(kHeaderSize, header.identity_size.count());
  const std::uint64_t checksum = Checksum(identity);
  if (checksum != header.identity_checksum) {
    return DamagedPart("the identity", checksum, header.identity_checksum);
  }
  const std::string_view found(reinterpret_cast<const char*>(identity.data()), identity.size());
  if (found == wanted) return absl::OkStatus();
  return absl::FailedPreconditionError("it was made from something else: it " +
                                       FirstDifference(found, wanted));
}

absl::StatusOr<std::vector<ExtentRecord>> DecodeTable(const PackageHeader& header,
                                                      std::span<const std::byte> metadata,
                                                      std::span<const Bytes> wanted) {
  const PackageLayout layout = LayOutPackage(header.identity_size, header.extents, header.runs);
  SLUICE_CHECK(metadata.size() == layout.data.count());
  if (header.extents != wanted.size()) {
    return absl::FailedPreconditionError(
        absl::StrFormat("it has %d extents, want %d", header.extents, wanted.size()));
  }
  const std::size_t begin = layout.table.count();
  const std::size_t end = layout.table_end.count();
  const std::uint64_t checksum = Checksum(metadata.subspan(begin, end - begin));
  if (checksum != header.table_checksum) {
    return DamagedPart("the table of extents", checksum, header.table_checksum);
  }
  const std::size_t identity_end = kHeaderSize + header.identity_size.count();
  if (!AllZero(metadata.subspan(identity_end, begin - identity_end)) ||
      !AllZero(metadata.subspan(end))) {
    return absl::DataLossError("the padding of its metadata is not zero");
  }
  const std::size_t runs = layout.runs.count();
  TableReader table(metadata.subspan(begin, runs - begin), metadata.subspan(runs, end - runs),
                    layout.data);
  std::vector<ExtentRecord> records;
  records.reserve(wanted.size());
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    SLUICE_ASSIGN_OR_RETURN(ExtentRecord record, table.Next(i, wanted[i]));
    records.push_back(std::move(record));
  }
  if (!AllZero(table.rest())) return absl::DataLossError("the places of unused runs are not zero");
  return records;
}

}  // namespace sluice
