#include "planner/step_order.h"

#include <algorithm>
#include <cstddef>
#include <functional>
#include <queue>
#include <tuple>
#include <unordered_set>
#include <utility>

#include "base/check.h"
#include "planner/draw.h"

namespace sluice {
namespace {

using Step = std::uint32_t;
using Bits = std::vector<std::uint64_t>;  // A set of steps.
constexpr std::size_t kWord = 64;
constexpr std::size_t kMostBeam = 64;

bool Has(std::span<const std::uint64_t> bits, Step step) {
  return ((bits[step / kWord] >> (step % kWord)) & 1) != 0;
}

// A run of the steps up to some point: what is alive, and what could run next.
class Walk {
 public:
  explicit Walk(const OrderProblem& problem)
      : problem_(problem), users_(problem.buffers.size()), next_(problem.steps.size()) {
    for (Step s = 0; s < problem.steps.size(); ++s) {
      for (const BufferIndex buffer : problem.steps[s].buffers) ++users_[Index(buffer)];
      for (const StepIndex before : problem.steps[s].after) {
        SLUICE_CHECK(Index(before) < s);
        next_[Index(before)].push_back(s);
      }
      effort_ += 2 + problem.steps[s].buffers.size() + problem.steps[s].after.size();
    }
    Start();
  }

  struct Cost {
    std::uint64_t during, after;  // Bytes alive.
  };

  void Start() {
    left_ = users_;
    alive_.assign(left_.size(), false);
    waits_.resize(problem_.steps.size());
    ready_.clear();
    live_ = peak_ = 0;
    for (std::size_t b = 0; b < left_.size(); ++b) {
      if (!problem_.buffers[b].from_start) continue;
      alive_[b] = true;
      live_ += Size(b);
    }
    for (Step s = 0; s < waits_.size(); ++s) {
      waits_[s] = static_cast<std::uint32_t>(problem_.steps[s].after.size());
      if (waits_[s] == 0) ready_.push_back(s);
    }
  }

  // To where exactly these steps have run. The peak is not known then.
  void GoTo(std::span<const std::uint64_t> done) {
    Start();
    ready_.clear();
    for (Step s = 0; s < waits_.size(); ++s) {
      if (Has(done, s)) Finish(s);
    }
    for (Step s = 0; s < waits_.size(); ++s) {
      if (waits_[s] == 0 && !Has(done, s)) ready_.push_back(s);
    }
  }

  Cost CostOf(Step step) const {
    const OrderStep& taken = problem_.steps[step];
    std::uint64_t begun = 0, freed = 0;
    for (const BufferIndex buffer : taken.buffers) {
      const std::size_t b = Index(buffer);
      if (!alive_[b]) begun += Size(b);
      if (Ends(b)) freed += Size(b);
    }
    std::uint64_t reused = 0;
    if (taken.overwrites && Ends(Index(*taken.overwrites))) {
      reused = std::min(Size(Index(*taken.overwrites)), begun);
    }
    return {live_ + begun + taken.scratch.count() - reused, live_ + begun - freed};
  }

  // Requires: ready.
  void Take(Step step) {
    peak_ = std::max(peak_, CostOf(step).during);
    std::erase(ready_, step);
    Finish(step);
    for (const Step next : next_[step]) {
      if (waits_[next] == 0) ready_.push_back(next);
    }
    std::ranges::sort(ready_);
  }

  // A ready step after which no other gets dearer, when no step below `peak` matters.
  std::optional<Step> Free(std::uint64_t peak) const {
    for (const Step step : ready_) {
      const Cost cost = CostOf(step);
      if (cost.during <= peak && cost.after <= live_) return step;
    }
    return std::nullopt;
  }

  const std::vector<Step>& ready() const { return ready_; }
  std::uint64_t live() const { return live_; }
  std::uint64_t peak() const { return peak_; }
  // Of going somewhere, in steps and buffers looked at.
  std::uint64_t effort() const { return effort_; }

  // No order has a lower peak: what each step needs for itself.
  std::uint64_t Floor() const {
    std::uint64_t floor = 0;
    for (const OrderStep& step : problem_.steps) {
      std::uint64_t all = step.scratch.count(), overwritten = 0;
      for (const BufferIndex buffer : step.buffers) all += Size(Index(buffer));
      if (step.overwrites) overwritten = Size(Index(*step.overwrites));
      floor = std::max(floor, all - std::min(overwritten, (all - overwritten)));
    }
    return floor;
  }

 private:
  std::uint64_t Size(std::size_t buffer) const { return problem_.buffers[buffer].size.count(); }
  bool Ends(std::size_t buffer) const {
    return left_[buffer] == 1 && !problem_.buffers[buffer].to_end;
  }

