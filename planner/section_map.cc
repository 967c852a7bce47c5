#include "planner/section_map.h"

#include <algorithm>
#include <numeric>

#include "base/check.h"

namespace sluice {

std::size_t SectionMap::Incidences() const {
  return std::accumulate(
      spans.begin(), spans.end(), std::size_t{0},
      [](std::size_t sum, const SectionRange& span) { return sum + span.length(); });
}

SectionMap MapSections(std::span<const UsageRecord> records) {
  std::vector<StepIndex> edges;
  edges.reserve(2 * records.size());
  for (const UsageRecord& record : records) {
    SLUICE_CHECK(record.live.begin < record.live.end);
    edges.push_back(record.live.begin);
    edges.push_back(record.live.end);
  }
  std::ranges::sort(edges);
  edges.erase(std::unique(edges.begin(), edges.end()), edges.end());
  const auto edge_at = [&edges](StepIndex step) {
    return static_cast<std::size_t>(std::ranges::lower_bound(edges, step) - edges.begin());
  };
  std::vector<bool> starts(edges.size()), ends(edges.size());
  for (const UsageRecord& record : records) {
    starts[edge_at(record.live.begin)] = true;
    ends[edge_at(record.live.end)] = true;
  }
  // A set is maximal when the last thing that happened was a start and the next one is an end.
  SectionMap map;
  std::vector<std::uint32_t> section_at(edges.size());  // The first section at the edge or later.
  bool grown = false;
  for (std::size_t i = 0; i < edges.size(); ++i) {
    section_at[i] = static_cast<std::uint32_t>(map.sections);
    grown = grown || starts[i];
    if (grown && i + 1 < edges.size() && ends[i + 1]) {
      ++map.sections;
      grown = false;
    }
  }
  map.spans.reserve(records.size());
  for (const UsageRecord& record : records) {
    map.spans.push_back(
        {section_at[edge_at(record.live.begin)], section_at[edge_at(record.live.end)]});
  }
  return map;
}

std::vector<Bytes> Breadths(std::span<const UsageRecord> records, const SectionMap& map) {
  std::vector<Bytes> starting(map.sections + 1), ending(map.sections + 1), breadths;
  for (std::size_t i = 0; i < records.size(); ++i) {
    starting[map.spans[i].begin] += records[i].size;
    ending[map.spans[i].end] += records[i].size;
  }
  breadths.reserve(map.sections);
  Bytes live;
  for (std::size_t s = 0; s < map.sections; ++s) {
    live -= ending[s];
    live += starting[s];
    breadths.push_back(live);
  }
  return breadths;
}

Bytes LargestBreadth(std::span<const UsageRecord> records) {
  Bytes largest;
  for (const Bytes breadth : Breadths(records, MapSections(records))) {
    largest = std::max(largest, breadth);
  }
  return largest;
}

std::vector<std::vector<std::size_t>> Components(const SectionMap& map) {
  std::vector<std::size_t> order(map.spans.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, {}, [&map](std::size_t i) { return map.spans[i].begin; });
  std::vector<std::vector<std::size_t>> components;
  std::uint32_t end = 0;
  for (const std::size_t i : order) {
    if (components.empty() || map.spans[i].begin >= end) components.emplace_back();
    components.back().push_back(i);
    end = std::max(end, map.spans[i].end);
  }
  return components;
}

}  // namespace sluice
