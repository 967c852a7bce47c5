// planner/offset_search.h
//
// Complete search for a plan of offsets within a given capacity. It grows all stacks from the
// bottom and always decides about one valley of their skyline:
//
//   bytes ^          |####|        The floor of a section is the lowest offset that is still open
//         |  |####|  |####|        in it. In a valley, a run of sections whose neighbours are
//         |  |####|vv|####|        higher, either one of the records that fit between its walls
//         +-------------------->   lies right on the floor, or the floor is lost up to the next
//                     sections     offset at which anything could start.
//
// The valley with the fewest choices goes first, so that dead ends show early; a solver that
// places records by rising offset meets them late. What must be true of every plan (offsets at
// least so high, the bytes still to come in a section and the gaps that they cannot fill) is
// propagated after each decision, and states that failed once are remembered.
//
// Sources: the skyline and its valleys are those of strip packing, E. Burke, G. Kendall,
// G. Whitwell, "A new placement heuristic for the orthogonal stock-cutting problem", 2004; exact
// search over offsets: M. Moffitt, "MiniMalloc", ASPLOS 2023; fewest choices first:
// R. Haralick, G. Elliott, "Increasing tree search efficiency for constraint satisfaction
// problems", 1980; failures as weights: F. Boussemart, F. Hemery, C. Lecoutre, L. Sais, "Boosting
// systematic search by weighting constraints", 2004.
//
// Threads: one thread owns a search. Same input, same answer.

#ifndef SLUICE_PLANNER_OFFSET_SEARCH_H_
#define SLUICE_PLANNER_OFFSET_SEARCH_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "planner/section_map.h"
#include "planner/usage_record.h"

namespace sluice {

// Which valley is decided first; each rule breaks the ties of the one that it names first.
enum class ValleyRule {
  kLowest,
  kFewestChoicesLeastSlack,
  kFewestChoicesLowest,
  kFewestChoicesNarrowest,
  kLeastSlack,
  kChoicesTimesSlack,
  kChoicesPerFailure,  // Failures: how often the section was where a dead end showed.
  kChoicesTimesSlackPerFailure,
};

// Which record is tried first in a valley: the one with the largest
//   lifetime^lifetime * size^size * urgency^urgency
// where urgency is the largest breadth within its lifetime; noise in [0, 1) blurs it.
struct RecordRule {
  double lifetime = 1, size = 0, urgency = 0, noise = 0;
};

struct SearchRules {
  ValleyRule valley = ValleyRule::kFewestChoicesLeastSlack;
  RecordRule record;
  std::uint64_t seed = 1;  // Of the noise.
};

class OffsetSearch {
 public:
  enum class Outcome {
    kFound,    // offsets() is a plan within the capacity.
    kRefuted,  // There is none.
    kGaveUp,   // The steps or the work are used up, or `stop` said so.
  };

  // Owns: borrows both; they outlive the search.
  // Requires: sizes and alignments sum up to less than 2^62; records of size zero have no part in
  //           a plan and are left out by the caller; `map` is of these records.
  // Cost:     some 8 bytes of memory for each of map.Incidences(), and 32 for each step of a run,
  //           a quarter of a byte for each of its work and 16 MiB at most.
  OffsetSearch(std::span<const UsageRecord> records, const SectionMap& map);
  ~OffsetSearch();

  struct Limits {
    std::uint64_t steps = 0;          // Decisions.
    std::uint64_t work = 0;           // Upper bound of work() at the end.
    std::function<bool()> stop = {};  // True: give up. Asked now and then; may be empty.
  };
  // What one run learns about the sections that fail most helps the next one.
  Outcome Run(Bytes capacity, const SearchRules& rules, const Limits& limits);

  const std::vector<Bytes>& offsets() const;  // By record, after kFound.
  // Records looked at in all runs: a measure of time that is the same on every machine.
  std::uint64_t work() const;
  // By section: how often a dead end showed there, and one.
  const std::vector<double>& failures() const;
  void set_failures(std::vector<double> failures);

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace sluice

#endif  // SLUICE_PLANNER_OFFSET_SEARCH_H_
