// planner/strip_packing.h
//
// Plans offsets as rectangles are packed into a strip: along the lowest line of the skyline the
// longest lived record that fits between its walls is placed; when none fits, the line rises to
// the lower one of its walls.
//
// Source: T. Sekiyama, T. Imai, R. Raymond, "Profile-guided memory optimization for deep neural
// networks", 2018, arXiv 1804.10001, after E. Burke, G. Kendall, G. Whitwell, "A new placement
// heuristic for the orthogonal stock-cutting problem", 2004.

#ifndef SLUICE_PLANNER_STRIP_PACKING_H_
#define SLUICE_PLANNER_STRIP_PACKING_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "planner/offset_plan.h"
#include "planner/section_map.h"
#include "planner/usage_record.h"

namespace sluice {

// Packs the same records again and again, by different preferences.
// Threads: one thread owns a packing.
class StripPacking {
 public:
  // Owns: borrows both; they outlive this.
  // Requires: as PlanOffsets; no record is fixed, `map` is of these records.
  StripPacking(std::span<const UsageRecord> records, const SectionMap& map);

  // Of the records that fit, the one that stands first in `preference` is placed.
  // Requires: each record larger than nothing is there once, and no other.
  // Cost:     O(n^1.5) time.
  OffsetPlan Pack(std::span<const std::size_t> preference);

  // The paper's preference: the longest lived first, of equals the largest.
  std::vector<std::size_t> LongestFirst() const;

  // Lines and records looked at since it was made: a measure of time that is the same on every
  // machine.
  std::uint64_t work() const { return work_; }

 private:
  using Rank = std::uint32_t;  // Place in the preference.
  // A tree that halves the records by turns along the begins and along the ends of their spans.
  struct Node {
    std::uint32_t least_begin, most_begin, least_end, most_end;
  };
  // A run of sections with one floor.
  struct Line {
    std::uint32_t before, end;  // Where the line to the left begins; where this one ends.
    Bytes floor;
  };

  void Build(std::size_t node, std::size_t begin, std::size_t count, std::size_t leaves,
             bool by_begin);
  void FindWithin(std::size_t node, SectionRange line, Rank& first);
  void Remove(std::size_t record);
  std::uint32_t LowestLine();
  Bytes Wall(std::uint32_t line) const;
  void Raise(std::uint32_t line, SectionRange part, Bytes floor);
  void Put(SectionRange range, std::uint32_t before, Bytes floor);

  std::span<const UsageRecord> records_;
  const SectionMap& map_;
  std::vector<std::uint32_t> order_;  // Records, as the tree's leaves have them.
  std::vector<std::size_t> leaf_;     // By record: its node.
  std::vector<Node> nodes_;           // The root is 1, the children of i are 2 i and 2 i + 1.
  std::vector<Rank> first_;           // By node: of the records below it that are left.
  std::vector<Line> lines_;           // By the section where they begin.
  std::vector<std::pair<Bytes, std::uint32_t>> heap_;  // Lines that are or were, the lowest first.
  std::uint64_t work_ = 0;
};

// One packing by the paper's preference. Requires: as above. Threads: pure.
OffsetPlan PackStrip(std::span<const UsageRecord> records);

}  // namespace sluice

#endif  // SLUICE_PLANNER_STRIP_PACKING_H_
