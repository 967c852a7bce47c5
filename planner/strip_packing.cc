#include "planner/strip_packing.h"

#include <algorithm>
#include <bit>
#include <functional>
#include <limits>
#include <numeric>

namespace sluice {
namespace {

constexpr std::uint32_t kNone = std::numeric_limits<std::uint32_t>::max();

}  // namespace

StripPacking::StripPacking(std::span<const UsageRecord> records, const SectionMap& map)
    : records_(records), map_(map), leaf_(records.size()), lines_(map.sections + 1) {
  for (std::size_t i = 0; i < records.size(); ++i) {
    if (records[i].size > Bytes()) order_.push_back(static_cast<std::uint32_t>(i));
  }
  const std::size_t leaves = std::bit_ceil(std::max<std::size_t>(order_.size(), 1));
  nodes_.resize(2 * leaves, {kNone, 0, kNone, 0});
  first_.resize(2 * leaves);
  Build(1, 0, order_.size(), leaves, true);
}

// The node takes order_[begin, begin + count) and has `leaves` leaves below it.
void StripPacking::Build(std::size_t node, std::size_t begin, std::size_t count, std::size_t leaves,
                         bool by_begin) {
  if (count == 0) return;
  if (leaves == 1) {
    const auto [from, to] = map_.spans[order_[begin]];
    nodes_[node] = {from, from, to, to};
    leaf_[order_[begin]] = node;
    return;
  }
  const std::size_t half = std::min(count, leaves / 2);
  const auto at = [this](std::size_t i) { return order_.begin() + static_cast<std::ptrdiff_t>(i); };
  std::nth_element(at(begin), at(begin + half), at(begin + count),
                   [this, by_begin](std::uint32_t a, std::uint32_t b) {
                     const SectionRange one = map_.spans[a], other = map_.spans[b];
                     return by_begin ? one.begin < other.begin : one.end < other.end;
                   });
  Build(2 * node, begin, half, leaves / 2, !by_begin);
  Build(2 * node + 1, begin + half, count - half, leaves / 2, !by_begin);
  const Node &left = nodes_[2 * node], &right = nodes_[2 * node + 1];
  nodes_[node] = {
      std::min(left.least_begin, right.least_begin), std::max(left.most_begin, right.most_begin),
      std::min(left.least_end, right.least_end), std::max(left.most_end, right.most_end)};
}

OffsetPlan StripPacking::Pack(std::span<const std::size_t> preference) {
  OffsetPlan plan{.offsets = std::vector<Bytes>(records_.size()), .height = {}};
  std::ranges::fill(first_, kNone);
  for (std::size_t i = 0; i < preference.size(); ++i) {
    first_[leaf_[preference[i]]] = static_cast<Rank>(i);
  }
  for (std::size_t node = first_.size() / 2; --node > 0;) {
    first_[node] = std::min(first_[2 * node], first_[2 * node + 1]);
  }
  heap_.clear();

  Put({0, static_cast<std::uint32_t>(map_.sections)}, kNone, Bytes());
  work_ += first_.size();
  for (std::size_t placed = 0; placed < preference.size();) {
    const std::uint32_t line = LowestLine();
    const SectionRange range = {line, lines_[line].end};
    Rank first = kNone;
    FindWithin(1, range, first);
    if (first == kNone) {
      Raise(line, range, Wall(line));
      continue;
    }
    const std::size_t i = preference[first];
    Remove(i);
    ++placed;
    plan.offsets[i] = AlignUp(lines_[line].floor, records_[i].alignment);
    const Bytes top = plan.offsets[i] + records_[i].size;
    plan.height = std::max(plan.height, top);
    Raise(line, map_.spans[i], top);
  }
  return plan;
}

void StripPacking::FindWithin(std::size_t node, SectionRange line, Rank& first) {
  ++work_;
  if (first_[node] >= first) return;
  const Node& bounds = nodes_[node];
  if (bounds.most_begin < line.begin || bounds.least_end > line.end) return;
  if (bounds.least_begin >= line.begin && bounds.most_end <= line.end) {
    first = first_[node];
    return;
  }
  const std::size_t nearer = first_[2 * node] < first_[2 * node + 1] ? 0 : 1;
  FindWithin(2 * node + nearer, line, first);
  FindWithin(2 * node + 1 - nearer, line, first);
}

void StripPacking::Remove(std::size_t record) {
  std::size_t node = leaf_[record];
  first_[node] = kNone;
  while (node /= 2) first_[node] = std::min(first_[2 * node], first_[2 * node + 1]);
}

// The first of the lowest lines.
std::uint32_t StripPacking::LowestLine() {
  for (;;) {
    const auto [floor, line] = heap_.front();
    if (lines_[line].end != kNone && lines_[line].floor == floor) return line;
    std::ranges::pop_heap(heap_, std::ranges::greater());
    heap_.pop_back();
  }
}

// The lower of the line's walls; its own floor when it has none.
Bytes StripPacking::Wall(std::uint32_t line) const {
  const auto [before, end, floor] = lines_[line];
  std::optional<Bytes> wall;
  if (before != kNone) wall = lines_[before].floor;
  if (end < map_.sections) wall = wall ? std::min(*wall, lines_[end].floor) : lines_[end].floor;
  return wall.value_or(floor);
}

// Raises a part of the line; neighbours of one height become one line.
void StripPacking::Raise(std::uint32_t line, SectionRange part, Bytes floor) {
  const Line whole = lines_[line];
  std::uint32_t before = whole.before;
  lines_[line].end = kNone;
  if (line < part.begin) {
    Put({line, part.begin}, before, whole.floor);
    before = line;
  } else if (before != kNone && lines_[before].floor == floor) {
    part.begin = before;
    before = lines_[before].before;
  }
  std::uint32_t after = part.end;
  if (part.end < whole.end) {
    Put({part.end, whole.end}, part.begin, whole.floor);
  } else if (after < map_.sections && lines_[after].floor == floor) {
    part.end = lines_[after].end;
    lines_[after].end = kNone;
  }
  Put(part, before, floor);
}

void StripPacking::Put(SectionRange range, std::uint32_t before, Bytes floor) {
  lines_[range.begin] = {before, range.end, floor};
  if (range.end < map_.sections) lines_[range.end].before = range.begin;
  heap_.emplace_back(floor, range.begin);
  std::ranges::push_heap(heap_, std::ranges::greater());
}

std::vector<std::size_t> StripPacking::LongestFirst() const {
  std::vector<std::size_t> order;
  for (std::size_t i = 0; i < records_.size(); ++i) {
    if (records_[i].size > Bytes()) order.push_back(i);
  }
  std::ranges::stable_sort(order, [this](std::size_t a, std::size_t b) {
    const std::uint32_t longer = map_.spans[a].length(), shorter = map_.spans[b].length();
    return longer != shorter ? longer > shorter : records_[a].size > records_[b].size;
  });
  return order;
}

OffsetPlan PackStrip(std::span<const UsageRecord> records) {
  const SectionMap map = MapSections(records);
  StripPacking packing(records, map);
  return packing.Pack(packing.LongestFirst());
}

}  // namespace sluice
