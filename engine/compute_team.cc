#include "engine/compute_team.h"

#ifdef _OPENMP
#include <omp.h>
#endif

#include <utility>

#include "base/check.h"
#include "base/thread_name.h"

namespace sluice {

ComputeTeam::ComputeTeam(int threads) : threads_(threads), leader_([this] { Lead(); }) {
  SLUICE_CHECK(threads >= 1);
}

ComputeTeam::~ComputeTeam() {
  {
    MutexLock lock(mutex_);
    stopping_ = true;
  }
  wake_.NotifyAll();
  leader_.join();
}

void ComputeTeam::Post(std::function<void()> work) {
  {
    MutexLock lock(mutex_);
    queue_.push_back(std::move(work));
  }
  wake_.NotifyOne();
}

void ComputeTeam::Run(const std::function<void()>& work) {
  SLUICE_CHECK(std::this_thread::get_id() != leader_.get_id());
  Mutex mutex;
  CondVar finished;
  bool done = false;
  Post([&] {
    work();
    MutexLock lock(mutex);
    done = true;
    finished.NotifyOne();
  });
  MutexLock lock(mutex);
  while (!done) finished.Wait(mutex);
}

void ComputeTeam::Lead() {
#ifdef _OPENMP
  // A setting of this thread alone: other threads' regions keep theirs.
  omp_set_num_threads(threads_);
#pragma omp parallel
#endif
  NameThread("compute");
  for (;;) {
    std::function<void()> work;
    {
      MutexLock lock(mutex_);
      while (queue_.empty() && !stopping_) wake_.Wait(mutex_);
      if (queue_.empty()) return;
      work = std::move(queue_.front());
      queue_.pop_front();
    }
    work();
  }
}

}  // namespace sluice
