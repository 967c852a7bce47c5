#include "planner/offset_plan.h"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <utility>

#include "planner/occupancy.h"
#include "planner/offset_improvement.h"
#include "planner/offset_order.h"
#include "planner/section_map.h"
#include "planner/strip_packing.h"

namespace sluice {
namespace {

OffsetPlan NoPlan(std::span<const UsageRecord> records) {
  return {.offsets = std::vector<Bytes>(records.size()), .height = Bytes::Max()};
}

OffsetPlan PlaceAll(std::span<const UsageRecord> records, const SectionMap& map,
                    std::span<const std::size_t> order) {
  std::uint64_t work = 0;
  return *PlaceInOrder(records, map, order, Occupancy::Fit::kBest, {.work = ~std::uint64_t{0}},
                       work);
}

}  // namespace

bool PassesAllMemory(std::span<const UsageRecord> records) {
  Bytes total;
  for (const UsageRecord& record : records) {
    if (record.size == Bytes()) continue;
    total += record.size + record.alignment + record.fixed.value_or(Bytes());
  }
  return total > Bytes::Of(std::uint64_t{1} << 62);
}

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
    case OffsetStrategy::kGreedyByUrgency:
      return "greedy_by_urgency";
    case OffsetStrategy::kGreedyInOrder:
      return "greedy_in_order";
    case OffsetStrategy::kStripPacking:
      return "strip_packing";
  }
  return "unknown";
}

OffsetPlan PlaceInOrder(std::span<const UsageRecord> records, std::span<const std::size_t> order) {
  if (PassesAllMemory(records)) return NoPlan(records);
  return PlaceAll(records, MapSections(records), order);
}

OffsetPlan PlanOffsets(std::span<const UsageRecord> records, OffsetStrategy strategy) {
  return *TryPlanOffsets(records, strategy, {.work = ~std::uint64_t{0}});
}

std::optional<OffsetPlan> TryPlanOffsets(std::span<const UsageRecord> records,
                                         OffsetStrategy strategy, const PlanLimits& limits) {
  if (PassesAllMemory(records)) return NoPlan(records);
  const bool fixed =
      std::ranges::any_of(records, [](const UsageRecord& r) { return r.fixed.has_value(); });
  if (strategy == OffsetStrategy::kStripPacking && !fixed) return PackStrip(records);
  const SectionMap map = MapSections(records);
  std::uint64_t work = 0;
  return PlaceInOrder(records, map, PlacementOrder(records, map, strategy), Occupancy::Fit::kBest,
                      limits, work);
}

CertifiedPlan CertifyOffsets(std::span<const UsageRecord> records, OffsetPlan start,
                             const PlanLimits& limits) {
  const Bytes bound = OffsetLowerBound(records);
  CertifiedPlan best{.plan = std::move(start), .bound = bound};
  if (best.plan.height > bound && best.plan.height != Bytes::Max()) {
    best = ImproveOffsets(records, best.plan, bound, limits);
  }
  if (best.plan.height <= bound) {
    best.certificate = Certificate::kMeetsBound;
  } else if (best.plan.height <= best.bound) {
    best.certificate = Certificate::kProvenOptimal;
  }
  return best;
}

CertifiedPlan PlanOffsets(std::span<const UsageRecord> records, const PlanLimits& limits) {
  const Bytes bound = OffsetLowerBound(records);
  OffsetPlan best = PlanOffsets(records, kOffsetStrategies[0]);
  for (const OffsetStrategy strategy : std::span(kOffsetStrategies).subspan(1)) {
    if (best.height <= bound || best.height == Bytes::Max() || (limits.stop && limits.stop())) {
      break;
    }
    OffsetPlan plan = PlanOffsets(records, strategy);
    if (plan.height < best.height) best = std::move(plan);
  }
  return CertifyOffsets(records, std::move(best), limits);
}

OffsetPlan PlanOffsets(std::span<const UsageRecord> records) {
  return PlanOffsets(records, PlanLimits()).plan;
}

Bytes OffsetLowerBound(std::span<const UsageRecord> records) {
  if (records.empty()) return {};
  Bytes alignment = Bytes::Max(), padding;
  for (const UsageRecord& record : records) alignment = std::min(alignment, record.alignment);
  // Whatever lies on a record starts at a multiple of the least alignment.
  std::vector<UsageRecord> padded(records.begin(), records.end());
  for (UsageRecord& record : padded) {
    const Bytes size = AlignUp(record.size, alignment);
    padding = std::max(padding, size - record.size);
    record.size = size;
  }
  return std::max(LargestBreadth(records), LargestBreadth(padded) - padding);
}

}  // namespace sluice
