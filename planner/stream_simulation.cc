#include "planner/stream_simulation.h"

#include <algorithm>
#include <cstddef>
#include <optional>

#include "base/check.h"

namespace sluice {
namespace {

constexpr Duration kLongestRead = std::chrono::hours(24);

}  // namespace

Duration TransferTime(Bytes size, const ReadCost& read) {
  const double seconds = static_cast<double>(size.count()) / read.bytes_per_second;
  if (!(seconds < Seconds(kLongestRead))) return kLongestRead;
  return std::chrono::duration_cast<Duration>(std::chrono::duration<double>(seconds));
}

Duration ReadLatency(const ReadCost& read) {
  return std::clamp(read.latency, Duration::zero(), kLongestRead);
}

StreamSimulation::StreamSimulation(std::span<const StepCost> steps, std::span<const Bytes> extents,
                                   const ReadCost& read, std::span<const Bytes> reads)
    : extents_(extents),
      stages_(extents.size()),
      latency_(ReadLatency(read)),
      ring_(Bytes()),
      freed_(extents.size()) {
  SLUICE_CHECK(read.bytes_per_second > 0);
  SLUICE_CHECK(reads.empty() || reads.size() == extents.size());
  for (std::size_t i = 0; i < extents.size(); ++i) {
    stages_[i].transfer = TransferTime(reads.empty() ? extents[i] : reads[i], read);
  }
  std::optional<std::size_t> last;
  for (const StepCost& step : steps) {
    compute_ += step.compute;
    if (!step.extent) {
      (last ? stages_[*last].after : lead_) += step.compute;
      continue;
    }
    const std::size_t extent = Index(*step.extent);
    SLUICE_CHECK(extent < extents.size());
    SLUICE_CHECK(!last || *last <= extent);
    last = extent;
    // A step without weights between two of one extent holds that extent's bytes too.
    stages_[extent].use += stages_[extent].after + step.compute;
    stages_[extent].after = Duration::zero();
  }
}

StreamSimulation::Outcome StreamSimulation::Run(const std::vector<bool>& resident, Bytes ring) {
  ring_.Reset(ring);
  Duration now = lead_;
  Duration reader{};  // When the transfer before has ended.
  Duration issued{};
  Outcome outcome;
  for (std::size_t i = 0; i < stages_.size(); ++i) {
    const Stage& stage = stages_[i];
    if (!resident[i]) {
      const RingPlace place = ring_.Place(At<ExtentIndex>(i), extents_[i]);
      if (place.after) issued = freed_[Index(*place.after)];
      reader = std::max(reader, issued + latency_) + stage.transfer;
      if (reader > now) {
        outcome.stall += reader - now;
        now = reader;
      }
    }
    now += stage.use;
    freed_[i] = now;
    now += stage.after;
  }
  outcome.predicted = now;
  return outcome;
}

}  // namespace sluice
