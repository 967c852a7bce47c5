#include "planner/residency.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <queue>
#include <utility>

#include "base/check.h"
#include "planner/stream_simulation.h"

namespace sluice {
namespace {

Bytes Total(std::span<const Bytes> extents) {
  Bytes total;
  for (const Bytes size : extents) total += size;
  return total;
}

Bytes WholePages(Bytes size) {
  return Bytes::Of(size.count() / kPageSize.count() * kPageSize.count());
}

// Sooner is better; then fewer bytes to read, which other models need; then less memory.
bool Better(const StreamPlan& a, const StreamPlan& b) {
  if (a.predicted != b.predicted) return a.predicted < b.predicted;
  if (a.resident_bytes != b.resident_bytes) return a.resident_bytes > b.resident_bytes;
  return a.ring < b.ring;
}

// Latencies that differ by less are as good as equal: no prediction is as exact. Otherwise a huge
// ring would win over residents for microseconds, and read far more.
constexpr int kTolerancePercent = 1;

bool AsSoonAs(const StreamPlan& plan, Duration best) {
  return plan.predicted <= best + best * kTolerancePercent / 100;
}

class ResidentSearch {
 public:
  ResidentSearch(std::span<const StepCost> steps, std::span<const Bytes> extents,
                 const ReadCost& read, Bytes memory, std::span<const Bytes> reads)
      : extents_(extents),
        simulation_(steps, extents, read, reads),
        read_(read),
        memory_(memory),
        total_(Total(extents)) {}

  // Requires: MinimumStreamMemory(extents) <= memory < sum of the extents.
  StreamPlan Run() {
    const Bytes largest = MinimumStreamMemory(extents_);
    Offer(std::vector<bool>(extents_.size()), largest);
    Offer(std::vector<bool>(extents_.size()), WholePages(std::max(memory_, largest)));
    for (const Bytes ring : Rings()) {
      if (CannotImprove(ring)) continue;
      Fill(ring);
    }
    std::ranges::stable_sort(plans_, Better);
    std::vector<StreamPlan> improved(
        plans_.begin(), plans_.begin() + std::min<std::ptrdiff_t>(std::ssize(plans_), 2));
    std::ranges::stable_sort(plans_, [this](const StreamPlan& a, const StreamPlan& b) {
      return Preferred(a, b, best_->predicted);
    });
    for (std::size_t i = 0; i < 2 && i < plans_.size(); ++i) improved.push_back(plans_[i]);
    for (StreamPlan& plan : improved) Exchange(std::move(plan));
    const Duration best = best_->predicted;
    return *std::ranges::min_element(
        plans_, [best](const StreamPlan& a, const StreamPlan& b) { return Preferred(a, b, best); });
  }

 private:
  // Of plans as soon as the best, fewer bytes to read; otherwise Better.
  static bool Preferred(const StreamPlan& a, const StreamPlan& b, Duration best) {
    const bool a_soon = AsSoonAs(a, best), b_soon = AsSoonAs(b, best);
    if (a_soon != b_soon) return a_soon;
    if (a_soon && a.resident_bytes != b.resident_bytes) return a.resident_bytes > b.resident_bytes;
    return Better(a, b);
  }

  // Sizes of the ring worth trying, rising. Below the largest extent those that do not fit it are
  // resident; a few times the largest, reads run far enough ahead to smooth out what varies.
  std::vector<Bytes> Rings() const {
    std::vector<Bytes> sizes(extents_.begin(), extents_.end());
    std::ranges::sort(sizes, std::ranges::greater());
    std::vector<Bytes> rings;
    Bytes forced;  // Sum of the extents larger than sizes[i].
    Bytes next_mark;
    for (std::size_t i = 0; i < sizes.size(); ++i) {
      const bool first_of_size = i == 0 || sizes[i] != sizes[i - 1];
      if (first_of_size && forced + sizes[i] <= memory_ && forced >= next_mark) {
        for (const std::uint64_t halves : {2u, 3u, 4u, 6u, 8u, 16u}) {
          const Bytes ring = AlignUp(Bytes::Of((sizes[i] * halves).count() / 2), kPageSize);
          if (forced + ring <= memory_) rings.push_back(ring);
        }
        next_mark = forced + Bytes::Of(memory_.count() / 4);
      }
      forced += sizes[i];
    }
    rings.push_back(WholePages(Bytes::Of(memory_.count() / 2)));
    std::ranges::sort(rings);
    rings.erase(std::unique(rings.begin(), rings.end()), rings.end());
    return rings;
  }

  // True when even a stall-free or disk-bound run with this ring is no better than the best plan.
  bool CannotImprove(Bytes ring) const {
    const Bytes streamed = total_ - (memory_ - ring);
    const double seconds = static_cast<double>(streamed.count()) / read_.bytes_per_second;
    if (seconds > Seconds(best_->predicted)) return true;
    return best_->stall == Duration::zero() && streamed >= total_ - best_->resident_bytes;
  }

  struct Candidate {
    double gain_per_byte;
    std::size_t extent;
    std::size_t round;  // In which the gain was measured.
    bool operator<(const Candidate& other) const {
      return gain_per_byte != other.gain_per_byte ? gain_per_byte < other.gain_per_byte
                                                  : extent > other.extent;
    }
  };

  // Latency saved, and a little for the reading itself: where no single extent shortens the
  // critical path, the way to shorten it is to read less.
  Candidate Measure(std::vector<bool>& resident, Bytes ring, Duration before, std::size_t extent,
                    std::size_t round) {
    resident[extent] = true;
    const Duration after = simulation_.Run(resident, ring).predicted;
    resident[extent] = false;
    const double gain = Seconds(before - after) + Seconds(simulation_.transfer(extent)) / 64;
    const auto bytes = static_cast<double>(std::max(extents_[extent], kPageSize).count());
    return {.gain_per_byte = gain / bytes, .extent = extent, .round = round};
  }

