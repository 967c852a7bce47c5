// streamer/extent_stream.h
//
// Reads extents in the order of need, as far ahead as the ring allows, and verifies them: what the
// reader thread does, without the thread, so that a simulated disk can drive it.
//
//   targets   | verified, released | verified, in use | being read ->      | not issued |
//             0                released            ready              issued
//
// Large extents are cut into pieces of `read_size` that are in flight together. Pieces complete in
// any order; the checksum of an extent is computed piece by piece in order, while later pieces are
// still under way, so `ready` grows in order.
//
// Places in the ring are the planner's (ring_layout.h): they depend on sizes alone, and a read goes
// out when all that lay there before has been released.
//
// Threads: one at a time. Allocates in Reserve, and when it makes the text of an error.

#ifndef SLUICE_STREAMER_EXTENT_STREAM_H_
#define SLUICE_STREAMER_EXTENT_STREAM_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "base/bytes.h"
#include "base/clock.h"
#include "base/histogram.h"
#include "base/ids.h"
#include "engine/weight_encoding.h"
#include "planner/ring_layout.h"
#include "streamer/block_device.h"
#include "streamer/checksum.h"

namespace sluice {

// One extent that is wanted.
struct ExtentTarget {
  ExtentIndex extent{};
  Bytes offset;                // In the file.
  Bytes size;                  // Of its place in memory: whole pages.
  Bytes stored;                // In the file: whole pages, at most as many.
  std::uint64_t checksum = 0;  // Of the stored pages.
  std::byte* into = nullptr;   // Page aligned; null: the stream chooses a place in the ring.
  // What is widened once it is verified, and the bytes of payload that this makes. Where there is
  // anything, the stored pages are read into the end of the place.
  std::span<const EncodedRun> runs = {};
  Bytes payload = {};
};

// One run over a file. Everything is borrowed until the stream is done or drained.
struct StreamJob {
  int fd = -1;
  std::string_view name;         // Of the file, for errors.
  bool drop_page_cache = false;  // Where reads pass through it.
  std::span<const ExtentTarget> targets;
  std::span<std::byte> ring;  // Page aligned; at least the largest target without a place.
};

struct StreamCounters {
  std::size_t reads = 0;  // Completed.
  Bytes read;             // By them; a damaged extent counts again.
};

// All reads since the start. Threads: readable at any time.
struct StorageStatistics {
  std::atomic<std::uint64_t> read_bytes{0};
  DurationHistogram read_duration;  // Of one read, from submit to completion.
};

class ExtentStream {
 public:
  // Borrows the device and, unless null, the statistics. Requires: read_size of at least a page.
  ExtentStream(BlockDevice& device, Bytes read_size, StorageStatistics* statistics = nullptr);
  ExtentStream(const ExtentStream&) = delete;
  ExtentStream& operator=(const ExtentStream&) = delete;

  // Makes room, so that Begin with as many targets or fewer and as many bytes allocates nothing.
  void Reserve(std::size_t targets, Bytes bytes);

  // Requires: nothing in flight.
  void Begin(const StreamJob& job);

  // The targets [0, count) are no longer needed: their place in the ring is free. `count` never
  // shrinks and is at most ready(). True when it grew.
  bool Release(std::size_t count);

  // One turn: issues what can be issued, verifies at most one piece, and takes completions; waits
  // up to `wait` for one when there is nothing else to do.
  // Fails: DATA_LOSS, an extent does not match its checksum twice or the file is too short;
  //        UNAVAILABLE, reads fail. The stream goes no further then, and must be drained.
  absl::Status Turn(Duration wait);

  // Waits until no read is in flight and issues no more.
  void Drain();

  std::size_t ready() const { return ready_; }
  bool done() const { return ready_ == targets_.size(); }
  std::size_t in_flight() const { return in_flight_; }
  // Where a target's bytes are. Requires: target < ready().
  const std::byte* address(std::size_t target) const { return targets_[target].into; }
  // True when only Release lets it go on: no read in flight, nothing left to verify.
  bool blocked() const;
  // True when the next extent waits for room in the ring.
  bool waits_for_room() const {
    return issue_target_ < targets_.size() && targets_[issue_target_].after > released_;
  }
  const StreamCounters& counters() const { return counters_; }

 private:
  struct Target {
    ExtentIndex extent{};
    Bytes offset, size, stored;
    std::uint64_t checksum = 0;
    std::byte* into = nullptr;
    std::span<const EncodedRun> runs;
    Bytes payload;
    std::byte* read_into() const { return into + (size - stored).count(); }
    std::size_t after = 0;        // Targets that must be released before it is read.
    bool read_again = false;      // After a first mismatch.
    std::size_t first_piece = 0;  // In done_.
    std::size_t pieces = 0;
  };
  // A piece in flight, or waiting to be submitted again.
  struct Request {
    bool active = false;
    bool submitted = false;
    std::size_t target = 0, piece = 0;
    Bytes begin, end;  // What is missing, counted from the extent's start.
    Instant submitted_at{};
    int failures = 0;
    int scraps = 0;  // Reads of less than a page.
  };

  std::size_t Pieces(Bytes size) const;
  Request* FreeRequest();
  bool Submit(std::size_t slot);
  void Issue();
  bool IssuePiece(std::size_t target, std::size_t piece);
  absl::Status Verify(bool& worked);
  absl::Status FinishTarget(Target& target);
  absl::Status Complete(const Completion& completion);
  absl::Status Failure(const Request& request, int error) const;

  BlockDevice& device_;
  const Bytes read_size_;
  StorageStatistics* const statistics_;
  StreamJob job_;
  RingLayout ring_{Bytes()};
  std::vector<Target> targets_;
  std::size_t reserved_ = 0;        // Targets.
  std::vector<std::uint8_t> done_;  // By piece.
  std::vector<Request> requests_;   // As many as the device's queue is deep; a tag is an index.
  std::vector<Completion> completions_;
  std::size_t in_flight_ = 0;
  std::size_t issue_target_ = 0, issue_piece_ = 0;  // The next piece that was never read.
  std::optional<std::size_t> again_piece_;          // Of target `ready_`, when it is read again.
  std::size_t ready_ = 0, verified_pieces_ = 0;     // Pieces of target `ready_`.
  std::size_t released_ = 0;
  RunningChecksum checksum_;
  StreamCounters counters_;
};

}  // namespace sluice

#endif  // SLUICE_STREAMER_EXTENT_STREAM_H_
