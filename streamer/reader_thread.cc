#include "streamer/reader_thread.h"

#include <chrono>
#include <utility>

#include "base/check.h"
#include "base/thread_name.h"

namespace sluice {
namespace {

// Nothing depends on it: whoever has news wakes the device.
constexpr Duration kReapWait = std::chrono::seconds(1);

}  // namespace

ReaderThread::ReaderThread(std::unique_ptr<BlockDevice> device, Bytes read_size)
    : device_(std::move(device)), stream_(*device_, read_size, &statistics_) {
  thread_ = std::thread([this] { Serve(); });
}

ReaderThread::~ReaderThread() {
  Finish();
  {
    MutexLock lock(mutex_);
    stopping_ = true;
  }
  reader_wake_.NotifyOne();
  thread_.join();
}

void ReaderThread::Reserve(std::size_t targets, Bytes bytes) {
  MutexLock lock(mutex_);
  SLUICE_CHECK(!has_job_);
  stream_.Reserve(targets, bytes);
}

void ReaderThread::Start(const StreamJob& job) {
  {
    MutexLock lock(mutex_);
    SLUICE_CHECK(!has_job_);
    job_ = job;
    has_job_ = true;
    cancelled_ = false;
    ready_ = released_ = awaited_ = 0;
    status_ = absl::OkStatus();
  }
  reader_wake_.NotifyOne();
}

absl::StatusOr<const std::byte*> ReaderThread::Await(std::size_t target) {
  MutexLock lock(mutex_);
  awaited_ = target;
  while (ready_ <= target && status_.ok() && has_job_) compute_wake_.Wait(mutex_);
  if (ready_ > target) return stream_.address(target);
  SLUICE_CHECK(!status_.ok());
  return status_;
}

void ReaderThread::Release(std::size_t count) {
  Waiting waiting;
  {
    MutexLock lock(mutex_);
    SLUICE_CHECK(count >= released_ && count <= ready_);
    released_ = count;
    waiting = waiting_;
  }
  if (waiting == Waiting::kForRoom) reader_wake_.NotifyOne();
  if (waiting == Waiting::kInReapForRoom) device_->Wake();
}

StreamCounters ReaderThread::Finish() {
  MutexLock lock(mutex_);
  if (has_job_) {
    cancelled_ = true;
    reader_wake_.NotifyOne();
    if (waiting_ != Waiting::kNowhere) device_->Wake();
    while (has_job_) compute_wake_.Wait(mutex_);
  }
  return stream_.counters();
}

std::size_t ReaderThread::ready() const {
  MutexLock lock(mutex_);
  return ready_;
}

void ReaderThread::Serve() {
  NameThread("reader");
  for (;;) {
    StreamJob job;
    {
      MutexLock lock(mutex_);
      while (!has_job_ && !stopping_) reader_wake_.Wait(mutex_);
      if (!has_job_) return;
      job = job_;
    }
    RunJob(job);
    {
      MutexLock lock(mutex_);
      has_job_ = false;
    }
    compute_wake_.NotifyOne();
  }
}

void ReaderThread::RunJob(const StreamJob& job) {
  stream_.Begin(job);
  absl::Status status;
  while (status.ok() && !stream_.done() && NextTurn()) {
    status = stream_.Turn(kReapWait);
    Publish(status);
  }
  stream_.Drain();
}

// Takes in what was released; waits while only that can help. False when the job was cancelled.
bool ReaderThread::NextTurn() {
  MutexLock lock(mutex_);
  for (;;) {
    if (cancelled_) return false;
    const bool room = stream_.Release(released_);
    if (room || !stream_.blocked()) break;
    waiting_ = Waiting::kForRoom;
    reader_wake_.Wait(mutex_);
  }
  waiting_ = stream_.waits_for_room() ? Waiting::kInReapForRoom : Waiting::kInReap;
  return true;
}

void ReaderThread::Publish(const absl::Status& status) {
  bool wake = false;
  {
    MutexLock lock(mutex_);
    waiting_ = Waiting::kNowhere;
    ready_ = stream_.ready();
    status_ = status;
    wake = ready_ > awaited_ || !status.ok();
  }
  if (wake) compute_wake_.NotifyOne();
}

}  // namespace sluice
