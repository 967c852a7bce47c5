// engine/kernels/reduce_groups.h
//
// How a reduction walks its input: runs of dimensions that are all reduced, or all kept.

#ifndef SLUICE_ENGINE_KERNELS_REDUCE_GROUPS_H_
#define SLUICE_ENGINE_KERNELS_REDUCE_GROUPS_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "model/operation.h"

namespace sluice::kernels {

struct Group {
  bool reduced;
  std::size_t size, stride;  // In elements of the input.
};

// Outermost first, without dimensions of one element.
inline std::vector<Group> GroupsOf(const Reduce& operation, std::span<const std::int64_t> shape) {
  std::vector<Group> groups;
  for (std::size_t d = 0; d < shape.size(); ++d) {
    const bool reduced =
        std::ranges::find(operation.axes, static_cast<std::int64_t>(d)) != operation.axes.end();
    const auto size = static_cast<std::size_t>(shape[d]);
    if (size == 1) continue;
    if (!groups.empty() && groups.back().reduced == reduced) {
      groups.back().size *= size;
    } else {
      groups.push_back({reduced, size, 0});
    }
  }
  std::size_t stride = 1;
  for (std::size_t g = groups.size(); g-- > 0;) {
    groups[g].stride = stride;
    stride *= groups[g].size;
  }
  return groups;
}

inline std::size_t CountOf(const std::vector<Group>& groups) {
  std::size_t count = 1;
  for (const Group& group : groups) count *= group.size;
  return count;
}

// Where the `i`-th combination of the groups' positions starts.
inline std::size_t StartOf(const std::vector<Group>& groups, std::size_t i) {
  std::size_t start = 0;
  for (std::size_t g = groups.size(); g-- > 0;) {
    start += i % groups[g].size * groups[g].stride;
    i /= groups[g].size;
  }
  return start;
}

}  // namespace sluice::kernels

#endif  // SLUICE_ENGINE_KERNELS_REDUCE_GROUPS_H_
