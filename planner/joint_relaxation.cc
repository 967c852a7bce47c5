#include "planner/joint_relaxation.h"

#include <algorithm>

#include "base/check.h"

namespace sluice {

JointRelaxation::JointRelaxation(const JointProblem& problem, const JointTimeline& timeline)
    : problem_(problem),
      timeline_(timeline),
      breadth_(problem.steps.size() + 1),
      ends_(problem.steps.size()) {
  // Every place starts at a multiple of the least alignment, so each size counts as one too.
  Bytes alignment = kPageSize;
  for (const UsageRecord& buffer : problem.buffers) {
    alignment = std::min(alignment, buffer.alignment);
  }
  for (const UsageRecord& buffer : problem.buffers) {
    SLUICE_CHECK(Index(buffer.live.end) <= problem.steps.size());
    const std::uint64_t size = AlignUp(buffer.size, alignment).count();
    breadth_[Index(buffer.live.begin)] += size;
    breadth_[Index(buffer.live.end)] -= size;
  }
  for (std::size_t t = 1; t < breadth_.size(); ++t) breadth_[t] += breadth_[t - 1];
  largest_breadth_ = *std::ranges::max_element(breadth_);
}

Bytes JointRelaxation::LeastArena() const {
  std::uint64_t least = largest_breadth_;
  for (std::size_t k = 0; k < timeline_.used.size(); ++k) {
    for (std::size_t t = Index(timeline_.used[k].begin); t < Index(timeline_.used[k].end); ++t) {
      least = std::max(least, breadth_[t] + problem_.extents[k].count());
    }
  }
  return Bytes::Of(least);
}

void JointRelaxation::Take(std::size_t step, std::uint64_t room) {
  while (steps_.size() > front_ && steps_.back().room >= room) steps_.pop_back();
  steps_.push_back({.step = step, .room = room});
}

std::optional<JointRelaxation::Outcome> JointRelaxation::Run(const std::vector<bool>& resident,
                                                             Bytes arena) {
  if (largest_breadth_ > arena.count()) return std::nullopt;
  steps_.clear();
  front_ = 0;
  std::uint64_t streamed = 0;  // Bytes of the streamed extents so far, all dead but the last.
  Duration now{}, reader{}, issued{};
  Outcome outcome;
  std::size_t t = 0;
  const auto run_until = [&](std::size_t end) {
    for (; t < end; ++t) {
      Take(t, arena.count() - breadth_[t] + streamed);
      now += problem_.steps[t].compute;
      ends_[t] = now;
    }
  };
  for (std::size_t k = 0; k < timeline_.used.size(); ++k) {
    if (resident[k]) continue;
    const std::uint64_t size = problem_.extents[k].count();
    run_until(Index(timeline_.used[k].begin));
    // Steps that this extent does not fit beside those read before it and not yet dead.
    for (; front_ < steps_.size() && steps_[front_].room < streamed + size; ++front_) {
      issued = ends_[steps_[front_].step];
    }
    reader = std::max(reader, issued + timeline_.latency) + timeline_.transfer[k];
    if (reader > now) {
      outcome.stall += reader - now;
      now = reader;
    }
    for (std::size_t u = t; u < Index(timeline_.used[k].end); ++u) {
      if (breadth_[u] + size > arena.count()) return std::nullopt;
    }
    run_until(Index(timeline_.used[k].end));
    streamed += size;
  }
  run_until(problem_.steps.size());
  outcome.predicted = now;
  return outcome;
}

std::vector<StepIndex> JointRelaxation::LatestBegins(const std::vector<bool>& resident) const {
  std::vector<StepIndex> begins(problem_.extents.size());
  Duration end = Duration::max();  // By when the read must end.
  std::size_t begin = problem_.steps.size();
  for (std::size_t k = begins.size(); k-- > 0;) {
    if (resident[k]) continue;
    const std::size_t first = Index(timeline_.used[k].begin);
    begin = std::min(begin, first);
    end = std::min(end, ends_[first] - problem_.steps[first].compute);
    end -= timeline_.transfer[k];
    while (begin > 0 && ends_[begin - 1] > end - timeline_.latency) --begin;
    begins[k] = At<StepIndex>(begin);
  }
  return begins;
}

}  // namespace sluice
