// streamer/block_device.h
//
// A disk, as the streamer sees it: reads go in, completions come out in any order. io_uring, the
// thread pool and the simulator implement it alike.

#ifndef SLUICE_STREAMER_BLOCK_DEVICE_H_
#define SLUICE_STREAMER_BLOCK_DEVICE_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

#include "absl/status/statusor.h"
#include "base/bytes.h"
#include "base/clock.h"

namespace sluice {

struct Read {
  std::uint64_t tag = 0;
  int fd = -1;   // An open file; who opened it keeps it open until the reap.
  Bytes offset;  // Offset, size and address are multiples of kPageSize.
  std::span<std::byte> into;
};

struct Completion {
  std::uint64_t tag = 0;
  int result = 0;  // Bytes read or -errno, as in a CQE. May be short: ask for the rest.
};

// Threads: one thread owns a device, but Wake may come from any.
class BlockDevice {
 public:
  virtual ~BlockDevice() = default;
  virtual std::string_view name() const = 0;  // "io_uring", "thread pool"
  virtual std::size_t queue_depth() const = 0;
  // False when the queue is full: reap first. Borrows `read.into` until the read is reaped.
  virtual bool TrySubmit(const Read& read) = 0;
  // Completions come in any order, each once. Returns 0 when none came within `wait`, or when
  // Wake() was called meanwhile.
  virtual std::size_t Reap(std::span<Completion> out, Duration wait) = 0;
  // Ends a Reap that waits, now or the next one.
  virtual void Wake() = 0;
  // Tells the device which memory most reads go to, so that it can pin it once; an empty span lets
  // go. Requires: no read in flight. Failing to pin is no error: reads still work.
  virtual void RegisterMemory(std::span<std::byte> memory) = 0;
};

// Fails: UNIMPLEMENTED or PERMISSION_DENIED when the kernel does not allow io_uring.
absl::StatusOr<std::unique_ptr<BlockDevice>> OpenIoUringDevice(std::size_t queue_depth);
std::unique_ptr<BlockDevice> OpenThreadPoolDevice(std::size_t threads);

}  // namespace sluice

#endif  // SLUICE_STREAMER_BLOCK_DEVICE_H_
