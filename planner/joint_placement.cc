#include "planner/joint_placement.h"

#include <algorithm>
#include <cstddef>
#include <numeric>

#include "base/check.h"
#include "planner/free_since.h"

namespace sluice {
namespace {

// Goes through the steps once: what is held at which address, and when steps and reads end.
class Sweep {
 public:
  Sweep(const JointProblem& problem, const JointTimeline& timeline,
        const std::vector<bool>& resident, std::span<const Bytes> buffer_offsets, Bytes arena)
      : problem_(problem),
        timeline_(timeline),
        resident_(resident),
        buffer_offsets_(buffer_offsets),
        free_(arena),
        order_(problem.buffers.size()) {
    std::iota(order_.begin(), order_.end(), std::size_t{0});
    std::ranges::stable_sort(
        order_, {}, [&problem](std::size_t i) { return Index(problem.buffers[i].live.begin); });
    ends_.reserve(problem.steps.size());
  }

  // Calls `place(k)` for each streamed extent, which returns its offset; false when it has none.
  template <typename Place>
  bool Run(Place place, std::vector<PlannedExtent>& extents) {
    extents.resize(problem_.extents.size());
    for (std::size_t k = 0; k < extents.size(); ++k) {
      extents[k].resident = resident_[k];
      if (resident_[k]) continue;
      HoldBuffersUntil(timeline_.used[k].end);
      RunUntil(Index(timeline_.used[k].begin));
      const std::optional<Bytes> offset = place(k);
      if (!offset) return false;
      const std::size_t since = free_.Since(*offset, problem_.extents[k]);
      SLUICE_CHECK(since <= Index(timeline_.used[k].begin));
      extents[k].offset = *offset;
      extents[k].gate.reset();
      if (since > 0) extents[k].gate = At<StepIndex>(since - 1);
      free_.Hold(*offset, problem_.extents[k], Index(timeline_.used[k].end));
      issued_ = std::max(issued_, EndBefore(since));
      reader_ = std::max(reader_, issued_ + timeline_.latency) + timeline_.transfer[k];
      now_ = std::max(now_, reader_);
    }
    return true;
  }

  const FreeSince& free() const { return free_; }

  // The latest step such that a read into bytes that are free since then begins no later than one
  // into bytes that are free since `step`. At most `latest`.
  std::size_t EquallySoon(std::size_t step, std::size_t latest) const {
    const Duration begin =
        std::max(reader_, std::max(issued_, EndBefore(step)) + timeline_.latency);
    while (step < latest && EndBefore(step + 1) + timeline_.latency <= begin) ++step;
    return step;
  }

 private:
  // When everything before `step` has finished.
  Duration EndBefore(std::size_t step) const { return step == 0 ? Duration() : ends_[step - 1]; }

  void HoldBuffersUntil(StepIndex end) {
    for (; next_ < order_.size(); ++next_) {
      const UsageRecord& buffer = problem_.buffers[order_[next_]];
      if (buffer.live.begin >= end) return;
      free_.Hold(buffer_offsets_[order_[next_]], buffer.size, Index(buffer.live.end));
    }
  }

  void RunUntil(std::size_t step) {
    while (ends_.size() < step) {
      now_ += problem_.steps[ends_.size()].compute;
      ends_.push_back(now_);
    }
  }

  const JointProblem& problem_;
  const JointTimeline& timeline_;
  const std::vector<bool>& resident_;
  std::span<const Bytes> buffer_offsets_;
  FreeSince free_;
  std::vector<std::size_t> order_;  // Of the buffers, as they come alive.
  std::size_t next_ = 0;
  std::vector<Duration> ends_;  // By step.
  Duration now_{}, reader_{}, issued_{};
};

// The place that the rule takes among the runs free since `step`; `last` is the end of the extent
// placed before.
std::optional<Bytes> Choose(const FreeSince& free, std::uint64_t size, std::size_t step,
                            PlaceRule rule, std::uint64_t last) {
  std::optional<FreeSince::Run> chosen;
  std::uint64_t offset = 0;
  free.VisitRuns(step, [&](const FreeSince::Run& run) {
    if (run.high - run.low < size) return;
    switch (rule) {
      case PlaceRule::kLowest:
        if (chosen) return;
        offset = run.low;
        break;
      case PlaceRule::kHighest:
        offset = run.high - size;
        break;
      case PlaceRule::kTightest:
        if (chosen && chosen->high - chosen->low <= run.high - run.low) return;
        offset = run.low;
        break;
      case PlaceRule::kNext: {
        // The first place at or above `last`; the lowest of all when there is none.
        if (chosen && offset >= last) return;
        const std::uint64_t from = std::max(run.low, last);
        if (chosen && (from > run.high || run.high - from < size)) return;
        offset = from <= run.high && run.high - from >= size ? from : run.low;
        break;
      }
    }
    chosen = run;
  });
  if (!chosen) return std::nullopt;
  return Bytes::Of(offset);
}

}  // namespace

std::optional<std::vector<PlannedExtent>> PlaceExtents(const JointProblem& problem,
                                                       const JointTimeline& timeline,
                                                       const std::vector<bool>& resident,
                                                       std::span<const Bytes> buffer_offsets,
                                                       Bytes arena, PlaceRule rule) {
  Sweep sweep(problem, timeline, resident, buffer_offsets, arena);
  std::uint64_t last = 0;
  const auto place = [&](std::size_t k) -> std::optional<Bytes> {
    const Bytes size = problem.extents[k];
    if (size == Bytes()) return Bytes();
    const std::size_t needed = Index(timeline.used[k].begin);
    const std::size_t earliest = sweep.free().Earliest(size, needed);
    if (earliest > needed) return std::nullopt;
    const std::optional<Bytes> offset =
        Choose(sweep.free(), size.count(), sweep.EquallySoon(earliest, needed), rule, last);
    last = offset->count() + size.count();
    return offset;
  };
  std::vector<PlannedExtent> extents;
  if (!sweep.Run(place, extents)) return std::nullopt;
  return extents;
}

void OpenGates(const JointProblem& problem, const JointTimeline& timeline, JointPlan& plan) {
  std::vector<bool> resident;
  std::vector<Bytes> offsets;
  for (const PlannedExtent& extent : plan.extents) {
    resident.push_back(extent.resident);
    offsets.push_back(extent.offset);
  }
  Sweep sweep(problem, timeline, resident, plan.buffer_offsets, plan.arena);
  sweep.Run([&](std::size_t k) -> std::optional<Bytes> { return offsets[k]; }, plan.extents);
}

}  // namespace sluice
