#include "planner/offset_check.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <vector>

#include "absl/strings/str_format.h"

namespace sluice {
namespace {

struct Box {
  std::uint64_t first_byte, end_byte;
  std::uint32_t first_step, end_step;
};

Box BoxOf(const UsageRecord& record, Bytes offset) {
  return {offset.count(), offset.count() + record.size.count(),
          static_cast<std::uint32_t>(record.live.begin),
          static_cast<std::uint32_t>(record.live.end)};
}

// Walks through time with the boxes that are alive, which lie apart as long as all is well: then a
// box that comes can meet only its neighbours.
absl::Status CheckApart(const std::vector<Box>& boxes) {
  std::vector<std::size_t> coming, going;
  for (std::size_t i = 0; i < boxes.size(); ++i) {
    if (boxes[i].first_byte < boxes[i].end_byte) coming.push_back(i);
  }
  going = coming;
  std::ranges::stable_sort(coming, {}, [&](std::size_t i) { return boxes[i].first_step; });
  std::ranges::stable_sort(going, {}, [&](std::size_t i) { return boxes[i].end_step; });
  std::map<std::uint64_t, std::size_t> alive;  // By first byte.
  auto gone = going.begin();
  for (const std::size_t i : coming) {
    const Box& box = boxes[i];
    for (; gone != going.end() && boxes[*gone].end_step <= box.first_step; ++gone) {
      alive.erase(boxes[*gone].first_byte);
    }
    auto met = alive.lower_bound(box.first_byte);
    if (met == alive.end() || boxes[met->second].first_byte >= box.end_byte) {
      if (met == alive.begin() || boxes[(--met)->second].end_byte <= box.first_byte) {
        alive.emplace(box.first_byte, i);
        continue;
      }
    }
    const Box& other = boxes[met->second];
    return absl::InternalError(absl::StrFormat(
        "records %d and %d share bytes: [%d, %d) during steps [%d, %d), [%d, %d) during [%d, %d)",
        met->second, i, other.first_byte, other.end_byte, other.first_step, other.end_step,
        box.first_byte, box.end_byte, box.first_step, box.end_step));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckOffsets(std::span<const UsageRecord> records, const OffsetPlan& plan) {
  if (plan.offsets.size() != records.size()) {
    return absl::InternalError(
        absl::StrFormat("plan has %d offsets for %d records", plan.offsets.size(), records.size()));
  }
  std::uint64_t highest = 0;
  std::vector<Box> boxes;
  for (std::size_t i = 0; i < records.size(); ++i) {
    const Box box = BoxOf(records[i], plan.offsets[i]);
    if (box.end_byte < box.first_byte) {
      return absl::InternalError(absl::StrFormat("record %d: offset %d with size %d passes 2^64", i,
                                                 box.first_byte, records[i].size.count()));
    }
    if (box.first_byte % records[i].alignment.count() != 0) {
      return absl::InternalError(absl::StrFormat("record %d: offset %d is no multiple of %d", i,
                                                 box.first_byte, records[i].alignment.count()));
    }
    const bool empty = box.first_byte == box.end_byte;
    if (records[i].fixed && !empty && box.first_byte != records[i].fixed->count()) {
      return absl::InternalError(absl::StrFormat("record %d: offset %d, fixed at %d", i,
                                                 box.first_byte, records[i].fixed->count()));
    }
    if (box.end_byte > highest) highest = box.end_byte;
    boxes.push_back(box);
  }
  absl::Status apart = CheckApart(boxes);
  if (!apart.ok()) return apart;
  if (plan.height.count() != highest) {
    return absl::InternalError(
        absl::StrFormat("height is %d, the highest end %d", plan.height.count(), highest));
  }
  return absl::OkStatus();
}

}  // namespace sluice
