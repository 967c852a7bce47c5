// streamer/page_memory.h
//
// Memory from mmap: whole pages, zero until touched, returned to the system when destroyed. Huge
// pages are off, so that what was never touched is never counted as resident.

#ifndef SLUICE_STREAMER_PAGE_MEMORY_H_
#define SLUICE_STREAMER_PAGE_MEMORY_H_

#include <cstddef>
#include <span>

#include "absl/status/statusor.h"
#include "base/bytes.h"

namespace sluice {

class PageMemory {
 public:
  PageMemory() = default;
  // At least `size` bytes, rounded up to whole pages; zero bytes map nothing.
  // Fails: RESOURCE_EXHAUSTED.
  static absl::StatusOr<PageMemory> Map(Bytes size);
  // Gives every page its memory now, so that what is held is what was asked for. Contents stay.
  // Fails: RESOURCE_EXHAUSTED.
  absl::Status Populate();
  ~PageMemory();
  PageMemory(PageMemory&& other) noexcept;
  PageMemory& operator=(PageMemory&& other) noexcept;
  std::span<std::byte> span() const { return {data_, size_}; }

 private:
  std::byte* data_ = nullptr;
  std::size_t size_ = 0;
};

}  // namespace sluice

#endif  // SLUICE_STREAMER_PAGE_MEMORY_H_
