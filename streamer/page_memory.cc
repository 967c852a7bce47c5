#include "streamer/page_memory.h"

#include <sys/mman.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_format.h"

namespace sluice {

absl::StatusOr<PageMemory> PageMemory::Map(Bytes size) {
  PageMemory memory;
  if (size == Bytes()) return memory;
  const Bytes whole = AlignUp(size, kPageSize);
  void* const data = whole < size ? MAP_FAILED
                                  : ::mmap(nullptr, whole.count(), PROT_READ | PROT_WRITE,
                                           MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (data == MAP_FAILED) {
    return absl::ResourceExhaustedError(
        absl::StrFormat("cannot map %s of memory: %s", FormatBytes(size),
                        std::strerror(whole < size ? ENOMEM : errno)));
  }
  // A kernel without huge pages refuses this, and then there is nothing to switch off.
  static_cast<void>(::madvise(data, whole.count(), MADV_NOHUGEPAGE));
  memory.data_ = static_cast<std::byte*>(data);
  memory.size_ = whole.count();
  return memory;
}

absl::Status PageMemory::Populate() {
  if (size_ == 0 || ::madvise(data_, size_, MADV_POPULATE_WRITE) == 0) return absl::OkStatus();
  if (errno != EINVAL) {
    return absl::ResourceExhaustedError(absl::StrFormat(
        "cannot get %s of memory: %s", FormatBytes(Bytes::Of(size_)), std::strerror(errno)));
  }
  // A kernel older than 5.14.
  for (std::size_t i = 0; i < size_; i += kPageSize.count()) {
    volatile std::byte& byte = data_[i];
    byte = data_[i];
  }
  return absl::OkStatus();
}

PageMemory::~PageMemory() {
  if (data_ != nullptr) ::munmap(data_, size_);
}

PageMemory::PageMemory(PageMemory&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}

PageMemory& PageMemory::operator=(PageMemory&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  PageMemory old(std::move(other));
  return *this;
}

}  // namespace sluice
