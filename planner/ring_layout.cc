#include "planner/ring_layout.h"

#include <cstddef>

#include "base/check.h"

namespace sluice {

void RingLayout::Reset(Bytes ring) {
  ring_ = ring;
  head_ = Bytes();
  lap_ = 0;
  held_.clear();
  oldest_ = 0;
  after_.reset();
}

RingPlace RingLayout::Place(ExtentIndex extent, Bytes size) {
  SLUICE_CHECK(size <= ring_);
  if (head_ + size > ring_) {
    head_ = Bytes();
    ++lap_;
  }
  const Bytes end = head_ + size;
  // What lies ahead of the head is from one lap ago, in order; two laps ago is under the tail that
  // the last lap skipped.
  const auto in_the_way = [this, end](const Held& held) {
    return held.lap + 1 < lap_ || (held.lap + 1 == lap_ && held.offset < end);
  };
  while (oldest_ < held_.size() && in_the_way(held_[oldest_])) after_ = held_[oldest_++].extent;
  const RingPlace place{.offset = head_, .after = after_};
  held_.push_back({.extent = extent, .offset = head_, .lap = lap_});
  head_ = end;
  return place;
}

std::vector<std::optional<RingPlace>> LayOutRing(std::span<const Bytes> extents,
                                                 const std::vector<bool>& resident, Bytes ring) {
  SLUICE_CHECK(resident.size() == extents.size());
  std::vector<std::optional<RingPlace>> places(extents.size());
  RingLayout layout(ring);
  for (std::size_t i = 0; i < extents.size(); ++i) {
    if (!resident[i]) places[i] = layout.Place(At<ExtentIndex>(i), extents[i]);
  }
  return places;
}

}  // namespace sluice
