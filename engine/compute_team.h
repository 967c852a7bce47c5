// engine/compute_team.h
//
// The one team of threads that computes. Its leader is the only thread that calls oneDNN: libgomp
// makes a team of its own for every thread that enters a parallel region, so inference, packing
// and profiling all go through here.

#ifndef SLUICE_ENGINE_COMPUTE_TEAM_H_
#define SLUICE_ENGINE_COMPUTE_TEAM_H_

#include <deque>
#include <functional>
#include <thread>

#include "base/mutex.h"

namespace sluice {

// Threads: Post and Run from any thread but the leader's own.
class ComputeTeam {
 public:
  // Starts the leader; its parallel regions use `threads` threads, the leader among them.
  // Requires: threads >= 1.
  explicit ComputeTeam(int threads);
  ~ComputeTeam();  // Runs what was posted, then joins.
  ComputeTeam(const ComputeTeam&) = delete;
  ComputeTeam& operator=(const ComputeTeam&) = delete;

  int threads() const { return threads_; }

  // Runs `work` on the leader after everything posted before.
  void Post(std::function<void()> work);
  // The same, and waits until it has run.
  void Run(const std::function<void()>& work);

 private:
  void Lead();

  const int threads_;
  Mutex mutex_;
  CondVar wake_;
  std::deque<std::function<void()>> queue_ ABSL_GUARDED_BY(mutex_);
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread leader_;
};

}  // namespace sluice

#endif  // SLUICE_ENGINE_COMPUTE_TEAM_H_
