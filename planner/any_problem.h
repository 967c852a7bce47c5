// planner/any_problem.h
//
// Generated planning problems for tests, fuzz targets and benchmarks.

#ifndef SLUICE_PLANNER_ANY_PROBLEM_H_
#define SLUICE_PLANNER_ANY_PROBLEM_H_

#include <algorithm>
#include <cstddef>
#include <vector>

#include "planner/joint_plan.h"
#include "planner/offset_plan.h"
#include "planner/residency.h"

namespace sluice {

struct RecordShape {
  std::size_t records_below = 40;
  std::uint64_t steps = 30;
  std::uint64_t size_below = 5000;
  std::uint64_t alignment_bits_below = 8;  // 1, 2, 4 and so on; 1 keeps all at one byte.
};

// Up to shape.records_below - 1 records with lifetimes anywhere; zero sizes happen.
template <typename Source>
std::vector<UsageRecord> AnyRecords(Source& draw, const RecordShape& shape) {
  std::vector<UsageRecord> records(draw.Below(shape.records_below));
  for (UsageRecord& record : records) {
    const std::uint64_t begin = draw.Below(shape.steps);
    const std::uint64_t length = 1 + draw.Below(shape.steps - begin);
    record.size = Bytes::Of(draw.Below(shape.size_below));
    record.live = {At<StepIndex>(begin), At<StepIndex>(begin + length)};
    record.alignment = Bytes::Of(std::uint64_t{1} << draw.Below(shape.alignment_bits_below));
  }
  return records;
}

// What an inference network looks like: each step's output lives to the next step or two, one in
// eight is kept for a later step.
template <typename Source>
std::vector<UsageRecord> AnyNetwork(Source& draw, std::size_t steps) {
  std::vector<UsageRecord> records;
  for (std::size_t i = 0; i < steps; ++i) {
    const std::size_t length = draw.Below(8) == 0 ? 3 + draw.Below(12) : 2;
    records.push_back({.size = Bytes::Of(4096 * (1 + draw.Below(64))),
                       .live = {At<StepIndex>(i), At<StepIndex>(i + length)},
                       .alignment = kBufferAlignment});
  }
  return records;
}

struct StreamProblem {
  std::vector<StepCost> steps;
  std::vector<Bytes> extents;
  ReadCost read;
  Bytes Total() const {
    Bytes total;
    for (const Bytes size : extents) total += size;
    return total;
  }
};

// One to three steps for an extent, steps without weights in between; reading takes from a quarter
// of the computing time to four times as long.
template <typename Source>
StreamProblem AnyStream(Source& draw, std::size_t extents) {
  StreamProblem problem;
  const auto step = [&](std::optional<ExtentIndex> extent) {
    problem.steps.push_back(
        {.compute = std::chrono::microseconds(draw.Below(1000)), .extent = extent});
  };
  for (std::size_t i = 0; i < extents; ++i) {
    if (draw.Below(4) == 0) step(std::nullopt);
    problem.extents.push_back(kPageSize * (1 + draw.Below(draw.Below(4) == 0 ? 256 : 32)));
    for (std::uint64_t uses = 1 + draw.Below(3); uses > 0; --uses) step(At<ExtentIndex>(i));
  }
  problem.read.latency = std::chrono::microseconds(draw.Below(100));
  problem.read.bytes_per_second = 1.0e6 * static_cast<double>(50 + draw.Below(1000));
  return problem;
}

struct AnyJoint {
  std::vector<UsageRecord> buffers;
  StreamProblem stream;
  JointProblem Problem() const {
    return {
        .buffers = buffers, .extents = stream.extents, .steps = stream.steps, .read = stream.read};
  }
};

// A stream as AnyStream makes it, with the buffers of a network: large early and small late.
template <typename Source>
AnyJoint AnyJointNetwork(Source& draw, std::size_t extents) {
  AnyJoint joint{.buffers = {}, .stream = AnyStream(draw, extents)};
  const std::size_t steps = joint.stream.steps.size();
  for (std::size_t i = 0; i < steps; ++i) {
    const std::size_t length = draw.Below(8) == 0 ? 3 + draw.Below(12) : 2;
    const std::uint64_t most = 1 + (steps - i) * 200'000 / steps;
    joint.buffers.push_back(
        {.size = Bytes::Of(draw.Below(most)),
         .live = {At<StepIndex>(i), At<StepIndex>(std::min(i + length, steps))}});
  }
  return joint;
}

}  // namespace sluice

#endif  // SLUICE_PLANNER_ANY_PROBLEM_H_
