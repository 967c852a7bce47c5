// One contract for every block device.

#include "streamer/block_device.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <functional>
#include <ostream>
#include <random>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "streamer/page_memory.h"
#include "streamer/sim_disk.h"
#include "streamer/testing/scratch_folder.h"

namespace sluice {
namespace {

using std::chrono::hours;
using std::chrono::milliseconds;
using std::chrono::minutes;

constexpr std::size_t kPage = kPageSize.count();

struct Kind {
  std::string name;
  std::function<absl::StatusOr<std::unique_ptr<BlockDevice>>()> open;
  friend void PrintTo(const Kind& kind, std::ostream* out) { *out << kind.name; }
};

class BlockDeviceTest : public testing::TestWithParam<Kind> {
 protected:
  void SetUp() override {
    absl::StatusOr<std::unique_ptr<BlockDevice>> device = GetParam().open();
    if (!device.ok()) GTEST_SKIP() << "this machine has no such device: " << device.status();
    device_ = *std::move(device);
    std::mt19937_64 random(7);
    contents_.resize(64 * kPage);
    std::ranges::generate(contents_, [&] { return static_cast<std::byte>(random()); });
    const std::filesystem::path path = folder_.path() / "contents";
    folder_.Write("contents", contents_);
    fd_ = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_DIRECT);
    if (fd_ < 0) fd_ = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
    ASSERT_GE(fd_, 0);
    memory_ = PageMemory::Map(Bytes::Of(contents_.size())).value();
  }

  void TearDown() override {
    device_.reset();
    if (fd_ >= 0) ::close(fd_);
  }

  Read PageRead(std::size_t page, std::size_t pages = 1) const {
    return {.tag = 1000 + page,
            .fd = fd_,
            .offset = Bytes::Of(page * kPage),
            .into = memory_.span().subspan(page * kPage, pages * kPage)};
  }

  std::vector<Completion> ReapAll(std::size_t count) {
    std::vector<Completion> all;
    while (all.size() < count) {
      std::vector<Completion> some(3);
      some.resize(device_->Reap(some, minutes(1)));
      all.insert(all.end(), some.begin(), some.end());
    }
    return all;
  }

  void ExpectContents(std::size_t page, std::size_t pages = 1) const {
    EXPECT_TRUE(std::ranges::equal(memory_.span().subspan(page * kPage, pages * kPage),
                                   std::span(contents_).subspan(page * kPage, pages * kPage)))
        << "page " << page;
  }

