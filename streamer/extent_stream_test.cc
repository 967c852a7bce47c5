// The reader's stream on a simulated disk: 300 disks, each another kind of bad.

#include "streamer/extent_stream.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <random>
#include <string>
#include <vector>

#include "streamer/checksum.h"
#include "streamer/page_memory.h"
#include "streamer/sim_disk.h"
#include "streamer/testing/sum_program.h"
#include "streamer/testing/test_package.h"

namespace sluice {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::HasSubstr;

constexpr Duration kPatience = seconds(60);  // Simulated.
constexpr std::byte kFreed{0xEE};

// A file of extents, and the targets that read it.
struct Case {
  std::vector<std::byte> file;
  std::vector<ExtentTarget> targets;
  Bytes largest;

  std::span<const std::byte> Contents(std::size_t target) const {
    return std::span(file).subspan(targets[target].offset.count(), targets[target].size.count());
  }
};

Case AnyCase(std::uint64_t seed) {
  std::mt19937_64 random(seed);
  Case made;
  for (const Bytes size : AnyExtents(seed, 1 + random() % 24, 64_KiB)) {
    const Bytes whole = random() % 20 == 0 ? Bytes() : AlignUp(size, kPageSize);
    made.targets.push_back({.extent = At<ExtentIndex>(made.targets.size()),
                            .offset = Bytes::Of(made.file.size()),
                            .size = whole,
                            .stored = whole});
    made.file.resize(made.file.size() + whole.count());
    made.largest = std::max(made.largest, whole);
  }
  made.file = AnyBytes(seed, made.file.size());
  for (std::size_t i = 0; i < made.targets.size(); ++i) {
    made.targets[i].checksum = Checksum(made.Contents(i));
  }
  return made;
}

SimDisk::Options AnyDisk(std::uint64_t seed) {
  std::mt19937_64 random(seed + 1'000'000);
  return {.seed = seed,
          .short_read_percent = random() % 2 == 0 ? 30u : 0u,
          .eio_percent = random() % 3 == 0 ? 1u : 0u,
          .flip_percent = random() % 3 == 0 ? 2u : 0u,
          .refuse_percent = random() % 3 == 0 ? 20u : 0u,
          .latency_max = milliseconds(random() % 6),
          .queue_depth = 1 + random() % 8};
}

bool Overlap(std::span<const std::byte> a, std::span<const std::byte> b) {
  return a.data() < b.data() + b.size() && b.data() < a.data() + a.size();
}

// Plays the computing side: uses extents for some simulated time each, checks them before and
// after, and poisons what it gives back.
class Harness {
 public:
  Harness(const Case& wanted, const SimDisk::Options& options, Bytes ring, Bytes read_size,
          std::uint64_t seed)
      : case_(wanted),
        ring_(PageMemory::Map(ring).value()),
        disk_(wanted.file, options),
        stream_(disk_, read_size),
        random_(seed) {}

  absl::Status StreamAll() {
    stream_.Reserve(case_.targets.size(), Bytes::Of(case_.file.size()));
    stream_.Begin({.fd = 3,
                   .name = "p.sluice",
                   .drop_page_cache = false,
                   .targets = case_.targets,
                   .ring = ring_.span()});
    Instant last_progress = disk_.clock().Now();
    std::size_t last_ready = 0;
    while (released_ < case_.targets.size()) {
      if (const absl::Status status = stream_.Turn(milliseconds(1)); !status.ok()) return status;
      CheckMemory();
      Compute();
      if (stream_.ready() > last_ready) last_progress = disk_.clock().Now();
      last_ready = stream_.ready();
      if (disk_.clock().Now() - last_progress > kPatience)
        return absl::InternalError("no progress");
      if (testing::Test::HasFailure()) return absl::InternalError("see above");
    }
    return absl::OkStatus();
  }

  SimDisk& disk() { return disk_; }
  ExtentStream& stream() { return stream_; }
  std::size_t released() const { return released_; }

 private:
  std::span<const std::byte> Live(std::size_t target) const {
    return {stream_.address(target), case_.targets[target].size.count()};
  }

  // Reads in flight lie in the ring, apart from each other and from what is in use.
  void CheckMemory() {
    const std::vector<std::span<const std::byte>> flights = disk_.targets();
    for (std::size_t i = 0; i < flights.size(); ++i) {
      ASSERT_GE(flights[i].data(), ring_.span().data());
      ASSERT_LE(flights[i].data() + flights[i].size(), ring_.span().data() + ring_.span().size());
      for (std::size_t j = 0; j < i; ++j) ASSERT_FALSE(Overlap(flights[i], flights[j]));
      for (std::size_t live = released_; live < stream_.ready(); ++live) {
        ASSERT_FALSE(Overlap(flights[i], Live(live))) << "extent " << live;
      }
    }
  }

  void Compute() {
    if (released_ == stream_.ready()) return;
    if (!computing_) {
      computing_ = true;
      until_ = disk_.clock().Now() + milliseconds(random_() % 4);
      ASSERT_TRUE(std::ranges::equal(Live(released_), case_.Contents(released_))) << released_;
    }
    // Nothing else moves the time when the stream waits for us.
    if (stream_.in_flight() == 0 && disk_.clock().Now() < until_) {
      disk_.clock().Advance(until_ - disk_.clock().Now());
    }
    if (disk_.clock().Now() < until_) return;
    ASSERT_TRUE(std::ranges::equal(Live(released_), case_.Contents(released_))) << released_;
    const std::span<std::byte> place =
        ring_.span().subspan(static_cast<std::size_t>(Live(released_).data() - ring_.span().data()),
                             case_.targets[released_].size.count());
    std::ranges::fill(place, kFreed);
    computing_ = false;
    stream_.Release(++released_);
  }

