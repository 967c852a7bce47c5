// server/compute_threads.h
//
// How many threads compute.

#ifndef SLUICE_SERVER_COMPUTE_THREADS_H_
#define SLUICE_SERVER_COMPUTE_THREADS_H_

#include <optional>
#include <string>

#include "server/config.h"

namespace sluice {

struct ThreadInputs {
  int configured = 0;             // compute.threads; 0: as many as the process may use.
  int allowed = 1;                // CPUs of its affinity, and so of its cpuset.
  std::optional<double> quota{};  // CPUs of its control groups' quota.
};
struct ThreadChoice {
  int threads = 1;
  std::string source;       // Which won: "configuration", "affinity" or "quota".
  std::string explanation;  // All three with their numbers, for the log.
};

// Whole CPUs of the quota: with more threads the group would be stopped for the rest of each
// period, most often in the middle of an inference.
ThreadChoice ChooseThreads(const ThreadInputs& inputs);

// For this process, as it is now.
ThreadChoice ComputeThreads(const Config& config);

}  // namespace sluice

#endif  // SLUICE_SERVER_COMPUTE_THREADS_H_
