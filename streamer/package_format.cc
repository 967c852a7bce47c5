#include "streamer/package_format.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_format.h"
#include "base/check.h"
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
constexpr std::size_t kIdentityChecksumAt = 40;
constexpr std::size_t kTableChecksumAt = 48;
constexpr std::size_t kHeaderChecksumAt = 56;
constexpr std::size_t kHeaderSize = 64;
constexpr std::size_t kRecordSize = 24;

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

}  // namespace

PackageLayout LayOutPackage(Bytes identity_size, std::uint64_t extents) {
  const Bytes identity = Bytes::Of(kHeaderSize);
  const Bytes table = AlignUp(identity + identity_size, Bytes::Of(8));
  const Bytes table_end = table + Bytes::Of(kRecordSize) * extents;
  return {.identity = identity,
          .table = table,
          .table_end = table_end,
          .data = AlignUp(table_end, kPageSize)};
}

std::vector<ExtentRecord> PlaceExtents(Bytes identity_size, std::span<const Bytes> extent_sizes) {
  std::vector<ExtentRecord> records;
  records.reserve(extent_sizes.size());
  Bytes next = LayOutPackage(identity_size, extent_sizes.size()).data;
  for (const Bytes size : extent_sizes) {
    records.push_back({.offset = next, .size = size});
    next += AlignUp(size, kPageSize);
  }
  return records;
}

Bytes PackageSize(Bytes identity_size, std::span<const ExtentRecord> records) {
  if (records.empty()) return LayOutPackage(identity_size, 0).data;
  return records.back().offset + AlignUp(records.back().size, kPageSize);
}

void EncodeMetadata(std::string_view identity, std::span<const ExtentRecord> records,
                    std::span<std::byte> into) {
  const Bytes identity_size = Bytes::Of(identity.size());
  const PackageLayout layout = LayOutPackage(identity_size, records.size());
  SLUICE_CHECK(into.size() == layout.data.count());
  std::ranges::fill(into, std::byte{0});
  std::ranges::copy(std::as_bytes(std::span(identity)), into.begin() + kHeaderSize);
  std::size_t at = layout.table.count();
  for (const ExtentRecord& record : records) {
    Store(into, at, record.offset.count());
    Store(into, at + 8, record.size.count());
    Store(into, at + 16, record.checksum);
    at += kRecordSize;
  }
  const std::size_t table = layout.table.count();
  std::ranges::copy(std::as_bytes(std::span(kMagic)), into.begin());
  Store(into, kVersionAt, kPackageVersion);
  Store(into, kHeaderSizeAt, static_cast<std::uint32_t>(kHeaderSize));
  Store(into, kFileSizeAt, PackageSize(identity_size, records).count());
  Store(into, kIdentitySizeAt, identity_size.count());
  Store(into, kExtentsAt, static_cast<std::uint64_t>(records.size()));
  Store(into, kIdentityChecksumAt, Checksum(into.subspan(kHeaderSize, identity.size())));
  Store(into, kTableChecksumAt, Checksum(into.subspan(table, layout.table_end.count() - table)));
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
                             .identity_checksum = Load<std::uint64_t>(page, kIdentityChecksumAt),
                             .table_checksum = Load<std::uint64_t>(page, kTableChecksumAt)};
  if (header.file_size != file_size) {
    return absl::DataLossError(absl::StrFormat("the file has %d bytes, want %d", file_size.count(),
                                               header.file_size.count()));
  }
  if (Load<std::uint32_t>(page, kHeaderSizeAt) != kHeaderSize ||
      header.identity_size > kMaxIdentity ||
      LayOutPackage(header.identity_size, header.extents).data > file_size) {
    return absl::DataLossError(absl::StrFormat(
        "the header promises %d bytes of identity and %d extents, which a file of %d bytes cannot "
        "hold",
        header.identity_size.count(), header.extents, file_size.count()));
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
                                                      std::span<const ExtentRecord> wanted) {
  const PackageLayout layout = LayOutPackage(header.identity_size, header.extents);
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
  std::vector<ExtentRecord> records(wanted.begin(), wanted.end());
  for (std::size_t i = 0; i < records.size(); ++i) {
    const std::size_t at = begin + i * kRecordSize;
    const auto offset = Load<std::uint64_t>(metadata, at);
    const auto size = Load<std::uint64_t>(metadata, at + 8);
    if (offset != wanted[i].offset.count() || size != wanted[i].size.count()) {
      return absl::FailedPreconditionError(
          absl::StrFormat("extent %d has %d bytes at %d, want %d at %d", i, size, offset,
                          wanted[i].size.count(), wanted[i].offset.count()));
    }
    records[i].checksum = Load<std::uint64_t>(metadata, at + 16);
  }
  return records;
}

}  // namespace sluice
