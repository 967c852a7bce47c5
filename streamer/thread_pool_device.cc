#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <thread>
#include <vector>

#include "base/check.h"
#include "base/mutex.h"
#include "base/thread_name.h"
#include "streamer/block_device.h"

namespace sluice {
namespace {

// A queue of fixed capacity: no allocation after construction.
template <typename T>
class FixedQueue {
 public:
  explicit FixedQueue(std::size_t capacity) : items_(capacity) {}
  bool empty() const { return size_ == 0; }
  void Push(const T& item) {
    SLUICE_CHECK(size_ < items_.size());
    items_[(first_ + size_++) % items_.size()] = item;
  }
  T Pop() {
    const T item = items_[first_];
    first_ = (first_ + 1) % items_.size();
    --size_;
    return item;
  }

 private:
  std::vector<T> items_;
  std::size_t first_ = 0, size_ = 0;
};

class ThreadPoolDevice final : public BlockDevice {
 public:
  explicit ThreadPoolDevice(std::size_t threads)
      : queue_depth_(2 * threads), wanted_(queue_depth_), done_(queue_depth_) {
    for (std::size_t i = 0; i < threads; ++i) threads_.emplace_back([this] { Serve(); });
  }

  ~ThreadPoolDevice() override {
    {
      MutexLock lock(mutex_);
      stopping_ = true;
    }
    work_.NotifyAll();
    for (std::thread& thread : threads_) thread.join();
  }

  std::string_view name() const override { return "thread pool"; }
  std::size_t queue_depth() const override { return queue_depth_; }

  bool TrySubmit(const Read& read) override {
    {
      MutexLock lock(mutex_);
      if (in_flight_ == queue_depth_) return false;
      ++in_flight_;
      wanted_.Push(read);
    }
    work_.NotifyOne();
    return true;
  }

  std::size_t Reap(std::span<Completion> out, Duration wait) override {
    MutexLock lock(mutex_);
    const Instant until = SteadyClock().Now() + std::min(wait, kLongestWait);
    while (done_.empty() && !woken_ && wait > Duration::zero()) {
      if (!reaped_.WaitUntil(mutex_, until)) break;
    }
    woken_ = false;
    std::size_t count = 0;
    for (; count < out.size() && !done_.empty(); ++count) out[count] = done_.Pop();
    in_flight_ -= count;
    return count;
  }

  void Wake() override {
    {
      MutexLock lock(mutex_);
      woken_ = true;
    }
    reaped_.NotifyAll();
  }

  void RegisterMemory(std::span<std::byte>) override {}

 private:
  static constexpr Duration kLongestWait = std::chrono::hours(1);

  static int ReadOnce(const Read& read) {
    for (;;) {
      const ssize_t result = ::pread(read.fd, read.into.data(), read.into.size(),
                                     static_cast<off_t>(read.offset.count()));
      if (result >= 0) return static_cast<int>(result);
      if (errno != EINTR) return -errno;
    }
  }

  void Serve() {
    NameThread("disk");
    for (;;) {
      Read read;
      {
        MutexLock lock(mutex_);
        while (wanted_.empty() && !stopping_) work_.Wait(mutex_);
        if (wanted_.empty()) return;
        read = wanted_.Pop();
      }
      const int result = ReadOnce(read);
      {
        MutexLock lock(mutex_);
        done_.Push({.tag = read.tag, .result = result});
      }
      reaped_.NotifyOne();
    }
  }

  const std::size_t queue_depth_;
  Mutex mutex_;
  CondVar work_, reaped_;
  FixedQueue<Read> wanted_ ABSL_GUARDED_BY(mutex_);
  FixedQueue<Completion> done_ ABSL_GUARDED_BY(mutex_);
  std::size_t in_flight_ ABSL_GUARDED_BY(mutex_) = 0;  // Submitted and not yet reaped.
  bool woken_ ABSL_GUARDED_BY(mutex_) = false;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::vector<std::thread> threads_;
};

}  // namespace

std::unique_ptr<BlockDevice> OpenThreadPoolDevice(std::size_t threads) {
  SLUICE_CHECK(threads >= 1);
  return std::make_unique<ThreadPoolDevice>(threads);
}

}  // namespace sluice
