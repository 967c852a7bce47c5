#include "planner/joint_frontier.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

#include "base/check.h"

namespace sluice {
namespace {

struct Point {
  Bytes asked;  // What the plan was allowed; it may take less.
  JointPlan plan;
};

class Frontier {
 public:
  Frontier(JointPlanner& planner, std::size_t points) : planner_(planner), wanted_(points) {}

  std::vector<JointPlan> Run() {
    points_.push_back(PointWithin(planner_.least_memory(), Duration::max()));
    points_.push_back(PointWithin(planner_.most_memory(), Duration::max()));
    const std::size_t most = wanted_ + wanted_ / 2;
    while (points_.size() < most && Undominated().size() < wanted_ && Refine()) continue;
    return Undominated();
  }

 private:
  Point PointWithin(Bytes memory, Duration at_most) {
    std::optional<JointPlan> plan = planner_.PlanWithin(memory, at_most);
    SLUICE_CHECK(plan.has_value());
    return {.asked = memory, .plan = *std::move(plan)};
  }

  // How far the points before and behind a gap are apart, as they are seen in a picture.
  double Width(const Point& left, const Point& right) const {
    const auto log = [](Bytes memory) {
      return std::log(static_cast<double>(std::max(memory, kPageSize).count()));
    };
    const double memory = log(points_.back().plan.memory()) - log(points_.front().plan.memory());
    const double latency = Seconds(points_.front().plan.predicted - points_.back().plan.predicted);
    const double x = log(right.plan.memory()) - log(left.asked);
    const double y = Seconds(left.plan.predicted - right.plan.predicted);
    return (memory > 0 ? x * x / (memory * memory) : 0) +
           (latency > 0 ? y * y / (latency * latency) : 0);
  }

  // Adds a plan in the widest gap; false when no gap has room for one.
  bool Refine() {
    std::optional<std::size_t> widest;
    for (std::size_t i = 0; i + 1 < points_.size(); ++i) {
      if (points_[i].asked + kPageSize * 2 > points_[i + 1].plan.memory()) continue;
      if (!widest ||
          Width(points_[i], points_[i + 1]) > Width(points_[*widest], points_[*widest + 1])) {
        widest = i;
      }
    }
    if (!widest) return false;
    const Point& left = points_[*widest];
    const double low = static_cast<double>(left.asked.count());
    const double high = static_cast<double>(points_[*widest + 1].plan.memory().count());
    const Bytes middle =
        AlignUp(Bytes::Of(static_cast<std::uint64_t>(std::sqrt(low) * std::sqrt(high))), kPageSize);
    const Bytes memory =
        std::clamp(middle, left.asked + kPageSize, points_[*widest + 1].plan.memory() - kPageSize);
    Point between = PointWithin(memory, left.plan.predicted);
    points_.insert(points_.begin() + static_cast<std::ptrdiff_t>(*widest) + 1, std::move(between));
    // What is within the tolerance of its own best may be later than the best of less memory.
    for (std::size_t i = *widest + 2; i < points_.size(); ++i) {
      const Duration before = points_[i - 1].plan.predicted;
      if (points_[i].plan.predicted <= before) break;
      points_[i] = PointWithin(points_[i].asked, before);
    }
    return true;
  }

  std::vector<JointPlan> Undominated() const {
    std::vector<JointPlan> plans;
    for (const Point& point : points_) plans.push_back(point.plan);
    std::ranges::stable_sort(plans, [](const JointPlan& a, const JointPlan& b) {
      if (a.memory() != b.memory()) return a.memory() < b.memory();
      if (a.predicted != b.predicted) return a.predicted < b.predicted;
      return a.read_bytes < b.read_bytes;
    });
    std::vector<JointPlan> kept;
    for (JointPlan& plan : plans) {
      const bool better =
          kept.empty() || plan.predicted < kept.back().predicted ||
          (plan.predicted == kept.back().predicted && plan.read_bytes < kept.back().read_bytes);
      if (better) kept.push_back(std::move(plan));
    }
    return kept;
  }

  JointPlanner& planner_;
  const std::size_t wanted_;
  std::vector<Point> points_;  // Rising in what was asked.
};

// Halves the gap between memory that is too little and memory that is enough until it is small.
template <typename IsEnough>
void SearchMemory(Bytes low, Bytes high, IsEnough is_enough) {
  if (low >= high || is_enough(low)) return;
  while (low + std::max(kPageSize, Bytes::Of(high.count() / 200)) < high) {
    const Bytes middle = AlignUp(Bytes::Of((low.count() + high.count()) / 2), kPageSize);
    if (middle <= low || middle >= high) return;
    (is_enough(middle) ? high : low) = middle;
  }
}

}  // namespace

std::vector<JointPlan> JointFrontier(JointPlanner& planner, const FrontierOptions& options) {
  SLUICE_CHECK(options.points > 1);
  return Frontier(planner, options.points).Run();
}

JointPlan SmallestWithin(JointPlanner& planner, Duration latency) {
  std::optional<JointPlan> best = planner.PlanWithin(planner.most_memory());
  SearchMemory(planner.least_memory(), planner.most_memory(), [&](Bytes memory) {
    std::optional<JointPlan> plan = planner.PlanWithin(memory, latency);
    if (!plan || plan->predicted > latency) return false;
    if (plan->memory() < best->memory()) best = std::move(plan);
    return true;
  });
  return *std::move(best);
}

std::optional<Bytes> SmallestSplitWithin(const JointProblem& problem, Bytes height,
                                         Duration latency) {
  const Bytes activations = AlignUp(height, kPageSize);
  std::optional<Bytes> best;
  Bytes most;
  for (const Bytes extent : problem.extents) most += extent;
  SearchMemory(MinimumStreamMemory(problem.extents), most, [&](Bytes memory) {
    const auto plan = ChooseResidents(problem.steps, problem.extents, problem.read, memory);
    if (!plan || plan->predicted > latency) return false;
    const Bytes taken = activations + plan->resident_bytes + plan->ring;
    if (!best || taken < *best) best = taken;
    return true;
  });
  return best;
}

}  // namespace sluice
