#include <liburing.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_format.h"
#include "base/check.h"
#include "streamer/block_device.h"

namespace sluice {
namespace {

// The user data of the poll that Wake ends. Tags of reads may be any other number: they travel
// through a table, not through the kernel.
constexpr std::uint64_t kWakeSlot = ~std::uint64_t{0};

// The kernel registers at most 1 GiB as one buffer.
constexpr std::size_t kRegisteredPiece = std::size_t{1} << 30;

class IoUringDevice final : public BlockDevice {
 public:
  IoUringDevice(std::size_t queue_depth, int wake_fd)
      : queue_depth_(queue_depth), wake_fd_(wake_fd), tags_(queue_depth), free_(queue_depth) {
    for (std::size_t i = 0; i < queue_depth; ++i) free_[i] = static_cast<std::uint32_t>(i);
  }

  ~IoUringDevice() override {
    if (open_) ::io_uring_queue_exit(&ring_);
    ::close(wake_fd_);
  }

  // Returns zero or -errno.
  int Init() {
    // One entry more than reads: the poll of the wake event.
    const int error = ::io_uring_queue_init(static_cast<unsigned>(queue_depth_ + 1), &ring_, 0);
    if (error != 0) return error;
    open_ = true;
    // A wait with a timeout must not take an entry from the queue.
    if ((ring_.features & IORING_FEAT_EXT_ARG) == 0) return -ENOSYS;
    return 0;
  }

  std::string_view name() const override { return "io_uring"; }
  std::size_t queue_depth() const override { return queue_depth_; }

  bool TrySubmit(const Read& read) override {
    if (free_.empty()) return false;
    io_uring_sqe* const entry = ::io_uring_get_sqe(&ring_);
    if (entry == nullptr) return false;
    const std::uint32_t slot = free_.back();
    free_.pop_back();
    tags_[slot] = read.tag;
    const auto size = static_cast<unsigned>(read.into.size());
    if (const int buffer = RegisteredBuffer(read.into); buffer >= 0) {
      ::io_uring_prep_read_fixed(entry, read.fd, read.into.data(), size, read.offset.count(),
                                 buffer);
    } else {
      ::io_uring_prep_read(entry, read.fd, read.into.data(), size, read.offset.count());
    }
    ::io_uring_sqe_set_data64(entry, slot);
    // What the kernel does not take now goes out with the next call or with the next Reap.
    ::io_uring_submit(&ring_);
    return true;
  }

  std::size_t Reap(std::span<Completion> out, Duration wait) override {
    ArmWake();
    std::size_t count = 0;
    bool woken = false;
    Take(out, count, woken);
    if (count > 0 || woken || out.empty()) return count;
    if (wait <= Duration::zero() && ::io_uring_sq_ready(&ring_) == 0) return 0;
    const Duration positive = std::max(wait, Duration::zero());
    const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(positive);
    __kernel_timespec timeout{.tv_sec = seconds.count(), .tv_nsec = (positive - seconds).count()};
    io_uring_cqe* first = nullptr;
    ::io_uring_submit_and_wait_timeout(&ring_, &first, 1, &timeout, nullptr);
    Take(out, count, woken);
    return count;
  }

  void Wake() override {
    const std::uint64_t one = 1;
    // Fails only when the event is already pending.
    static_cast<void>(!::write(wake_fd_, &one, sizeof(one)));
  }

  void RegisterMemory(std::span<std::byte> memory) override {
    SLUICE_CHECK(free_.size() == queue_depth_);
    if (!registered_.empty()) {
      ::io_uring_unregister_buffers(&ring_);
      registered_.clear();
    }
    for (std::size_t at = 0; at < memory.size(); at += kRegisteredPiece) {
      const std::size_t size = std::min(kRegisteredPiece, memory.size() - at);
      registered_.push_back({memory.data() + at, size});
    }
    // Refused over RLIMIT_MEMLOCK, for one: plain reads pin their pages each time instead.
    if (!registered_.empty() &&
        ::io_uring_register_buffers(&ring_, registered_.data(),
                                    static_cast<unsigned>(registered_.size())) != 0) {
      registered_.clear();
    }
  }

 private:
  // The registered buffer that holds all of `into`, or -1.
  int RegisteredBuffer(std::span<std::byte> into) const {
    for (std::size_t i = 0; i < registered_.size(); ++i) {
      const auto* const begin = static_cast<const std::byte*>(registered_[i].iov_base);
      if (into.data() >= begin && into.data() + into.size() <= begin + registered_[i].iov_len) {
        return static_cast<int>(i);
      }
    }
    return -1;
  }

  void ArmWake() {
    if (wake_armed_) return;
    io_uring_sqe* const entry = ::io_uring_get_sqe(&ring_);
    if (entry == nullptr) return;  // The next Reap arms it; until then the wait is bounded.
    ::io_uring_prep_poll_add(entry, wake_fd_, POLLIN);
    ::io_uring_sqe_set_data64(entry, kWakeSlot);
    ::io_uring_submit(&ring_);
    wake_armed_ = true;
  }

  void Take(std::span<Completion> out, std::size_t& count, bool& woken) {
    io_uring_cqe* entry = nullptr;
    while (count < out.size() && ::io_uring_peek_cqe(&ring_, &entry) == 0) {
      const std::uint64_t slot = ::io_uring_cqe_get_data64(entry);
      if (slot == kWakeSlot) {
        std::uint64_t events = 0;
        static_cast<void>(!::read(wake_fd_, &events, sizeof(events)));
        wake_armed_ = false;
        woken = true;
      } else {
        out[count++] = {.tag = tags_[slot], .result = entry->res};
        free_.push_back(static_cast<std::uint32_t>(slot));
      }
      ::io_uring_cqe_seen(&ring_, entry);
    }
  }

  const std::size_t queue_depth_;
  const int wake_fd_;
  io_uring ring_{};
  bool open_ = false;
  bool wake_armed_ = false;
  std::vector<std::uint64_t> tags_;  // By slot.
  std::vector<std::uint32_t> free_;  // Slots.
  std::vector<iovec> registered_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<BlockDevice>> OpenIoUringDevice(std::size_t queue_depth) {
  SLUICE_CHECK(queue_depth >= 1);
  const int wake_fd = ::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (wake_fd < 0) {
    return absl::ResourceExhaustedError(
        absl::StrFormat("cannot make an event for io_uring: %s", std::strerror(errno)));
  }
  auto device = std::make_unique<IoUringDevice>(queue_depth, wake_fd);
  const int error = -device->Init();
  if (error == 0) return device;
  const std::string message = absl::StrFormat(
      "the kernel refuses io_uring with %d reads in flight: %s", queue_depth, std::strerror(error));
  if (error == EPERM || error == EACCES) return absl::PermissionDeniedError(message);
  if (error == ENOMEM || error == EMFILE || error == ENFILE) {
    return absl::ResourceExhaustedError(message);
  }
  return absl::UnimplementedError(message);
}

}  // namespace sluice