  ScratchFolder folder_;
  std::vector<std::byte> contents_;
  int fd_ = -1;
  PageMemory memory_;
  std::unique_ptr<BlockDevice> device_;
};

TEST_P(BlockDeviceTest, CompletesEachReadOnceWithItsTagAndBytes) {
  std::set<std::uint64_t> tags;
  std::size_t submitted = 0, reaped = 0;
  while (reaped < 64) {
    while (submitted < 64 && device_->TrySubmit(PageRead(submitted))) ++submitted;
    for (const Completion& completion : ReapAll(1)) {
      EXPECT_EQ(completion.result, static_cast<int>(kPage));
      EXPECT_TRUE(tags.insert(completion.tag).second) << completion.tag;
      ++reaped;
    }
  }
  EXPECT_EQ(*tags.begin(), 1000u);
  EXPECT_EQ(*tags.rbegin(), 1063u);
  ExpectContents(0, 64);
  Completion none;
  EXPECT_EQ(device_->Reap({&none, 1}, Duration::zero()), 0u);
}

TEST_P(BlockDeviceTest, RefusesMoreReadsThanItsQueueHolds) {
  for (std::size_t i = 0; i < device_->queue_depth(); ++i) {
    ASSERT_TRUE(device_->TrySubmit(PageRead(i))) << i;
  }
  EXPECT_FALSE(device_->TrySubmit(PageRead(0)));
  const std::size_t reaped = ReapAll(1).size();
  EXPECT_TRUE(device_->TrySubmit(PageRead(63)));
  ReapAll(device_->queue_depth() - reaped + 1);
  ExpectContents(0, device_->queue_depth());
  ExpectContents(63);
}

TEST_P(BlockDeviceTest, HandsOutNoMoreCompletionsThanThereIsRoomFor) {
  ASSERT_TRUE(device_->TrySubmit(PageRead(0)));
  ASSERT_TRUE(device_->TrySubmit(PageRead(1)));
  EXPECT_EQ(device_->Reap({}, Duration::zero()), 0u);
  for (int i = 0; i < 2; ++i) {
    Completion one;
    while (device_->Reap({&one, 1}, minutes(1)) == 0) {
    }
  }
  ExpectContents(0, 2);
}

TEST_P(BlockDeviceTest, ReturnsNothingWhenNothingCameInTime) {
  Completion none;
  EXPECT_EQ(device_->Reap({&none, 1}, milliseconds(1)), 0u);
  EXPECT_EQ(device_->Reap({&none, 1}, Duration::zero()), 0u);
}

TEST_P(BlockDeviceTest, WakeEndsTheNextReap) {
  device_->Wake();
  Completion none;
  EXPECT_EQ(device_->Reap({&none, 1}, hours(1)), 0u);
}

TEST_P(BlockDeviceTest, WakeFromAnotherThreadEndsAReapThatWaits) {
  for (int i = 0; i < 20; ++i) {
    std::thread waker([this] { device_->Wake(); });
    Completion none;
    EXPECT_EQ(device_->Reap({&none, 1}, minutes(1)), 0u);
    waker.join();
  }
}

TEST_P(BlockDeviceTest, CompletesReadsThatAreInFlightWhenItIsWoken) {
  ASSERT_TRUE(device_->TrySubmit(PageRead(5)));
  device_->Wake();
  EXPECT_EQ(ReapAll(1)[0].tag, 1005u);
  ExpectContents(5);
}

TEST_P(BlockDeviceTest, ReadsIntoRegisteredAndOtherMemoryAlike) {
  const std::span<std::byte> half = memory_.span().first(32 * kPage);
  for (const std::span<std::byte> registered : {half, memory_.span(), std::span<std::byte>()}) {
    device_->RegisterMemory(registered);
    std::ranges::fill(memory_.span(), std::byte{0});
    ASSERT_TRUE(device_->TrySubmit(PageRead(0, 4)));
    ASSERT_TRUE(device_->TrySubmit(PageRead(30, 4)));  // Across the end of the first half.
    ReapAll(2);
    ExpectContents(0, 4);
    ExpectContents(30, 4);
  }
}

TEST_P(BlockDeviceTest, ReadsShortAtTheEndOfTheFile) {
  PageMemory memory = PageMemory::Map(kPageSize * 4).value();
  ASSERT_TRUE(
      device_->TrySubmit({.tag = 1, .fd = fd_, .offset = kPageSize * 62, .into = memory.span()}));
  EXPECT_EQ(ReapAll(1)[0].result, static_cast<int>(2 * kPage));
  ASSERT_TRUE(
      device_->TrySubmit({.tag = 2, .fd = fd_, .offset = kPageSize * 64, .into = memory.span()}));
  EXPECT_EQ(ReapAll(1)[0].result, 0);
}

TEST_P(BlockDeviceTest, IsDestroyedWithAWakePendingAndNothingInFlight) {
  device_->Wake();
  device_.reset();
}

INSTANTIATE_TEST_SUITE_P(All, BlockDeviceTest,
                         testing::Values(Kind{"IoUring", [] { return OpenIoUringDevice(8); }},
                                         Kind{"IoUringOfTwo", [] { return OpenIoUringDevice(2); }},
                                         Kind{"ThreadPool",
                                              []() -> absl::StatusOr<std::unique_ptr<BlockDevice>> {
                                                return OpenThreadPoolDevice(3);
                                              }},
                                         Kind{"Simulator",
                                              []() -> absl::StatusOr<std::unique_ptr<BlockDevice>> {
                                                return std::make_unique<SimDisk>(
                                                    SimDisk::Options{.seed = 1,
                                                                     .latency_max = milliseconds(5),
                                                                     .queue_depth = 4});
                                              }}),
                         [](const testing::TestParamInfo<Kind>& info) { return info.param.name; });

}  // namespace
}  // namespace sluice
