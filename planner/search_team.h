// planner/search_team.h
//
// Runs of a complete search (planner/offset_search.h) with different rules, side by side on several
// threads. What is found does not depend on how many there are: runs are taken in groups of a fixed
// size, those of a group begin with the same knowledge, and the first of its runs that has an
// answer decides, whichever ended first.
//
// Threads: one thread owns a team, which has threads of its own during Run.

#ifndef SLUICE_PLANNER_SEARCH_TEAM_H_
#define SLUICE_PLANNER_SEARCH_TEAM_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "planner/offset_search.h"
#include "planner/section_map.h"
#include "planner/usage_record.h"

namespace sluice {

class SearchTeam {
 public:
  static constexpr std::size_t kGroup = 4;  // More threads than this have nothing to do.

  // Owns: borrows both records and map; they outlive the team.
  // Requires: as OffsetSearch, and threads > 0. Cost: a search for each thread.
  SearchTeam(std::span<const UsageRecord> records, const SectionMap& map, std::size_t threads);

  // Takes the rules one group after the other until a run has an answer; kGaveUp when none has.
  // `limits.work` is of the team, the steps of each run; `limits.stop` is asked from all threads.
  OffsetSearch::Outcome Run(Bytes capacity, std::span<const SearchRules> rules,
                            const OffsetSearch::Limits& limits);

  std::size_t runs() const { return runs_; }  // Of the rules, how many the last Run took.
  const std::vector<Bytes>& offsets() const { return offsets_; }  // By record, after kFound.
  // Of the runs that counted: the same for any number of threads.
  std::uint64_t work() const { return work_; }

 private:
  struct Ran {
    OffsetSearch::Outcome outcome = OffsetSearch::Outcome::kGaveUp;
    std::uint64_t work = 0;
    std::vector<Bytes> offsets;    // After kFound.
    std::vector<double> failures;  // By section, those it began with included.
  };

  void RunGroup(Bytes capacity, std::span<const SearchRules> rules,
                const OffsetSearch::Limits& limits, std::span<Ran> group);
  static void RunOne(OffsetSearch& search, Bytes capacity, const SearchRules& rules,
                     const OffsetSearch::Limits& limits, Ran& ran);

  std::vector<std::unique_ptr<OffsetSearch>> searches_;  // One for each thread.
  std::vector<double> failures_;  // By section: what groups that have ended learnt.
  std::vector<Bytes> offsets_;
  std::size_t runs_ = 0;
  std::uint64_t work_ = 0;
};

}  // namespace sluice

#endif  // SLUICE_PLANNER_SEARCH_TEAM_H_
