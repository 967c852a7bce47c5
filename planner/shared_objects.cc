#include "planner/shared_objects.h"

#include <algorithm>
#include <cstdint>
#include <functional>
#include <limits>
#include <numeric>
#include <optional>
#include <tuple>

#include "planner/min_cost_assignment.h"
#include "planner/section_map.h"

namespace sluice {
namespace {

bool Meet(const UsageRecord& a, const UsageRecord& b) {
  return a.live.begin < b.live.end && b.live.begin < a.live.end;
}

// Steps between two lifetimes that do not meet; zero when one begins as the other ends.
std::uint32_t Distance(const UsageRecord& a, const UsageRecord& b) {
  const UsageRecord& first = a.live.begin < b.live.begin ? a : b;
  const UsageRecord& second = a.live.begin < b.live.begin ? b : a;
  return static_cast<std::uint32_t>(Index(second.live.begin) - Index(first.live.end));
}

std::vector<std::size_t> BySize(std::span<const UsageRecord> records) {
  std::vector<std::size_t> order(records.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, std::ranges::greater(),
                           [records](std::size_t i) { return records[i].size; });
  return order;
}

std::vector<std::size_t> ByBegin(std::span<const UsageRecord> records) {
  std::vector<std::size_t> order(records.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, {}, [records](std::size_t i) { return records[i].live.begin; });
  return order;
}

// A plan in the making.
class Objects {
 public:
  explicit Objects(std::span<const UsageRecord> records) : records_(records) {
    plan_.object.resize(records.size());
  }

  std::size_t count() const { return plan_.sizes.size(); }
  Bytes size(std::size_t object) const { return plan_.sizes[object]; }

  bool Free(std::size_t object, std::size_t record) const {
    return std::ranges::none_of(
        users_[object], [&](std::size_t user) { return Meet(records_[user], records_[record]); });
  }

  // Least number of steps between the record and another one of the object. Requires: Free.
  std::uint32_t Idle(std::size_t object, std::size_t record) const {
    std::uint32_t least = std::numeric_limits<std::uint32_t>::max();
    for (const std::size_t user : users_[object]) {
      least = std::min(least, Distance(records_[user], records_[record]));
    }
    return least;
  }

  void Assign(std::size_t record, std::optional<std::size_t> object) {
    if (!object) {
      object = plan_.sizes.size();
      plan_.sizes.emplace_back();
      users_.emplace_back();
    }
    plan_.object[record] = *object;
    plan_.sizes[*object] = std::max(plan_.sizes[*object], records_[record].size);
    users_[*object].push_back(record);
  }

  SharedObjectsPlan Take() {
    for (const Bytes size : plan_.sizes) plan_.total += size;
    return std::move(plan_);
  }

