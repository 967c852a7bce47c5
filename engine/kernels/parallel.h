// engine/kernels/parallel.h
//
// Splits a loop over the team of the calling thread.

#ifndef SLUICE_ENGINE_KERNELS_PARALLEL_H_
#define SLUICE_ENGINE_KERNELS_PARALLEL_H_

#ifdef _OPENMP
#include <omp.h>
#endif

#include <cstddef>

namespace sluice::kernels {

// Work below this many elements is not worth waking the team for.
inline constexpr std::size_t kParallelElements = 16384;

// Threads of the calling thread's team.
inline std::size_t TeamSize() {
#ifdef _OPENMP
  return static_cast<std::size_t>(omp_get_max_threads());
#else
  return 1;
#endif
}

// Calls body(begin, end, worker) on parts that make up [0, count), each worker in [0, team) at most
// once; on the calling thread alone when `elements`, the size of all the work, is small. The whole
// team or nobody: the OpenMP library ends the threads that a smaller region leaves out.
template <typename Body>
void ParallelForWorkers(std::size_t count, [[maybe_unused]] std::size_t elements,
                        [[maybe_unused]] std::size_t team, const Body& body) {
#ifdef _OPENMP
  if (count > 1 && elements >= kParallelElements && team > 1) {
#pragma omp parallel num_threads(static_cast <int>(team))
    {
      const auto worker = static_cast<std::size_t>(omp_get_thread_num());
      const auto workers = static_cast<std::size_t>(omp_get_num_threads());
      const std::size_t begin = count * worker / workers, end = count * (worker + 1) / workers;
      if (begin < end) body(begin, end, worker);
    }
    return;
  }
#endif
  if (count > 0) body(std::size_t{0}, count, std::size_t{0});
}

// The same where the body has no use for the worker: body(begin, end).
template <typename Body>
void ParallelFor(std::size_t count, std::size_t elements, const Body& body) {
  ParallelForWorkers(count, elements, TeamSize(),
                     [&](std::size_t begin, std::size_t end, std::size_t) { body(begin, end); });
}

}  // namespace sluice::kernels

#endif  // SLUICE_ENGINE_KERNELS_PARALLEL_H_
