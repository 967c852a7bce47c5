#include "planner/offset_check.h"

#include <cstddef>
#include <cstdint>

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

bool Meet(const Box& a, const Box& b) {
  const bool apart_in_time = a.end_step <= b.first_step || b.end_step <= a.first_step;
  const bool apart_in_space = a.end_byte <= b.first_byte || b.end_byte <= a.first_byte;
  const bool empty = a.first_byte == a.end_byte || b.first_byte == b.end_byte;
  return !apart_in_time && !apart_in_space && !empty;
}

}  // namespace

absl::Status CheckOffsets(std::span<const UsageRecord> records, const OffsetPlan& plan) {
  if (plan.offsets.size() != records.size()) {
    return absl::InternalError(
        absl::StrFormat("plan has %d offsets for %d records", plan.offsets.size(), records.size()));
  }
  std::uint64_t highest = 0;
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
    if (box.end_byte > highest) highest = box.end_byte;
    for (std::size_t j = 0; j < i; ++j) {
      const Box other = BoxOf(records[j], plan.offsets[j]);
      if (!Meet(box, other)) continue;
      return absl::InternalError(absl::StrFormat(
          "records %d and %d share bytes: [%d, %d) during steps [%d, %d), [%d, %d) during [%d, %d)",
          j, i, other.first_byte, other.end_byte, other.first_step, other.end_step, box.first_byte,
          box.end_byte, box.first_step, box.end_step));
    }
  }
  if (plan.height.count() != highest) {
    return absl::InternalError(
        absl::StrFormat("height is %d, the highest end %d", plan.height.count(), highest));
  }
  return absl::OkStatus();
}

}  // namespace sluice