  // Adds the extent that gains most for its bytes until memory is spent. Gains change with every
  // extent added; only those that look best are measured again.
  void Fill(Bytes ring) {
    std::vector<bool> resident(extents_.size());
    Bytes left = memory_ - ring;
    for (std::size_t i = 0; i < extents_.size(); ++i) {
      if (extents_[i] <= ring) continue;
      if (extents_[i] > left) return;
      resident[i] = true;
      left -= extents_[i];
    }
    Duration now = simulation_.Run(resident, ring).predicted;
    std::priority_queue<Candidate> queue;
    for (std::size_t i = 0; i < extents_.size(); ++i) {
      if (!resident[i] && extents_[i] <= left) queue.push(Measure(resident, ring, now, i, 0));
    }
    for (std::size_t round = 0; !queue.empty();) {
      const Candidate top = queue.top();
      queue.pop();
      if (extents_[top.extent] > left) continue;
      if (top.round != round) {
        queue.push(Measure(resident, ring, now, top.extent, round));
        continue;
      }
      if (top.gain_per_byte <= 0) continue;
      resident[top.extent] = true;
      left -= extents_[top.extent];
      now = simulation_.Run(resident, ring).predicted;
      ++round;
    }
    Offer(resident, ring);
    if (left >= kPageSize) Offer(resident, ring + WholePages(left));
  }

  // Swaps a resident extent for a streamed one while that helps: what greed cannot undo.
  void Exchange(StreamPlan plan) {
    constexpr std::size_t kVisits = 400'000;  // Of extents, by all simulations together.
    std::size_t tries = kVisits / extents_.size();
    while (TrySwaps(plan, tries)) continue;
    Add(std::move(plan));
  }

  // Takes the first swap that makes `plan` better; false when there is none, or no try is left.
  bool TrySwaps(StreamPlan& plan, std::size_t& tries) {
    std::vector<bool> resident = plan.resident;
    for (std::size_t out = 0; out < extents_.size(); ++out) {
      if (!plan.resident[out] || extents_[out] > plan.ring) continue;
      const Bytes left = memory_ - plan.ring - plan.resident_bytes + extents_[out];
      resident[out] = false;
      for (std::size_t in = 0; in < extents_.size(); ++in) {
        if (plan.resident[in] || extents_[in] > left) continue;
        if (tries == 0) return false;
        --tries;
        resident[in] = true;
        StreamPlan swapped = Simulate(resident, plan.ring);
        if (Better(swapped, plan)) {
          plan = std::move(swapped);
          return true;
        }
        resident[in] = false;
      }
      resident[out] = true;
    }
    return false;
  }

  // Requires: it fits the memory.
  StreamPlan Simulate(const std::vector<bool>& resident, Bytes ring) {
    StreamPlan plan{
        .resident = resident, .resident_bytes = {}, .ring = ring, .predicted = {}, .stall = {}};
    for (std::size_t i = 0; i < extents_.size(); ++i) {
      if (resident[i]) plan.resident_bytes += extents_[i];
    }
    SLUICE_CHECK(plan.resident_bytes + ring <= memory_);
    const StreamSimulation::Outcome outcome = simulation_.Run(resident, ring);
    plan.predicted = outcome.predicted;
    plan.stall = outcome.stall;
    return plan;
  }

  void Add(StreamPlan plan) {
    if (!best_ || Better(plan, *best_)) best_ = plan;
    plans_.push_back(std::move(plan));
  }

  void Offer(const std::vector<bool>& resident, Bytes ring) { Add(Simulate(resident, ring)); }

  std::span<const Bytes> extents_;
  StreamSimulation simulation_;
  ReadCost read_;
  Bytes memory_;
  Bytes total_;
  std::vector<StreamPlan> plans_;  // All that were looked at.
  std::optional<StreamPlan> best_;
};

}  // namespace

StreamPlan SimulateStream(std::span<const StepCost> steps, std::span<const Bytes> extents,
                          const ReadCost& read, std::vector<bool> resident, Bytes ring,
                          std::span<const Bytes> reads) {
  SLUICE_CHECK(resident.size() == extents.size());
  const StreamSimulation::Outcome outcome =
      StreamSimulation(steps, extents, read, reads).Run(resident, ring);
  StreamPlan plan{.resident = std::move(resident),
                  .resident_bytes = {},
                  .ring = ring,
                  .predicted = outcome.predicted,
                  .stall = outcome.stall};
  for (std::size_t i = 0; i < extents.size(); ++i) {
    if (plan.resident[i]) plan.resident_bytes += extents[i];
  }
  return plan;
}

std::optional<StreamPlan> ChooseResidents(std::span<const StepCost> steps,
                                          std::span<const Bytes> extents, const ReadCost& read,
                                          Bytes memory, std::span<const Bytes> reads) {
  if (memory < MinimumStreamMemory(extents)) return std::nullopt;
  if (Total(extents) <= memory) {
    return SimulateStream(steps, extents, read, std::vector<bool>(extents.size(), true), Bytes(),
                          reads);
  }
  return ResidentSearch(steps, extents, read, memory, reads).Run();
}

Bytes MinimumStreamMemory(std::span<const Bytes> extents) {
  return extents.empty() ? Bytes() : *std::ranges::max_element(extents);
}

}  // namespace sluice
