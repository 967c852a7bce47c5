// base/clock.h
//
// Time that only moves forward. Code that waits takes a Clock, so that a test can move time by
// hand.

#ifndef SLUICE_BASE_CLOCK_H_
#define SLUICE_BASE_CLOCK_H_

#include <chrono>

namespace sluice {

using Duration = std::chrono::nanoseconds;
using Instant = std::chrono::time_point<std::chrono::steady_clock, Duration>;

// Threads: callable from anywhere.
class Clock {
 public:
  virtual ~Clock() = default;
  virtual Instant Now() const = 0;
};

// The machine's monotonic clock; one object for the process.
const Clock& SteadyClock();

constexpr double Seconds(Duration duration) {
  return std::chrono::duration<double>(duration).count();
}

}  // namespace sluice

#endif  // SLUICE_BASE_CLOCK_H_
