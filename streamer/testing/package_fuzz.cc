// Opens any bytes as a package: an error, or extents that are the ones wanted and lie in the file.
// The bytes are tried as they are, and with their checksums made right, so that what lies behind
// the checksums is reached too.

#include <stdlib.h>
#include <unistd.h>

#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <vector>

#include "base/check.h"
#include "streamer/checksum.h"
#include "streamer/package.h"
#include "streamer/package_format.h"

namespace sluice {
namespace {

constexpr std::size_t kMostBytes = 1 << 20;

const PackageIdentity kIdentity{"fuzz\n"};
const std::vector<Bytes> kSizes = {Bytes::Of(10), kPageSize * 3};

// In memory, since a disk would set the pace, and with a name, as a package that is in use has.
class NamedFile {
 public:
  NamedFile() : fd_(::mkstemp(path_.data())) { SLUICE_CHECK(fd_ >= 0); }
  ~NamedFile() {
    ::unlink(path_.c_str());
    ::close(fd_);
  }
  NamedFile(const NamedFile&) = delete;
  NamedFile& operator=(const NamedFile&) = delete;
  int fd() const { return fd_; }
  const std::string& path() const { return path_; }

 private:
  std::string path_ = "/dev/shm/package_fuzz_" + std::string(6, 'X');
  const int fd_;
};

void TryOpen(std::span<const std::byte> file) {
  static const NamedFile named;
  SLUICE_CHECK(::ftruncate(named.fd(), 0) == 0);
  SLUICE_CHECK(::pwrite(named.fd(), file.data(), file.size(), 0) ==
               static_cast<ssize_t>(file.size()));
  const auto package = Package::Open(named.path(), kIdentity, kSizes);
  if (package.ok()) {
    SLUICE_CHECK((*package)->extents().size() == kSizes.size());
    for (std::size_t i = 0; i < kSizes.size(); ++i) {
      const ExtentRecord& record = (*package)->extents()[i];
      SLUICE_CHECK(record.size == kSizes[i]);
      SLUICE_CHECK(record.offset.count() % kPageSize.count() == 0);
      SLUICE_CHECK(record.offset + record.stored_pages() <= Bytes::Of(file.size()));
      SLUICE_CHECK(record.stored <= record.size && CheckRuns(record.size, record.runs).ok());
      // Whatever is stored there, widening stays within the place.
      std::vector<std::byte> place(AlignUp(record.size, kPageSize).count());
      Widen(place, record.size, record.runs);
    }
  } else {
    SLUICE_CHECK(package.status().code() == absl::StatusCode::kDataLoss ||
                 package.status().code() == absl::StatusCode::kFailedPrecondition);
  }
}

std::uint64_t Load(std::span<const std::byte> file, std::size_t at) {
  std::uint64_t value = 0;
  std::memcpy(&value, file.data() + at, sizeof(value));
  return value;
}

void Repair(std::span<std::byte> file) {
  if (file.size() < 88) return;
  const auto store = [file](std::size_t at, std::uint64_t value) {
    std::memcpy(file.data() + at, &value, sizeof(value));
  };
  const Bytes identity = Bytes::Of(Load(file, 24));
  const PackageLayout layout = LayOutPackage(identity, Load(file, 32), Load(file, 40));
  if (layout.table_end <= Bytes::Of(file.size()) && identity <= layout.table) {
    store(48, Checksum(file.subspan(88, identity.count())));
    store(56,
          Checksum(file.subspan(layout.table.count(), (layout.table_end - layout.table).count())));
  }
  store(80, Checksum(file.first(80)));
}

}  // namespace
}  // namespace sluice

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size > sluice::kMostBytes) return 0;
  const auto* const begin = reinterpret_cast<const std::byte*>(data);
  std::vector<std::byte> file(begin, begin + size);
  sluice::TryOpen(file);
  sluice::Repair(file);
  sluice::TryOpen(file);
  return 0;
}
