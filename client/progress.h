// client/progress.h
//
// A line on stderr for work that takes longer than a second, rewritten twice a second. Nothing is
// written when stderr is no terminal.

#ifndef SLUICE_CLIENT_PROGRESS_H_
#define SLUICE_CLIENT_PROGRESS_H_

#include <atomic>
#include <cstdint>
#include <string>
#include <thread>

#include "base/clock.h"
#include "base/mutex.h"

namespace sluice {

// Threads: Advance from anywhere; the line is written by a thread of its own.
class Progress {
 public:
  // "WHAT: 3 s", or "WHAT: 12 of 50, 3 s" where there is a total.
  explicit Progress(std::string what, std::uint64_t total = 0);
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  void Advance() { ++done_; }
  // Takes the line away for good, so that other text can follow.
  void Clear();

 private:
  void Run();

  const std::string what_;
  const std::uint64_t total_;
  const Instant begin_;
  std::atomic<std::uint64_t> done_ = 0;
  Mutex mutex_;
  CondVar changed_;
  bool stop_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread writer_;
};

}  // namespace sluice

#endif  // SLUICE_CLIENT_PROGRESS_H_