  void Finish(Step step) {
    for (const BufferIndex buffer : problem_.steps[step].buffers) {
      const std::size_t b = Index(buffer);
      if (!alive_[b]) live_ += Size(b);
      alive_[b] = true;
      if (Ends(b)) live_ -= Size(b);
      --left_[b];
    }
    for (const Step next : next_[step]) --waits_[next];
  }

  const OrderProblem& problem_;
  std::vector<std::uint32_t> users_;     // Of each buffer.
  std::vector<std::vector<Step>> next_;  // Of each step: those that wait for it.
  std::uint64_t effort_ = 0;
  std::vector<std::uint32_t> left_;   // Users still to run.
  std::vector<bool> alive_;           // Has begun.
  std::vector<std::uint32_t> waits_;  // Of each step: for so many others.
  std::vector<Step> ready_;           // In order of the problem.
  std::uint64_t live_ = 0, peak_ = 0;
};

// The sets of steps that were reached, and how.
class Reached {
 public:
  using Id = std::uint32_t;

  explicit Reached(std::size_t steps) : words_((steps + kWord - 1) / kWord) {
    bits_.resize(words_);
    how_.push_back({});
  }

  Id start() const { return 0; }
  std::span<const std::uint64_t> bits(Id id) const { return {bits_.data() + id * words_, words_}; }

  Id Add(Id from, std::span<const Step> steps) {
    const auto id = static_cast<Id>(how_.size());
    bits_.resize(bits_.size() + words_);
    std::copy_n(bits_.data() + from * words_, words_, bits_.data() + id * words_);
    for (const Step step : steps) {
      bits_[id * words_ + step / kWord] |= std::uint64_t{1} << (step % kWord);
    }
    how_.push_back({from, moves_.size(), steps.size()});
    moves_.insert(moves_.end(), steps.begin(), steps.end());
    return id;
  }
  void RemoveLast() {
    moves_.resize(how_.back().first);
    how_.pop_back();
    bits_.resize(bits_.size() - words_);
  }

  std::vector<StepIndex> PathTo(Id id) const {
    std::vector<StepIndex> path;
    for (; id != start(); id = how_[id].from) {
      for (std::size_t m = how_[id].count; m-- > 0;) {
        path.push_back(At<StepIndex>(moves_[how_[id].first + m]));
      }
    }
    std::ranges::reverse(path);
    return path;
  }

 private:
  struct How {
    Id from = 0;
    std::size_t first = 0, count = 0;  // In moves_.
  };
  const std::size_t words_;
  std::vector<std::uint64_t> bits_;
  std::vector<How> how_;
  std::vector<Step> moves_;
};

// Takes what can be taken at once.
std::vector<Step> TakeFree(Walk& walk, std::uint64_t peak) {
  std::vector<Step> taken;
  while (const std::optional<Step> step = walk.Free(peak)) {
    walk.Take(*step);
    taken.push_back(*step);
  }
  return taken;
}

class Search {
 public:
  Search(const OrderProblem& problem, std::uint64_t work)
      : problem_(problem), walk_(problem), work_(work), floor_(walk_.Floor()) {
    best_.order.resize(problem.steps.size());
    for (std::size_t s = 0; s < best_.order.size(); ++s) best_.order[s] = At<StepIndex>(s);
    best_.peak = PeakOfOrder(problem, best_.order);
  }

  StepOrder Run() {
    best_.proven = best_.peak.count() <= floor_ || Complete(work_ / 2);
    if (!best_.proven) Beam();
    best_.proven = best_.proven || best_.peak.count() <= floor_;
    return std::move(best_);
  }

 private:
  using Id = Reached::Id;

  void Offer(const Reached& reached, Id id, std::uint64_t peak) {
    if (peak >= best_.peak.count()) return;
    best_.order = reached.PathTo(id);
    best_.peak = Bytes::Of(peak);
  }