 private:
  std::span<const UsageRecord> records_;
  SharedObjectsPlan plan_;
  std::vector<std::vector<std::size_t>> users_;  // By object.
};

// The smallest free object that holds the record; the largest free one when none does and
// `may_grow`.
std::optional<std::size_t> BestObject(const Objects& objects, const UsageRecord& record,
                                      std::size_t index, bool may_grow) {
  std::optional<std::size_t> holds, grows;
  for (std::size_t object = 0; object < objects.count(); ++object) {
    if (!objects.Free(object, index)) continue;
    const Bytes size = objects.size(object);
    if (size >= record.size) {
      if (!holds || size < objects.size(*holds)) holds = object;
    } else if (!grows || size > objects.size(*grows)) {
      grows = object;
    }
  }
  return holds || !may_grow ? holds : grows;
}

SharedObjectsPlan GreedyBySize(std::span<const UsageRecord> records) {
  Objects objects(records);
  for (const std::size_t i : BySize(records)) {
    objects.Assign(i, BestObject(objects, records[i], i, false));
  }
  return objects.Take();
}

std::vector<Bytes> PositionalMaxima(std::span<const UsageRecord> records) {
  const SectionMap map = MapSections(records);
  std::vector<std::vector<Bytes>> live(map.sections);
  for (std::size_t i = 0; i < records.size(); ++i) {
    for (std::uint32_t s = map.spans[i].begin; s < map.spans[i].end; ++s) {
      live[s].push_back(records[i].size);
    }
  }
  std::vector<Bytes> maxima;
  for (std::vector<Bytes>& sizes : live) {
    std::ranges::sort(sizes, std::ranges::greater());
    if (sizes.size() > maxima.size()) maxima.resize(sizes.size());
    for (std::size_t k = 0; k < sizes.size(); ++k) maxima[k] = std::max(maxima[k], sizes[k]);
  }
  return maxima;
}

// Rounds go by positional maximum; within one, the record that would leave an object idle for the
// shortest time goes next, the larger one of equals, and one that finds no object last.
SharedObjectsPlan GreedyBySizeImproved(std::span<const UsageRecord> records) {
  const std::vector<Bytes> maxima = PositionalMaxima(records);
  std::vector<std::size_t> left = BySize(records);
  Objects objects(records);
  struct Choice {
    std::size_t place;  // In left.
    std::optional<std::size_t> object;
    std::uint32_t idle = std::numeric_limits<std::uint32_t>::max();
  };
  const auto position = [&](std::size_t i) {  // The rightmost maximum that is not below the size.
    return std::ranges::partition_point(maxima, [&](Bytes m) { return m >= records[i].size; }) -
           maxima.begin();
  };
  while (!left.empty()) {
    Choice best{.place = 0, .object = {}};
    for (std::size_t k = 0; k < left.size() && position(left[k]) == position(left[0]); ++k) {
      for (std::size_t object = 0; object < objects.count(); ++object) {
        if (!objects.Free(object, left[k])) continue;
        const std::uint32_t idle = objects.Idle(object, left[k]);
        const bool nearer = !best.object || idle < best.idle ||
                            (idle == best.idle && best.place == k &&
                             objects.size(object) > objects.size(*best.object));
        if (nearer) best = {.place = k, .object = object, .idle = idle};
      }
    }
    objects.Assign(left[best.place], best.object);
    left.erase(left.begin() + static_cast<std::ptrdiff_t>(best.place));
  }
  return objects.Take();
}

SharedObjectsPlan GreedyByBreadth(std::span<const UsageRecord> records) {
  const SectionMap map = MapSections(records);
  const std::vector<Bytes> breadths = Breadths(records, map);
  std::vector<std::size_t> sections(map.sections);
  std::iota(sections.begin(), sections.end(), std::size_t{0});
  std::ranges::stable_sort(sections, std::ranges::greater(),
                           [&](std::size_t s) { return breadths[s]; });
  const std::vector<std::size_t> by_size = BySize(records);
  std::vector<bool> assigned(records.size());
  Objects objects(records);
  for (const std::size_t s : sections) {
    for (const std::size_t i : by_size) {
      if (assigned[i] || s < map.spans[i].begin || s >= map.spans[i].end) continue;
      objects.Assign(i, BestObject(objects, records[i], i, true));
      assigned[i] = true;
    }
  }
  return objects.Take();
}

SharedObjectsPlan GreedyInOrder(std::span<const UsageRecord> records) {
  Objects objects(records);
  for (const std::size_t i : ByBegin(records)) {
    std::optional<std::size_t> best;
    Bytes least = Bytes::Max();
    for (std::size_t object = 0; object < objects.count(); ++object) {
      if (!objects.Free(object, i)) continue;
      const Bytes size = objects.size(object);
      const Bytes difference =
          size > records[i].size ? size - records[i].size : records[i].size - size;
      if (difference >= least) continue;
      least = difference;
      best = object;
    }
    objects.Assign(i, best);
  }
  return objects.Take();
}

// A record takes over the object of one that ended before, or opens a new one. An object is as
// large as its largest record, which the sum of growths only approaches.
SharedObjectsPlan MinCostFlow(std::span<const UsageRecord> records) {
  const std::vector<std::size_t> order = ByBegin(records);
  const std::size_t n = order.size();
  // Column k < n: the object that order[k] held; column n + k: a new one for row k alone.
  const auto cost = [&](std::size_t row, std::size_t column) -> std::optional<std::uint64_t> {
    const UsageRecord& record = records[order[row]];
    if (column >= n) {
      if (column - n != row) return std::nullopt;
      return record.size.count();
    }
    const UsageRecord& before = records[order[column]];
    if (before.live.end > record.live.begin) return std::nullopt;
    return (record.size - before.size).count();
  };
  const std::vector<std::size_t> columns = MinCostAssignment(n, 2 * n, cost);
  Objects objects(records);
  std::vector<std::size_t> object_of(n);
  for (std::size_t row = 0; row < n; ++row) {
    std::optional<std::size_t> object;
    if (columns[row] < n) object = object_of[columns[row]];
    object_of[row] = object.value_or(objects.count());
    objects.Assign(order[row], object);
  }
  return objects.Take();
}

SharedObjectsPlan Equality(std::span<const UsageRecord> records) {
  Objects objects(records);
  for (const std::size_t i : ByBegin(records)) {
    std::optional<std::size_t> same;
    for (std::size_t object = 0; object < objects.count() && !same; ++object) {
      if (objects.size(object) == records[i].size && objects.Free(object, i)) same = object;
    }
    objects.Assign(i, same);
  }
  return objects.Take();
}

}  // namespace

std::string_view Name(SharedObjectsStrategy strategy) {
  switch (strategy) {
    case SharedObjectsStrategy::kGreedyBySize:
      return "objects_greedy_by_size";
    case SharedObjectsStrategy::kGreedyBySizeImproved:
      return "objects_greedy_by_size_improved";
    case SharedObjectsStrategy::kGreedyByBreadth:
      return "objects_greedy_by_breadth";
    case SharedObjectsStrategy::kGreedyInOrder:
      return "objects_greedy_in_order";
    case SharedObjectsStrategy::kMinCostFlow:
      return "objects_min_cost_flow";
    case SharedObjectsStrategy::kEquality:
      return "objects_equality";
  }
  return "unknown";
}

SharedObjectsPlan PlanSharedObjects(std::span<const UsageRecord> records,
                                    SharedObjectsStrategy strategy) {
  switch (strategy) {
    case SharedObjectsStrategy::kGreedyBySize:
      return GreedyBySize(records);
    case SharedObjectsStrategy::kGreedyBySizeImproved:
      return GreedyBySizeImproved(records);
    case SharedObjectsStrategy::kGreedyByBreadth:
      return GreedyByBreadth(records);
    case SharedObjectsStrategy::kGreedyInOrder:
      return GreedyInOrder(records);
    case SharedObjectsStrategy::kMinCostFlow:
      return MinCostFlow(records);
    case SharedObjectsStrategy::kEquality:
      return Equality(records);
  }
  return {};
}

Bytes SharedObjectsLowerBound(std::span<const UsageRecord> records) {
  Bytes bound;
  for (const Bytes maximum : PositionalMaxima(records)) bound += maximum;
  return bound;
}

}  // namespace sluice