  const Case& case_;
  PageMemory ring_;
  SimDisk disk_;
  ExtentStream stream_;
  std::mt19937_64 random_;
  std::size_t released_ = 0;
  bool computing_ = false;
  Instant until_{};
};

class StreamerSim : public testing::TestWithParam<std::uint64_t> {};

TEST_P(StreamerSim, LoadsTheFileOrReportsAnError) {
  SCOPED_TRACE(testing::Message() << "replay with seed " << GetParam());
  const Case wanted = AnyCase(GetParam());
  const SimDisk::Options options = AnyDisk(GetParam());
  std::mt19937_64 random(GetParam() + 2'000'000);
  const Bytes ring = wanted.largest + kPageSize * (random() % 40);
  const Bytes read_size = kPageSize * (1 + random() % 6);
  Harness harness(wanted, options, ring, read_size, GetParam());
  const absl::Status status = harness.StreamAll();
  harness.stream().Drain();
  EXPECT_EQ(harness.disk().in_flight(), 0u);
  EXPECT_EQ(harness.stream().in_flight(), 0u);
  switch (status.code()) {
    case absl::StatusCode::kOk:
      EXPECT_TRUE(harness.stream().done());
      break;
    case absl::StatusCode::kUnavailable:
      EXPECT_GT(options.eio_percent, 0u) << status;
      break;
    case absl::StatusCode::kDataLoss:
      EXPECT_GT(options.flip_percent, 0u) << status;
      break;
    default:
      ADD_FAILURE() << status;
  }
}

TEST_P(StreamerSim, NeverHandsOutADamagedExtent) {
  SCOPED_TRACE(testing::Message() << "replay with seed " << GetParam());
  std::mt19937_64 random(GetParam() + 3'000'000);
  Case wanted = AnyCase(GetParam());
  if (wanted.file.empty()) return;
  std::size_t damaged = random() % wanted.targets.size();
  while (wanted.targets[damaged].size == Bytes()) damaged = (damaged + 1) % wanted.targets.size();
  const ExtentTarget& target = wanted.targets[damaged];
  wanted.file[target.offset.count() + random() % target.size.count()] ^= std::byte{0x10};
  SimDisk::Options options = AnyDisk(GetParam());
  options.eio_percent = options.flip_percent = 0;
  Harness harness(wanted, options, wanted.largest * 2, 16_KiB, GetParam());
  const absl::Status status = harness.StreamAll();
  harness.stream().Drain();
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("package \"p.sluice\": extent " + std::to_string(damaged) + ", bytes"));
  EXPECT_EQ(harness.stream().ready(), damaged);
  EXPECT_EQ(harness.disk().in_flight(), 0u);
}

INSTANTIATE_TEST_SUITE_P(Seeds, StreamerSim, testing::Range<std::uint64_t>(0, 300));

TEST(ExtentStreamTest, KeepsSeveralPiecesOfOneExtentInFlight) {
  Case wanted;
  wanted.file = AnyBytes(1, 64 * 1024);
  wanted.targets = {{.extent = {},
                     .offset = {},
                     .size = 64_KiB,
                     .stored = 64_KiB,
                     .checksum = Checksum(wanted.file)}};
  Harness harness(wanted, {.queue_depth = 4}, 64_KiB, 8_KiB, 1);
  EXPECT_TRUE(harness.StreamAll().ok());
  EXPECT_EQ(harness.stream().counters().reads, 8u);
  EXPECT_EQ(harness.stream().counters().read, 64_KiB);
}

TEST(ExtentStreamTest, ReportsAFileThatEndsTooEarly) {
  Case wanted;
  wanted.file = AnyBytes(1, 64 * 1024);
  wanted.targets = {{.extent = {},
                     .offset = {},
                     .size = 64_KiB,
                     .stored = 64_KiB,
                     .checksum = Checksum(wanted.file)}};
  wanted.file.resize(40 * 1024);
  Harness harness(wanted, {.queue_depth = 4}, 64_KiB, 8_KiB, 1);
  const absl::Status status = harness.StreamAll();
  harness.stream().Drain();
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(std::string(status.message()), HasSubstr("the file ends before them"));
}

TEST(ExtentStreamTest, GivesUpOnADiskThatAlwaysFails) {
  Case wanted;
  wanted.file = AnyBytes(1, 64 * 1024);
  wanted.targets = {{.extent = {},
                     .offset = {},
                     .size = 64_KiB,
                     .stored = 64_KiB,
                     .checksum = Checksum(wanted.file)}};
  Harness harness(wanted, {.eio_percent = 100, .queue_depth = 1}, 64_KiB, 8_KiB, 1);
  const absl::Status status = harness.StreamAll();
  harness.stream().Drain();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(
      std::string(status.message()),
      HasSubstr("package \"p.sluice\": extent 0, bytes [0, 8192): cannot read: Input/output"));
}

}  // namespace
}  // namespace sluice
