#include "planner/search_team.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <thread>
#include <utility>

namespace sluice {

using Outcome = OffsetSearch::Outcome;

SearchTeam::SearchTeam(std::span<const UsageRecord> records, const SectionMap& map,
                       std::size_t threads)
    : failures_(map.sections, 1) {
  for (std::size_t i = 0; i < std::min(threads, kGroup); ++i) {
    searches_.push_back(std::make_unique<OffsetSearch>(records, map));
  }
}

Outcome SearchTeam::Run(Bytes capacity, std::span<const SearchRules> rules,
                        const OffsetSearch::Limits& limits) {
  runs_ = 0;
  while (!rules.empty()) {
    if (work_ >= limits.work || (limits.stop && limits.stop())) break;
    std::array<Ran, kGroup> group;
    const std::size_t runs = std::min(kGroup, rules.size());
    OffsetSearch::Limits share = limits;
    share.work = (limits.work - work_) / runs;
    RunGroup(capacity, rules.first(runs), share, std::span(group).first(runs));
    std::vector<double> learnt = failures_;
    for (Ran& ran : std::span(group).first(runs)) {
      ++runs_;
      work_ += ran.work;
      for (std::size_t s = 0; s < learnt.size(); ++s) learnt[s] += ran.failures[s] - failures_[s];
      if (ran.outcome == Outcome::kGaveUp) continue;
      failures_ = std::move(learnt);
      offsets_ = std::move(ran.offsets);
      return ran.outcome;
    }
    failures_ = std::move(learnt);
    rules = rules.subspan(runs);
  }
  return Outcome::kGaveUp;
}

void SearchTeam::RunGroup(Bytes capacity, std::span<const SearchRules> rules,
                          const OffsetSearch::Limits& limits, std::span<Ran> group) {
  std::atomic<std::size_t> next = 0, decided = rules.size();  // The first run with an answer.
  const auto take_runs = [&](OffsetSearch& search) {
    for (std::size_t i = next++; i < rules.size() && i < decided; i = next++) {
      OffsetSearch::Limits own = limits;
      if (searches_.size() > 1) {
        own.stop = [&limits, &decided, i] { return decided < i || (limits.stop && limits.stop()); };
      }
      group[i].failures = failures_;
      RunOne(search, capacity, rules[i], own, group[i]);
      if (group[i].outcome == Outcome::kGaveUp) continue;
      for (std::size_t first = decided; i < first && !decided.compare_exchange_weak(first, i);) {
      }
    }
  };
  std::vector<std::jthread> others;
  for (std::size_t t = 1; t < std::min(searches_.size(), rules.size()); ++t) {
    others.emplace_back([&, t] { take_runs(*searches_[t]); });
  }
  take_runs(*searches_[0]);
}

void SearchTeam::RunOne(OffsetSearch& search, Bytes capacity, const SearchRules& rules,
                        const OffsetSearch::Limits& limits, Ran& ran) {
  search.set_failures(std::move(ran.failures));
  const std::uint64_t before = search.work();
  OffsetSearch::Limits own = limits;
  own.work = limits.work > ~before ? ~std::uint64_t{0} : before + limits.work;
  ran.outcome = search.Run(capacity, rules, own);
  ran.work = search.work() - before;
  ran.failures = search.failures();
  if (ran.outcome == Outcome::kFound) ran.offsets = search.offsets();
}

}  // namespace sluice
