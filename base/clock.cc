#include "base/clock.h"

namespace sluice {
namespace {

class MachineClock final : public Clock {
 public:
  Instant Now() const override { return std::chrono::steady_clock::now(); }
};

}  // namespace

const Clock& SteadyClock() {
  static const MachineClock clock;
  return clock;
}

}  // namespace sluice
