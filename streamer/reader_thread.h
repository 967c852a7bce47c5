// streamer/reader_thread.h
//
// The thread that reads and verifies, beside the one that computes. The two meet at a count of
// extents that are ready and a count of extents that are released; either waits on a condition.
//
// Threads: Start, Await, Release, Finish and the accessors from one thread at a time (the compute
// team's leader).
// Owns:    the device.

#ifndef SLUICE_STREAMER_READER_THREAD_H_
#define SLUICE_STREAMER_READER_THREAD_H_

#include <cstddef>
#include <memory>
#include <thread>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/bytes.h"
#include "base/mutex.h"
#include "streamer/block_device.h"
#include "streamer/extent_stream.h"

namespace sluice {

class ReaderThread {
 public:
  ReaderThread(std::unique_ptr<BlockDevice> device, Bytes read_size);
  ~ReaderThread();  // Cancels what runs.
  ReaderThread(const ReaderThread&) = delete;
  ReaderThread& operator=(const ReaderThread&) = delete;

  // Requires: no job. As ExtentStream::Reserve.
  void Reserve(std::size_t targets, Bytes bytes);

  // Begins to read. Requires: no job. Everything that the job borrows stays until Finish returns.
  void Start(const StreamJob& job);

  // Waits until `target` is verified; its bytes. Allocates nothing.
  // Fails: as ExtentStream::Turn.
  absl::StatusOr<const std::byte*> Await(std::size_t target);

  // Targets [0, count) are no longer needed.
  void Release(std::size_t count);

  // Ends the job: waits until no read is in flight, gives up what was not read yet. What was read.
  StreamCounters Finish();

  // Targets that are verified: of the job that runs, or of the last one.
  std::size_t ready() const;

  // Requires: no job.
  BlockDevice& device() { return *device_; }
  const BlockDevice& device() const { return *device_; }
  const StorageStatistics& statistics() const { return statistics_; }

 private:
  // What the reader waits in, if it does.
  enum class Waiting { kNowhere, kForRoom, kInReapForRoom, kInReap };

  void Serve();
  void RunJob(const StreamJob& job);
  bool NextTurn();
  void Publish(const absl::Status& status);

  const std::unique_ptr<BlockDevice> device_;
  StorageStatistics statistics_;
  ExtentStream stream_;  // The reader's alone while it has a job.

  mutable Mutex mutex_;
  CondVar reader_wake_, compute_wake_;
  StreamJob job_ ABSL_GUARDED_BY(mutex_);
  bool has_job_ ABSL_GUARDED_BY(mutex_) = false;
  bool cancelled_ ABSL_GUARDED_BY(mutex_) = false;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  Waiting waiting_ ABSL_GUARDED_BY(mutex_) = Waiting::kNowhere;
  std::size_t ready_ ABSL_GUARDED_BY(mutex_) = 0;
  std::size_t released_ ABSL_GUARDED_BY(mutex_) = 0;
  std::size_t awaited_ ABSL_GUARDED_BY(mutex_) = 0;  // The target that Await waits for.
  absl::Status status_ ABSL_GUARDED_BY(mutex_);
  std::thread thread_;
};

}  // namespace sluice

#endif  // SLUICE_STREAMER_READER_THREAD_H_
