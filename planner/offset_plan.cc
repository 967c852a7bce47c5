#include "planner/offset_plan.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <numeric>
#include <optional>
#include <utility>

#include "base/check.h"

namespace sluice {
namespace {

constexpr std::array kStrategies = {OffsetStrategy::kGreedyBySize, OffsetStrategy::kGreedyByBreadth,
                                    OffsetStrategy::kGreedyByArea,
                                    OffsetStrategy::kGreedyByLifetime};

// Steps at which nothing starts or ends have the breadth of the step before: a section is a run of
// equal ones. There are at most 2n, however many steps there are.
struct Sections {
  std::vector<Bytes> breadth;                              // By section.
  std::vector<std::pair<std::size_t, std::size_t>> spans;  // By record: its sections, half-open.
};

Sections FindSections(std::span<const UsageRecord> records) {
  std::vector<StepIndex> edges;
  edges.reserve(2 * records.size());
  for (const UsageRecord& record : records) {
    SLUICE_CHECK(record.live.begin < record.live.end);
    edges.push_back(record.live.begin);
    edges.push_back(record.live.end);
  }
  std::ranges::sort(edges);
  edges.erase(std::unique(edges.begin(), edges.end()), edges.end());

  const auto section_at = [&edges](StepIndex step) {
    return static_cast<std::size_t>(std::ranges::lower_bound(edges, step) - edges.begin());
  };
  Sections sections;
  sections.spans.reserve(records.size());
  std::vector<Bytes> starting(edges.size()), ending(edges.size());
  for (const UsageRecord& record : records) {
    const auto [begin, end] =
        sections.spans.emplace_back(section_at(record.live.begin), section_at(record.live.end));
    starting[begin] += record.size;
    ending[end] += record.size;
  }
  Bytes live;
  for (std::size_t i = 0; i < edges.size(); ++i) {
    live -= ending[i];
    live += starting[i];
    sections.breadth.push_back(live);
  }
  return sections;
}

// By record: the place of the first section of its lifetime when sections are sorted by falling
// breadth. Taking the sections in that order and placing what is live at each, which is how the
// paper puts it, is the same as placing records by this rank.
std::vector<std::size_t> BreadthRanks(const Sections& sections) {
  std::vector<std::size_t> by_breadth(sections.breadth.size());
  std::iota(by_breadth.begin(), by_breadth.end(), std::size_t{0});
  std::ranges::stable_sort(by_breadth, [&sections](std::size_t a, std::size_t b) {
    return sections.breadth[a] > sections.breadth[b];
  });
  std::vector<std::size_t> rank(by_breadth.size());
  for (std::size_t i = 0; i < by_breadth.size(); ++i) rank[by_breadth[i]] = i;

  std::vector<std::size_t> ranks;
  ranks.reserve(sections.spans.size());
  for (const auto& [begin, end] : sections.spans) {
    ranks.push_back(*std::min_element(rank.begin() + static_cast<std::ptrdiff_t>(begin),
                                      rank.begin() + static_cast<std::ptrdiff_t>(end)));
  }
  return ranks;
}

std::uint32_t Lifetime(const UsageRecord& record) {
  return static_cast<std::uint32_t>(record.live.end) -
         static_cast<std::uint32_t>(record.live.begin);
}

// The order in which records are placed; equals keep the order in which they came.
std::vector<std::size_t> PlacementOrder(std::span<const UsageRecord> records,
                                        OffsetStrategy strategy) {
  std::vector<std::size_t> order(records.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(
      order, [records](std::size_t a, std::size_t b) { return records[a].size > records[b].size; });
  switch (strategy) {
    case OffsetStrategy::kGreedyBySize:
      break;
    case OffsetStrategy::kGreedyByBreadth: {
      const std::vector<std::size_t> ranks = BreadthRanks(FindSections(records));
      std::ranges::stable_sort(order, {}, [&ranks](std::size_t i) { return ranks[i]; });
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
  }
  return order;
}

// Records that have their place, sorted by offset.
struct Placed {
  std::uint64_t offset;
  std::uint64_t end;
  StepRange live;
};

// The start of the smallest gap between placed records alive together with `record` that holds it;
// the lowest of equals; above them all where no gap does.
std::uint64_t BestFit(const std::vector<Placed>& placed, const UsageRecord& record) {
  const std::uint64_t size = record.size.count();
  const std::uint64_t mask = record.alignment.count() - 1;
  std::uint64_t top = 0;  // End of the highest one so far, aligned.
  std::optional<std::uint64_t> best;
  std::uint64_t best_gap = 0;
  for (const Placed& other : placed) {
    if (other.live.begin >= record.live.end || record.live.begin >= other.live.end) continue;
    if (other.offset >= top) {
      const std::uint64_t gap = other.offset - top;
      if (gap >= size && (!best || gap < best_gap)) {
        best = top;
        best_gap = gap;
      }
    }
    top = std::max(top, (other.end + mask) & ~mask);
  }
  return best.value_or(top);
}

// True when offsets could pass the largest number: then there is no plan that memory could hold.
bool TooLarge(std::span<const UsageRecord> records) {
  Bytes total;
  for (const UsageRecord& record : records) total += record.size + record.alignment;
  return total > Bytes::Of(std::uint64_t{1} << 62);
}

// Moves records that reach the top of the plan to earlier places in the order, and keeps what is
// not worse. Greedy orders miss the bound by a few per cent on some networks; this closes most.
class OrderSearch {
 public:
  OrderSearch(std::span<const UsageRecord> records, std::vector<std::size_t> order, OffsetPlan plan)
      : records_(records), order_(std::move(order)), plan_(std::move(plan)), best_(plan_) {}

  OffsetPlan Run(Bytes bound) {
    // Bounds the work, not the time, so that the same input gives the same plan everywhere.
    constexpr std::size_t kComparisons = 30'000'000;
    constexpr std::size_t kMostTries = 4000;
    const std::size_t tries =
        std::min(kMostTries, kComparisons / (records_.size() * records_.size() + 1));
    for (std::size_t i = 0; i < tries && best_.height > bound; ++i) Try();
    return std::move(best_);
  }

 private:
  void Try() {
    const std::size_t from = PlaceOfTop();
    if (from == 0) return Shuffle();
    std::vector<std::size_t> order = order_;
    const std::size_t to = Below(from);
    std::rotate(order.begin() + static_cast<std::ptrdiff_t>(to),
                order.begin() + static_cast<std::ptrdiff_t>(from),
                order.begin() + static_cast<std::ptrdiff_t>(from) + 1);
    OffsetPlan plan = PlaceInOrder(records_, order);
    // A slightly higher plan now and then is the way out of a dead end.
    if (plan.height > plan_.height && Below(64) != 0) return;
    order_ = std::move(order);
    plan_ = std::move(plan);
    if (plan_.height < best_.height) best_ = plan_;
  }

  // Where in the order the record is that ends highest.
  std::size_t PlaceOfTop() const {
    const auto top = std::ranges::find_if(order_, [this](std::size_t i) {
      return plan_.offsets[i] + records_[i].size == plan_.height;
    });
    return static_cast<std::size_t>(top - order_.begin());
  }

  void Shuffle() {
    std::swap(order_.front(), order_[Below(order_.size())]);
    plan_ = PlaceInOrder(records_, order_);
  }

  std::size_t Below(std::size_t n) {
    state_ ^= state_ << 13;
    state_ ^= state_ >> 7;
    state_ ^= state_ << 17;
    return static_cast<std::size_t>(state_ % n);
  }

  std::span<const UsageRecord> records_;
  std::vector<std::size_t> order_;  // Of plan_.
  OffsetPlan plan_;
  OffsetPlan best_;
  std::uint64_t state_ = 0x9E3779B97F4A7C15;
};

}  // namespace

std::string_view Name(OffsetStrategy strategy) {
  switch (strategy) {
    case OffsetStrategy::kGreedyBySize:
      return "greedy_by_size";
    case OffsetStrategy::kGreedyByBreadth:
      return "greedy_by_breadth";
    case OffsetStrategy::kGreedyByArea:
      return "greedy_by_area";
    case OffsetStrategy::kGreedyByLifetime:
      return "greedy_by_lifetime";
  }
  return "unknown";
}

OffsetPlan PlaceInOrder(std::span<const UsageRecord> records, std::span<const std::size_t> order) {
  OffsetPlan plan{.offsets = std::vector<Bytes>(records.size()), .height = {}};
  if (TooLarge(records)) {
    plan.height = Bytes::Max();
    return plan;
  }
  std::vector<Placed> placed;
  placed.reserve(records.size());
  std::uint64_t height = 0;
  for (const std::size_t i : order) {
    const UsageRecord& record = records[i];
    SLUICE_CHECK(record.live.begin < record.live.end);
    SLUICE_CHECK(std::has_single_bit(record.alignment.count()));
    if (record.size == Bytes()) continue;  // Takes no place, so any offset will do: zero.
    const std::uint64_t offset = BestFit(placed, record);
    const Placed place{offset, offset + record.size.count(), record.live};
    placed.insert(std::ranges::upper_bound(placed, offset, {}, &Placed::offset), place);
    plan.offsets[i] = Bytes::Of(offset);
    height = std::max(height, place.end);
  }
  plan.height = Bytes::Of(height);
  return plan;
}

OffsetPlan PlanOffsets(std::span<const UsageRecord> records, OffsetStrategy strategy) {
  return PlaceInOrder(records, PlacementOrder(records, strategy));
}

OffsetPlan PlanOffsets(std::span<const UsageRecord> records) {
  const Bytes bound = OffsetLowerBound(records);
  OffsetPlan best;
  std::vector<std::size_t> best_order;
  for (const OffsetStrategy strategy : kStrategies) {
    std::vector<std::size_t> order = PlacementOrder(records, strategy);
    OffsetPlan plan = PlaceInOrder(records, order);
    if (best_order.empty() || plan.height < best.height) {
      best = std::move(plan);
      best_order = std::move(order);
    }
    if (best.height <= bound || best.height == Bytes::Max()) return best;
  }
  return OrderSearch(records, std::move(best_order), std::move(best)).Run(bound);
}

Bytes OffsetLowerBound(std::span<const UsageRecord> records) {
  const Sections sections = FindSections(records);
  const auto largest = std::ranges::max_element(sections.breadth);
  return largest == sections.breadth.end() ? Bytes() : *largest;
}

}  // namespace sluice
