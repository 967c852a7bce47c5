// planner/ring_layout.h
//
// Where each streamed extent lies in the ring, and what must have finished before its read may be
// issued. The ring is first-in first-out and an extent never wraps around its end; places depend
// on sizes alone, never on timing, so that planning and running agree.
//
//   ring   |  e0  | e1 |   e2   | - |     e3 does not fit behind e2: the tail is skipped,
//          |  e3    |...                  and e3 waits for e0 and e1.
//
// Threads: pure functions, callable from anywhere.

#ifndef SLUICE_PLANNER_RING_LAYOUT_H_
#define SLUICE_PLANNER_RING_LAYOUT_H_

#include <cstddef>
#include <optional>
#include <span>
#include <vector>

#include "base/bytes.h"
#include "base/ids.h"

namespace sluice {

struct RingPlace {
  Bytes offset;  // From the ring's start; [offset, offset + size) lies within the ring.
  // The read may be issued when the last step of this extent, and so of all before it, has
  // finished. Empty: at once.
  std::optional<ExtentIndex> after;
};

// Hands out places in order of need.
class RingLayout {
 public:
  explicit RingLayout(Bytes ring) : ring_(ring) {}

  // An empty ring of another size; keeps the memory that it has.
  void Reset(Bytes ring);

  // Requires: size <= ring; `extent` comes after those placed before.
  RingPlace Place(ExtentIndex extent, Bytes size);

 private:
  struct Held {
    ExtentIndex extent;
    Bytes offset;
    std::size_t lap;
  };
  Bytes ring_;
  Bytes head_;           // Where the next extent starts if it fits before the end.
  std::size_t lap_ = 0;  // How often the head went back to the start.
  std::vector<Held> held_;
  std::size_t oldest_ = 0;  // In held_: the first whose bytes are not taken again.
  std::optional<ExtentIndex> after_;
};

// By extent; empty for resident ones.
// Requires: ring >= largest extent that is not resident; resident.size() == extents.size().
std::vector<std::optional<RingPlace>> LayOutRing(std::span<const Bytes> extents,
                                                 const std::vector<bool>& resident, Bytes ring);

}  // namespace sluice

#endif  // SLUICE_PLANNER_RING_LAYOUT_H_
