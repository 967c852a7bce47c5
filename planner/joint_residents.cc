#include "planner/joint_residents.h"

#include <algorithm>
#include <optional>
#include <queue>

#include "base/check.h"

namespace sluice {
namespace {

struct Candidate {
  double gain;
  std::size_t extent;
  std::size_t round;  // In which the gain was measured.
  Duration predicted;
  bool operator<(const Candidate& other) const {
    return gain != other.gain ? gain < other.gain : extent > other.extent;
  }
};

class Greed {
 public:
  Greed(const JointProblem& problem, const JointTimeline& timeline, JointRelaxation& relaxation,
        Bytes memory, Benefit benefit, std::uint64_t work)
      : problem_(problem),
        timeline_(timeline),
        relaxation_(relaxation),
        benefit_(benefit),
        left_(memory),
        tries_(
            std::max<std::uint64_t>(work / (problem.steps.size() + 1), 4 * problem.extents.size())),
        resident_(problem.extents.size()) {}

  ResidentTrail Run() {
    const auto none = relaxation_.Run(resident_, left_);
    SLUICE_CHECK(none.has_value());
    Duration least = none->predicted;
    trail_.predicted.push_back(least);
    trail_.bytes.emplace_back();
    std::priority_queue<Candidate> queue;
    for (std::size_t k = 0; k < resident_.size(); ++k) {
      if (const auto candidate = Measure(k)) queue.push(*candidate);
    }
    while (!queue.empty()) {
      const Candidate top = queue.top();
      queue.pop();
      if (top.round != trail_.order.size()) {
        if (const auto again = Measure(top.extent)) queue.push(*again);
        continue;
      }
      if (top.predicted > least + least / 100) continue;
      resident_[top.extent] = true;
      left_ -= problem_.extents[top.extent];
      trail_.order.push_back(At<ExtentIndex>(top.extent));
      trail_.predicted.push_back(top.predicted);
      trail_.bytes.push_back(trail_.bytes.back() + problem_.extents[top.extent]);
      least = std::min(least, top.predicted);
    }
    return std::move(trail_);
  }

 private:
  // Latency saved, and a little for the reading itself: where no single extent shortens the
  // critical path, the way to shorten it is to read less.
  std::optional<Candidate> Measure(std::size_t k) {
    if (tries_ == 0 || problem_.extents[k] > left_) return std::nullopt;
    --tries_;
    resident_[k] = true;
    const auto after = relaxation_.Run(resident_, left_ - problem_.extents[k]);
    resident_[k] = false;
    if (!after) return std::nullopt;
    const double gain = Seconds(trail_.predicted.back() - after->predicted) +
                        Seconds(timeline_.transfer[k] + timeline_.latency) / 64;
    const auto bytes = static_cast<double>(std::max(problem_.extents[k], kPageSize).count());
    return Candidate{.gain = benefit_ == Benefit::kPerByte ? gain / bytes : gain,
                     .extent = k,
                     .round = trail_.order.size(),
                     .predicted = after->predicted};
  }

  const JointProblem& problem_;
  const JointTimeline& timeline_;
  JointRelaxation& relaxation_;
  const Benefit benefit_;
  Bytes left_;  // The arena.
  std::uint64_t tries_;
  std::vector<bool> resident_;
  ResidentTrail trail_;
};

}  // namespace

std::vector<bool> ResidentTrail::Residents(std::size_t extents, std::size_t count) const {
  std::vector<bool> resident(extents);
  for (std::size_t i = 0; i < count; ++i) resident[Index(order[i])] = true;
  return resident;
}

ResidentTrail ChooseJointResidents(const JointProblem& problem, const JointTimeline& timeline,
                                   JointRelaxation& relaxation, Bytes memory, Benefit benefit,
                                   std::uint64_t work) {
  return Greed(problem, timeline, relaxation, memory, benefit, work).Run();
}

}  // namespace sluice
