// planner/section_map.h
//
// The steps that matter for a plan. Steps with the same live records are one section, and a section
// whose live records are all live in its neighbour too says nothing that the neighbour does not:
//
//   step      0   1   2   3   4   5
//   a       |===========|
//   b           |===|
//   c                   |=======|          sections: {a, b}, {a, c}
//
// What is left are the maximal sets of records that are live together; there are at most as many as
// records, and two records meet in a section exactly when they meet at a step.
//
// Threads: pure functions, callable from anywhere.

#ifndef SLUICE_PLANNER_SECTION_MAP_H_
#define SLUICE_PLANNER_SECTION_MAP_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "planner/usage_record.h"

namespace sluice {

struct SectionRange {
  std::uint32_t begin = 0, end = 0;  // Half-open, never empty.
  std::uint32_t length() const { return end - begin; }
  friend bool operator==(const SectionRange&, const SectionRange&) = default;
};

struct SectionMap {
  std::size_t sections = 0;
  std::vector<SectionRange> spans;  // By record.

  // Records live in a section, summed over all sections.
  std::size_t Incidences() const;
};

// Requires: live.begin < live.end in every record. Cost: O(n log n).
SectionMap MapSections(std::span<const UsageRecord> records);

// By section: the bytes live in it.
std::vector<Bytes> Breadths(std::span<const UsageRecord> records, const SectionMap& map);

// Groups of records that share no section with another group, in order of time; each is a problem
// of its own. Values are positions in `map.spans`.
std::vector<std::vector<std::size_t>> Components(const SectionMap& map);

}  // namespace sluice

#endif  // SLUICE_PLANNER_SECTION_MAP_H_
