// planner/occupancy.h
//
// Which bytes are taken in which sections (planner/section_map.h), while records get their places
// one after the other:
//
//   bytes ^  |##|            Between the records that share a section with a new one there are
//         |  |##|####|       gaps. Only the union of their bytes matters for it, and since plans
//         |  |  |####|###|   have few gaps, a union is a few runs of bytes, however many records
//         |  |##|    |###|   it is made of.
//         +--------------->
//                sections
//
// Runs are kept by nodes of a segment tree over the sections, so that a record looks at, and is
// noted in, as many nodes as the logarithm of the sections.
//
// Threads: one thread owns an occupancy.

#ifndef SLUICE_PLANNER_OCCUPANCY_H_
#define SLUICE_PLANNER_OCCUPANCY_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "planner/section_map.h"

namespace sluice {

class Occupancy {
 public:
  enum class Fit {
    kBest,   // The smallest gap that is large enough, the lowest of equals.
    kFirst,  // The lowest that is large enough.
  };

  explicit Occupancy(std::size_t sections);

  // The offset, a multiple of `alignment`, of `size` bytes in a gap of all sections of the span;
  // above all that is taken there when no gap is large enough.
  // Requires: a size above zero, a power-of-two alignment, offsets below 2^63.
  std::uint64_t Find(SectionRange span, std::uint64_t size, std::uint64_t alignment, Fit fit);

  // Notes that bytes [begin, end) are taken in the span.
  void Take(SectionRange span, std::uint64_t begin, std::uint64_t end);

  // Runs looked at since it was made: a measure of time that is the same on every machine.
  std::uint64_t work() const { return work_; }

 private:
  struct Run {
    std::uint64_t begin, end;
  };
  // Disjoint runs that do not touch, in order.
  using Runs = std::vector<Run>;
  struct Node {
    Runs across;  // Of records whose spans hold all of the node's sections, but not its parent's.
    Runs within;  // Of those, and of records noted below the node.
  };

  struct Cursor {  // On the way up through the runs of a node.
    const Run* next;
    const Run* end;
    bool Pass(std::uint64_t offset);
  };

  std::optional<std::uint64_t> NextGap(std::uint64_t size, std::uint64_t mask,
                                       std::uint64_t& offset);
  static void Add(Run run, Runs& runs);

  std::vector<Node> nodes_;  // The root is 1, the children of i are 2 i and 2 i + 1.
  std::uint32_t leaves_;
  std::vector<Cursor> cursors_;  // Of the nodes that Find looks at.
  std::uint64_t work_ = 0;
};

}  // namespace sluice

#endif  // SLUICE_PLANNER_OCCUPANCY_H_