  // False: the work was not enough.
  bool Complete(std::uint64_t work) {
    Reached reached(problem_.steps.size());
    const auto hash = [&](Id id) {
      std::uint64_t mixed = 0;
      for (const std::uint64_t word : reached.bits(id)) {
        mixed = (mixed ^ word) * 0x9e3779b97f4a7c15u;
        mixed ^= mixed >> 32;
      }
      return static_cast<std::size_t>(mixed);
    };
    const auto same = [&](Id a, Id b) {
      return std::ranges::equal(reached.bits(a), reached.bits(b));
    };
    // Sets leave the queue in order of their peaks, so the first way into one is the best.
    std::unordered_set<Id, decltype(hash), decltype(same)> seen(16, hash, same);
    struct Open {
      std::uint64_t peak;
      std::size_t left;  // Steps to go: of equal peaks, the set that is farthest comes first.
      Id id;
      bool operator>(const Open& other) const {
        return std::tie(peak, left, id) > std::tie(other.peak, other.left, other.id);
      }
    };
    std::priority_queue<Open, std::vector<Open>, std::greater<>> open;
    open.push({floor_, problem_.steps.size(), reached.start()});
    while (!open.empty()) {
      Open next = open.top();
      open.pop();
      if (!seen.insert(next.id).second) continue;
      walk_.GoTo(reached.bits(next.id));
      const std::vector<Step> taken = TakeFree(walk_, next.peak);
      if (!taken.empty()) {
        next.id = reached.Add(next.id, taken);
        next.left -= taken.size();
        if (!seen.insert(next.id).second) continue;
      }
      if (next.left == 0) {
        Offer(reached, next.id, next.peak);
        return true;
      }
      for (const Step step : walk_.ready()) {
        const std::uint64_t peak = std::max(next.peak, walk_.CostOf(step).during);
        if (peak >= best_.peak.count()) continue;
        const Id id = reached.Add(next.id, std::span(&step, 1));
        if (seen.contains(id)) {
          reached.RemoveLast();
        } else {
          open.push({peak, next.left - 1, id});
        }
      }
      const std::uint64_t effort = walk_.effort() * (1 + taken.size() / 8);
      if (work < effort) return false;
      work -= effort;
      work_ -= effort;
    }
    return true;  // Nothing is lower than what was given.
  }

  struct Candidate {
    Id from;
    Step step;
    std::uint64_t peak, live, set;  // `set`: a fingerprint.
  };

  void Beam() {
    const std::size_t steps = problem_.steps.size();
    const std::uint64_t width = work_ / (walk_.effort() * std::max<std::size_t>(steps, 1));
    const std::size_t most = std::clamp<std::size_t>(static_cast<std::size_t>(width), 1, kMostBeam);
    Draw draw(1);
    std::vector<std::uint64_t> print(steps);
    for (std::uint64_t& each : print) each = draw.Below(~std::uint64_t{0});

    Reached reached(steps);
    struct State {
      Id id;
      std::uint64_t peak, set;
    };
    std::vector<std::vector<State>> by_size(steps + 1);
    std::vector<std::vector<Candidate>> candidates(steps + 1);
    by_size[0].push_back({reached.start(), floor_, 0});
    for (std::size_t size = 0; size < steps; ++size) {
      Choose(candidates[size], most, [&](const Candidate& c) {
        by_size[size].push_back({reached.Add(c.from, std::span(&c.step, 1)), c.peak, c.set});
      });
      for (State state : by_size[size]) {
        walk_.GoTo(reached.bits(state.id));
        const std::vector<Step> taken = TakeFree(walk_, state.peak);
        if (!taken.empty()) {
          state.id = reached.Add(state.id, taken);
          for (const Step step : taken) state.set ^= print[step];
        }
        const std::size_t done = size + taken.size();
        if (done == steps) Offer(reached, state.id, state.peak);
        for (const Step step : walk_.ready()) {
          const Walk::Cost cost = walk_.CostOf(step);
          const std::uint64_t peak = std::max(state.peak, cost.during);
          if (peak >= best_.peak.count()) continue;
          candidates[done + 1].push_back(
              {state.id, step, peak, cost.after, state.set ^ print[step]});
        }
      }
      by_size[size] = {};
    }
    Choose(candidates[steps], 1, [&](const Candidate& c) {
      Offer(reached, reached.Add(c.from, std::span(&c.step, 1)), c.peak);
    });
  }

  // The best `most` different ones.
  template <typename Visit>
  static void Choose(std::vector<Candidate>& candidates, std::size_t most, Visit visit) {
    std::ranges::stable_sort(candidates, {},
                             [](const Candidate& c) { return std::tuple(c.peak, c.live, c.set); });
    std::unordered_set<std::uint64_t> chosen;
    for (const Candidate& candidate : candidates) {
      if (chosen.size() == most) break;
      if (chosen.insert(candidate.set).second) visit(candidate);
    }
    candidates = {};
  }

  const OrderProblem& problem_;
  Walk walk_;
  std::uint64_t work_;
  const std::uint64_t floor_;
  StepOrder best_;
};

}  // namespace

Bytes PeakOfOrder(const OrderProblem& problem, std::span<const StepIndex> order) {
  Walk walk(problem);
  for (const StepIndex step : order) {
    SLUICE_CHECK(std::ranges::binary_search(walk.ready(), static_cast<Step>(Index(step))));
    walk.Take(static_cast<Step>(Index(step)));
  }
  return Bytes::Of(walk.peak());
}

StepOrder OrderSteps(const OrderProblem& problem, std::uint64_t work) {
  return Search(problem, work).Run();
}

}  // namespace sluice
