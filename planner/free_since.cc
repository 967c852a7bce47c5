#include "planner/free_since.h"

#include <algorithm>

#include "base/check.h"

namespace sluice {

void FreeSince::Hold(Bytes offset, Bytes size, std::size_t step) {
  if (size == Bytes()) return;
  const std::uint64_t low = offset.count(), high = low + size.count();
  SLUICE_CHECK(high <= arena_);
  const auto after = [](const Piece& piece, std::uint64_t address) {
    return piece.offset < address;
  };
  auto first = std::lower_bound(pieces_.begin(), pieces_.end(), low, after);
  auto last = std::lower_bound(first, pieces_.end(), high, after);
  // What is behind the held bytes keeps the step of the last piece that they reach into.
  const std::size_t behind = last == pieces_.begin() ? 0 : (last - 1)->step;
  std::vector<Piece> in;
  if (first == pieces_.begin() || (first - 1)->step != step) in.push_back({low, step});
  const bool splits = high < arena_ && (last == pieces_.end() || last->offset != high);
  if (splits && behind != step) in.push_back({high, behind});
  if (!splits && last != pieces_.end() && last->step == step) ++last;
  const auto at = pieces_.erase(first, last);
  pieces_.insert(at, in.begin(), in.end());
}

std::size_t FreeSince::Since(Bytes offset, Bytes size) const {
  const std::uint64_t low = offset.count(), high = low + size.count();
  std::size_t step = 0;
  for (std::size_t i = 0; i < pieces_.size() && pieces_[i].offset < high; ++i) {
    if (End(i + 1) > low) step = std::max(step, pieces_[i].step);
  }
  return step;
}

bool FreeSince::HasRun(std::uint64_t size, std::size_t step) const {
  bool has = false;
  VisitRuns(step, [&](const Run& run) { has = has || run.high - run.low >= size; });
  return has;
}

std::size_t FreeSince::Earliest(Bytes size, std::size_t latest) const {
  steps_.clear();
  for (const Piece& piece : pieces_) {
    if (piece.step <= latest) steps_.push_back(piece.step);
  }
  std::ranges::sort(steps_);
  steps_.erase(std::unique(steps_.begin(), steps_.end()), steps_.end());
  const auto found = std::partition_point(
      steps_.begin(), steps_.end(), [&](std::size_t step) { return !HasRun(size.count(), step); });
  return found == steps_.end() ? latest + 1 : *found;
}

}  // namespace sluice
