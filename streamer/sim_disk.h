// streamer/sim_disk.h
//
// A disk for tests, with a clock of its own: it delays, reorders and shortens reads, fails some,
// damages some on the way, refuses some while its queue is not full, and is the same again for the
// same seed. Time moves only in Reap, when there is nothing to hand out; nobody sleeps.
//
// While a read is in flight its memory holds garbage, as with a real disk, which may write at any
// moment between submission and completion.

#ifndef SLUICE_STREAMER_SIM_DISK_H_
#define SLUICE_STREAMER_SIM_DISK_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <random>
#include <span>
#include <vector>

#include "base/bytes.h"
#include "base/clock.h"
#include "streamer/block_device.h"

namespace sluice {

// Time that moves when it is told to. Threads: callable from anywhere.
class SimClock final : public Clock {
 public:
  Instant Now() const override { return Instant(Duration(now_.load())); }
  void Advance(Duration by) { now_ += by.count(); }

 private:
  std::atomic<Duration::rep> now_{0};
};

class SimDisk final : public BlockDevice {
 public:
  struct Options {
    std::uint64_t seed = 0;
    unsigned short_read_percent = 0;
    unsigned eio_percent = 0;
    unsigned flip_percent = 0;    // One bit of what was read is wrong; not so when read again.
    unsigned refuse_percent = 0;  // TrySubmit says that the queue is full.
    Duration latency_max{};
    std::size_t queue_depth = 4;
  };

  // Reads come from `contents`, whatever their file.
  SimDisk(std::vector<std::byte> contents, const Options& options);
  // Reads come from their file.
  explicit SimDisk(const Options& options);

  std::string_view name() const override { return "simulator"; }
  std::size_t queue_depth() const override { return options_.queue_depth; }
  bool TrySubmit(const Read& read) override;
  std::size_t Reap(std::span<Completion> out, Duration wait) override;
  void Wake() override { woken_ = true; }
  void RegisterMemory(std::span<std::byte>) override {}

  SimClock& clock() { return clock_; }
  std::span<const std::byte> contents() const { return contents_; }
  std::size_t in_flight() const { return flights_.size(); }
  // Where reads are in flight to.
  std::vector<std::span<const std::byte>> targets() const;

 private:
  struct Flight {
    Read read;
    Instant due;
  };

  bool Chance(unsigned percent) { return random_() % 100 < percent; }
  int Land(const Read& read);
  std::size_t Fetch(const Read& read, std::size_t size);

  const Options options_;
  std::vector<std::byte> contents_;
  bool from_file_ = false;
  std::mt19937_64 random_;
  SimClock clock_;
  std::vector<Flight> flights_;
  std::atomic<bool> woken_{false};
};

}  // namespace sluice

#endif  // SLUICE_STREAMER_SIM_DISK_H_
