#include "planner/joint_check.h"

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "absl/strings/str_format.h"

namespace sluice {
namespace {

// Bytes [low, high) taken during steps [from, until).
struct Box {
  std::string_view kind;
  std::size_t index;
  std::uint64_t low, high, alignment;
  std::size_t from, until;
};

absl::StatusOr<Box> BoxOfExtent(const JointProblem& problem, const JointPlan& plan, std::size_t k) {
  const PlannedExtent& extent = plan.extents[k];
  Box box{.kind = "extent",
          .index = k,
          .low = extent.offset.count(),
          .high = extent.offset.count() + problem.extents[k].count(),
          .alignment = kPageSize.count(),
          .from = extent.gate ? static_cast<std::size_t>(*extent.gate) + 1 : 0,
          .until = 0};
  std::size_t first = problem.steps.size();
  for (std::size_t t = problem.steps.size(); t-- > 0;) {
    if (problem.steps[t].extent != At<ExtentIndex>(k)) continue;
    if (box.until == 0) box.until = t + 1;
    first = t;
  }
  if (box.from > first) {
    return absl::InternalError(absl::StrFormat(
        "extent %d: its gate is step %d, the first step that needs it %d", k, box.from - 1, first));
  }
  return box;
}

absl::Status CheckPlace(const Box& box, Bytes arena) {
  if (box.high < box.low || box.high > arena.count()) {
    return absl::InternalError(absl::StrFormat("%s %d: bytes [%d, %d) in an arena of %d", box.kind,
                                               box.index, box.low, box.high, arena.count()));
  }
  if (box.low % box.alignment != 0) {
    return absl::InternalError(absl::StrFormat("%s %d: offset %d is no multiple of %d", box.kind,
                                               box.index, box.low, box.alignment));
  }
  return absl::OkStatus();
}

absl::Status CheckApart(const Box& a, const Box& b) {
  if (a.low == a.high || b.low == b.high) return absl::OkStatus();
  if (a.until <= b.from || b.until <= a.from) return absl::OkStatus();
  if (a.high <= b.low || b.high <= a.low) return absl::OkStatus();
  return absl::InternalError(absl::StrFormat(
      "%s %d and %s %d share bytes: [%d, %d) during steps [%d, %d), [%d, %d) during [%d, %d)",
      a.kind, a.index, b.kind, b.index, a.low, a.high, a.from, a.until, b.low, b.high, b.from,
      b.until));
}

absl::Status CheckSums(const JointProblem& problem, const JointPlan& plan) {
  std::uint64_t resident = 0, streamed = 0;
  for (std::size_t k = 0; k < problem.extents.size(); ++k) {
    (plan.extents[k].resident ? resident : streamed) += problem.extents[k].count();
  }
  if (plan.resident_bytes.count() != resident || plan.read_bytes.count() != streamed) {
    return absl::InternalError(
        absl::StrFormat("plan says %d bytes resident and %d read, they are %d and %d",
                        plan.resident_bytes.count(), plan.read_bytes.count(), resident, streamed));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckJointPlan(const JointProblem& problem, const JointPlan& plan) {
  if (plan.buffer_offsets.size() != problem.buffers.size() ||
      plan.extents.size() != problem.extents.size()) {
    return absl::InternalError(absl::StrFormat(
        "plan has %d buffers and %d extents, the problem %d and %d", plan.buffer_offsets.size(),
        plan.extents.size(), problem.buffers.size(), problem.extents.size()));
  }
  std::vector<Box> boxes;
  for (std::size_t i = 0; i < problem.buffers.size(); ++i) {
    const UsageRecord& buffer = problem.buffers[i];
    const std::uint64_t low = plan.buffer_offsets[i].count();
    boxes.push_back({.kind = "buffer",
                     .index = i,
                     .low = low,
                     .high = low + buffer.size.count(),
                     .alignment = buffer.alignment.count(),
                     .from = static_cast<std::size_t>(buffer.live.begin),
                     .until = static_cast<std::size_t>(buffer.live.end)});
  }
  for (std::size_t k = 0; k < problem.extents.size(); ++k) {
    if (plan.extents[k].resident) continue;
    absl::StatusOr<Box> box = BoxOfExtent(problem, plan, k);
    if (!box.ok()) return box.status();
    boxes.push_back(*box);
  }
  for (std::size_t i = 0; i < boxes.size(); ++i) {
    absl::Status right = CheckPlace(boxes[i], plan.arena);
    for (std::size_t j = 0; right.ok() && j < i; ++j) right = CheckApart(boxes[j], boxes[i]);
    if (!right.ok()) return right;
  }
  return CheckSums(problem, plan);
}

}  // namespace sluice
