#include "planner/occupancy.h"

#include <algorithm>
#include <bit>
#include <limits>
#include <optional>

namespace sluice {
namespace {

constexpr std::uint64_t kNothing = std::numeric_limits<std::uint64_t>::max();

// Calls `visit(node, whole)` for the nodes that meet the span, from the root down as far as a node
// lies within the span; `whole` says that it does.
template <typename Visit>
void VisitNodes(std::uint32_t node, SectionRange sections, SectionRange span, Visit& visit) {
  const bool whole = span.begin <= sections.begin && sections.end <= span.end;
  visit(node, whole);
  if (whole) return;
  const std::uint32_t middle = sections.begin + sections.length() / 2;
  if (span.begin < middle) VisitNodes(2 * node, {sections.begin, middle}, span, visit);
  if (middle < span.end) VisitNodes(2 * node + 1, {middle, sections.end}, span, visit);
}

}  // namespace

Occupancy::Occupancy(std::size_t sections)
    : leaves_(std::bit_ceil(static_cast<std::uint32_t>(std::max<std::size_t>(sections, 1)))) {
  nodes_.resize(std::size_t{2} * leaves_);
}

std::uint64_t Occupancy::Find(SectionRange span, std::uint64_t size, std::uint64_t alignment,
                              Fit fit) {
  cursors_.clear();
  const auto collect = [this](std::uint32_t node, bool whole) {
    const Runs& runs = whole ? nodes_[node].within : nodes_[node].across;
    if (!runs.empty()) cursors_.push_back({runs.data(), runs.data() + runs.size()});
  };
  VisitNodes(1, {0, leaves_}, span, collect);
  const std::uint64_t mask = alignment - 1;
  std::uint64_t offset = 0;
  std::optional<std::uint64_t> best;
  std::uint64_t best_gap = 0;
  while (const std::optional<std::uint64_t> wall = NextGap(size, mask, offset)) {
    const std::uint64_t gap = *wall - offset;
    if (!best || gap < best_gap) {
      best = offset;
      best_gap = gap;
    }
    if (gap == size || fit == Fit::kFirst) break;
    offset = *wall;
  }
  return best.value_or(offset);
}

// Raises the offset to the next one that is aligned and has `size` bytes above it that are free;
// where those end. Nothing when all above the offset is free.
std::optional<std::uint64_t> Occupancy::NextGap(std::uint64_t size, std::uint64_t mask,
                                                std::uint64_t& offset) {
  offset = (offset + mask) & ~mask;
  std::uint64_t wall = kNothing;
  std::size_t clear = 0;  // Cursors that leave room at the offset, one after the other.
  std::erase_if(cursors_, [](const Cursor& cursor) { return cursor.next == cursor.end; });
  for (std::size_t i = 0; clear < cursors_.size(); i = i + 1 == cursors_.size() ? 0 : i + 1) {
    Cursor& cursor = cursors_[i];
    ++work_;
    if (!cursor.Pass(offset)) {
      ++clear;
      continue;
    }
    if (cursor.next->begin < offset + size) {
      offset = (cursor.next->end + mask) & ~mask;
      wall = kNothing;
      clear = 0;
      continue;
    }
    wall = std::min(wall, cursor.next->begin);
    ++clear;
  }
  if (wall == kNothing) return std::nullopt;
  return wall;
}

// Goes on to the first run that ends above the offset, in leaps, since many may lie below it; false
// when there is none.
bool Occupancy::Cursor::Pass(std::uint64_t offset) {
  if (next == end) return false;
  if (next->end > offset) return true;
  std::ptrdiff_t leap = 1;
  while (end - next > leap && next[leap].end <= offset) {
    next += leap;
    leap *= 2;
  }
  // The run that is looked for is behind `next`, by a leap at most.
  for (std::ptrdiff_t left = std::min(leap, end - next); left > 1;) {
    const std::ptrdiff_t half = left / 2;
    if (next[half].end <= offset) next += half;
    left -= half;
  }
  return ++next != end;
}

void Occupancy::Take(SectionRange span, std::uint64_t begin, std::uint64_t end) {
  const auto note = [this, run = Run{begin, end}](std::uint32_t node, bool whole) {
    if (whole) Add(run, nodes_[node].across);
    Add(run, nodes_[node].within);
  };
  VisitNodes(1, {0, leaves_}, span, note);
}

void Occupancy::Add(Run run, Runs& runs) {
  const auto first = std::ranges::lower_bound(runs, run.begin, {}, &Run::end);
  auto last = first;  // Behind the runs that it meets or touches.
  while (last != runs.end() && last->begin <= run.end) ++last;
  if (first == last) {
    runs.insert(first, run);
    return;
  }
  first->begin = std::min(first->begin, run.begin);
  first->end = std::max(std::prev(last)->end, run.end);
  runs.erase(std::next(first), last);
}

}  // namespace sluice
