#include "planner/offset_order.h"

#include <algorithm>
#include <bit>
#include <numeric>
#include <utility>

#include "base/check.h"

namespace sluice {
namespace {

constexpr std::size_t kPlacedBetweenQuestions = 4096;

std::uint32_t Lifetime(const UsageRecord& record) {
  return static_cast<std::uint32_t>(record.live.end) -
         static_cast<std::uint32_t>(record.live.begin);
}

// By section: its place when sections are sorted by falling breadth.
std::vector<std::size_t> BreadthRanks(std::span<const Bytes> breadths) {
  std::vector<std::size_t> by_breadth(breadths.size());
  std::iota(by_breadth.begin(), by_breadth.end(), std::size_t{0});
  std::ranges::stable_sort(by_breadth, std::ranges::greater(),
                           [breadths](std::size_t s) { return breadths[s]; });
  std::vector<std::size_t> ranks(by_breadth.size());
  for (std::size_t i = 0; i < by_breadth.size(); ++i) ranks[by_breadth[i]] = i;
  return ranks;
}

}  // namespace

std::vector<std::uint32_t> WidestSections(std::span<const Bytes> breadths,
                                          std::span<const SectionRange> spans) {
  // A tree over the sections: each node has the widest of its two children.
  const std::size_t leaves = std::bit_ceil(std::max<std::size_t>(breadths.size(), 1));
  std::vector<std::uint32_t> widest(2 * leaves);
  const auto wider = [breadths](std::uint32_t a, std::uint32_t b) {
    if (b >= breadths.size() || a == b) return a;
    if (breadths[a] != breadths[b]) return breadths[a] > breadths[b] ? a : b;
    return std::min(a, b);
  };
  std::iota(widest.begin() + static_cast<std::ptrdiff_t>(leaves), widest.end(), 0u);
  for (std::size_t node = leaves; --node > 0;) {
    widest[node] = wider(widest[2 * node], widest[2 * node + 1]);
  }
  std::vector<std::uint32_t> found;
  found.reserve(spans.size());
  for (const SectionRange span : spans) {
    std::uint32_t best = span.begin;
    std::size_t begin = span.begin + leaves, end = span.end + leaves;
    for (; begin < end; begin /= 2, end /= 2) {
      if (begin % 2 != 0) best = wider(best, widest[begin++]);
      if (end % 2 != 0) best = wider(best, widest[--end]);
    }
    found.push_back(best);
  }
  return found;
}

std::vector<std::size_t> PlacementOrder(std::span<const UsageRecord> records, const SectionMap& map,
                                        OffsetStrategy strategy) {
  std::vector<std::size_t> order(records.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, std::ranges::greater(),
                           [records](std::size_t i) { return records[i].size; });
  switch (strategy) {
    case OffsetStrategy::kGreedyBySize:
      break;
    case OffsetStrategy::kGreedyByBreadth: {
      // Taking the sections by falling breadth and placing what is live at each, which is how the
      // paper puts it, is the same as placing records by the first of their sections in that order.
      const std::vector<Bytes> breadths = Breadths(records, map);
      const std::vector<std::size_t> ranks = BreadthRanks(breadths);
      const std::vector<std::uint32_t> widest = WidestSections(breadths, map.spans);
      std::ranges::stable_sort(order, {}, [&](std::size_t i) { return ranks[widest[i]]; });
      break;
    }
    case OffsetStrategy::kGreedyByArea:
      std::ranges::stable_sort(order, std::ranges::greater(), [records](std::size_t i) {
        return records[i].size * Lifetime(records[i]);
      });
      break;
    case OffsetStrategy::kGreedyByLifetime:
      std::ranges::stable_sort(order, std::ranges::greater(),
                               [records](std::size_t i) { return Lifetime(records[i]); });
      break;
    case OffsetStrategy::kGreedyByUrgency: {
      const std::vector<Bytes> breadths = Breadths(records, map);
      const std::vector<std::uint32_t> widest = WidestSections(breadths, map.spans);
      std::ranges::stable_sort(order, std::ranges::greater(), [&](std::size_t i) {
        return std::pair(breadths[widest[i]], Lifetime(records[i]));
      });
      break;
    }
    case OffsetStrategy::kGreedyInOrder:
      std::ranges::stable_sort(order, {},
                               [records](std::size_t i) { return records[i].live.begin; });
      break;
    case OffsetStrategy::kStripPacking:
      break;  // Has an order of its own.
  }
  return order;
}

std::optional<OffsetPlan> PlaceInOrder(std::span<const UsageRecord> records, const SectionMap& map,
                                       std::span<const std::size_t> order, Occupancy::Fit fit,
                                       const PlanLimits& limits, std::uint64_t& work) {
  OffsetPlan plan{.offsets = std::vector<Bytes>(records.size()), .height = {}};
  Occupancy occupancy(map.sections);
  const auto place = [&](std::size_t i, std::uint64_t offset) {
    const std::uint64_t end = offset + records[i].size.count();
    occupancy.Take(map.spans[i], offset, end);
    plan.offsets[i] = Bytes::Of(offset);
    plan.height = std::max(plan.height, Bytes::Of(end));
  };
  for (std::size_t i = 0; i < records.size(); ++i) {
    SLUICE_CHECK(std::has_single_bit(records[i].alignment.count()));
    if (records[i].fixed && records[i].size > Bytes()) place(i, records[i].fixed->count());
  }
  const std::uint64_t before = work;
  std::size_t placed = 0;
  for (const std::size_t i : order) {
    if (++placed % kPlacedBetweenQuestions == 0) {
      work = before + placed + occupancy.work();
      if (work > limits.work || (limits.stop && limits.stop())) return std::nullopt;
    }
    // A record of size zero takes no place, so any offset will do: zero.
    if (records[i].fixed || records[i].size == Bytes()) continue;
    place(i,
          occupancy.Find(map.spans[i], records[i].size.count(), records[i].alignment.count(), fit));
  }
  work = before + placed + occupancy.work();
  return plan;
}

}  // namespace sluice
