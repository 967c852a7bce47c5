#include "streamer/sim_disk.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "base/check.h"

namespace sluice {
namespace {

constexpr std::byte kGarbage{0xDB};

}  // namespace

SimDisk::SimDisk(std::vector<std::byte> contents, const Options& options)
    : options_(options), contents_(std::move(contents)), random_(options.seed) {
  flights_.reserve(options.queue_depth);
}

SimDisk::SimDisk(const Options& options) : SimDisk({}, options) { from_file_ = true; }

bool SimDisk::TrySubmit(const Read& read) {
  if (flights_.size() == options_.queue_depth || Chance(options_.refuse_percent)) return false;
  SLUICE_CHECK(read.offset.count() % kPageSize.count() == 0);
  SLUICE_CHECK(read.into.size() % kPageSize.count() == 0);
  SLUICE_CHECK(reinterpret_cast<std::uintptr_t>(read.into.data()) % kPageSize.count() == 0);
  std::ranges::fill(read.into, kGarbage);
  const auto latest = static_cast<std::uint64_t>(options_.latency_max.count());
  const auto latency = static_cast<Duration::rep>(random_() % (latest + 1));
  flights_.push_back({.read = read, .due = clock_.Now() + Duration(latency)});
  return true;
}

std::size_t SimDisk::Reap(std::span<Completion> out, Duration wait) {
  const Instant until = clock_.Now() + wait;
  const auto first = std::ranges::min_element(flights_, {}, &Flight::due);
  if (woken_.exchange(false)) {
    // Whoever was woken looks around first; what is due stays due.
    return 0;
  }
  if (first == flights_.end() || first->due > until) {
    clock_.Advance(wait);
    return 0;
  }
  if (first->due > clock_.Now()) clock_.Advance(first->due - clock_.Now());
  std::ranges::shuffle(flights_, random_);
  std::size_t count = 0;
  for (std::size_t i = 0; i < flights_.size() && count < out.size();) {
    if (flights_[i].due > clock_.Now()) {
      ++i;
      continue;
    }
    const Read read = flights_[i].read;
    flights_[i] = flights_.back();
    flights_.pop_back();
    out[count++] = {.tag = read.tag, .result = Land(read)};
  }
  return count;
}

std::vector<std::span<const std::byte>> SimDisk::targets() const {
  std::vector<std::span<const std::byte>> targets;
  for (const Flight& flight : flights_) targets.push_back(flight.read.into);
  return targets;
}

std::size_t SimDisk::Fetch(const Read& read, std::size_t size) {
  if (from_file_) {
    const ssize_t got =
        ::pread(read.fd, read.into.data(), size, static_cast<off_t>(read.offset.count()));
    return got < 0 ? 0 : static_cast<std::size_t>(got);
  }
  const std::size_t offset = std::min<std::size_t>(read.offset.count(), contents_.size());
  const std::size_t got = std::min(size, contents_.size() - offset);
  std::copy_n(contents_.begin() + static_cast<std::ptrdiff_t>(offset), got, read.into.begin());
  return got;
}

int SimDisk::Land(const Read& read) {
  if (Chance(options_.eio_percent)) return -EIO;
  std::size_t size = read.into.size();
  if (Chance(options_.short_read_percent)) size = 1 + random_() % size;
  // Direct reads of a file take whole pages; what lies beyond the shortened end is garbage again.
  const std::size_t whole = (size + kPageSize.count() - 1) & ~(kPageSize.count() - 1);
  const std::size_t got = std::min(Fetch(read, whole), size);
  std::ranges::fill(read.into.subspan(got), kGarbage);
  if (got > 0 && Chance(options_.flip_percent)) {
    read.into[random_() % got] ^= static_cast<std::byte>(1u << (random_() % 8));
  }
  return static_cast<int>(got);
}

}  // namespace sluice
