// planner/free_since.h
//
// For each address of an arena, the step since which nothing that was placed so far holds it.
//
// Threads: one thread owns one.

#ifndef SLUICE_PLANNER_FREE_SINCE_H_
#define SLUICE_PLANNER_FREE_SINCE_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/bytes.h"

namespace sluice {

class FreeSince {
 public:
  struct Piece {
    std::uint64_t offset;  // Up to the next piece's, or the end of the arena.
    std::size_t step;      // The first at which it may be taken; 0: all the time.
  };
  struct Run {
    std::uint64_t low, high;  // Whole pages, free since one step or earlier.
  };

  explicit FreeSince(Bytes arena) : arena_(arena.count()), pieces_{{.offset = 0, .step = 0}} {}

  // The bytes [offset, offset + size) are held until `step`. Requires: they lie in the arena, and
  // nothing later holds them.
  void Hold(Bytes offset, Bytes size, std::size_t step);

  // The step since which all these bytes are free.
  std::size_t Since(Bytes offset, Bytes size) const;

  // The least step not after `latest` since which `size` bytes in one run are free; `latest` + 1
  // when there are none.
  std::size_t Earliest(Bytes size, std::size_t latest) const;

  // Calls `visit(Run)` for each longest run that is free since `step` or earlier, in rising order.
  template <typename Visit>
  void VisitRuns(std::size_t step, Visit visit) const {
    constexpr std::uint64_t kPage = kPageSize.count();
    for (std::size_t i = 0; i < pieces_.size();) {
      if (pieces_[i].step > step) {
        ++i;
        continue;
      }
      const std::uint64_t low = (pieces_[i].offset + kPage - 1) / kPage * kPage;
      while (i < pieces_.size() && pieces_[i].step <= step) ++i;
      const std::uint64_t high = End(i) / kPage * kPage;
      if (low < high) visit(Run{.low = low, .high = high});
    }
  }

 private:
  // Where the piece before the i-th ends.
  std::uint64_t End(std::size_t i) const { return i < pieces_.size() ? pieces_[i].offset : arena_; }
  bool HasRun(std::uint64_t size, std::size_t step) const;

  std::uint64_t arena_;
  std::vector<Piece> pieces_;  // Rising; neighbours have different steps.
  mutable std::vector<std::size_t> steps_;
};

}  // namespace sluice

#endif  // SLUICE_PLANNER_FREE_SINCE_H_
