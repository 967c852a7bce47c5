// The folder of packages: its quota, those who share it, and what is removed from it.

#include "streamer/package_cache.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_format.h"
#include "streamer/page_memory.h"
#include "streamer/testing/scratch_folder.h"
#include "streamer/testing/test_package.h"

namespace sluice {
namespace {

using std::chrono::hours;
using std::chrono::seconds;
using testing::HasSubstr;

// A package of one extent is this much larger than it.
constexpr Bytes kHead = kPageSize;

class PackageCacheTest : public testing::Test {
 protected:
  static PackageIdentity Identity(int i) { return {absl::StrFormat("model %d\n", i)}; }
  std::filesystem::path PathOf(int i) const { return folder_.path() / Identity(i).FileName(); }
  bool Has(int i) const { return std::filesystem::exists(PathOf(i)); }

  // `inside` is called while the file is being written.
  absl::StatusOr<std::shared_ptr<const Package>> Get(
      PackageCache& cache, int i, Bytes size, const std::function<absl::Status()>& inside = nullptr,
      const std::function<absl::Status()>& keep_going = nullptr) {
    const std::vector<Bytes> sizes = {size};
    const auto build =
        [&](const std::filesystem::path& path,
            std::function<absl::Status(Bytes, const std::function<absl::Status()>&)> with_room) {
          ++builds_;
          const PageMemory staging = PageMemory::Map(AlignUp(size, kPageSize)).value();
          const auto pack = [&](ExtentIndex, std::span<std::byte> into) {
            std::ranges::fill(into, static_cast<std::byte>(i));
            return inside ? inside() : absl::OkStatus();
          };
          return BuildPlainPackage(
              path, Identity(i), sizes, pack,
              {.progress = nullptr, .staging = staging.span(), .with_room = std::move(with_room)});
        };
    return cache.OpenOrBuild(
        {.identity = Identity(i), .extent_sizes = sizes, .build = build, .keep_going = keep_going});
  }
  // Last used so long ago.
  void Age(const std::filesystem::path& path, seconds age) const {
    const auto then = std::chrono::system_clock::now().time_since_epoch() - age;
    const timespec time{
        .tv_sec = static_cast<time_t>(std::chrono::duration_cast<seconds>(then).count()),
        .tv_nsec = 0};
    const timespec times[2] = {time, time};
    ASSERT_EQ(::utimensat(AT_FDCWD, path.c_str(), times, 0), 0);
  }

  const ScratchFolder folder_;
  std::atomic<int> builds_ = 0;
};

TEST_F(PackageCacheTest, BuildsOnceAndOpensAfterwards) {
  PackageCache cache({.folder = folder_.path()});
  ASSERT_TRUE(Get(cache, 1, 64_KiB).ok());
  ASSERT_TRUE(Get(cache, 1, 64_KiB).ok());
  EXPECT_EQ(builds_, 1);
  EXPECT_EQ(cache.usage().used, 64_KiB + kHead);
  EXPECT_EQ(cache.usage().in_use, Bytes());
}

TEST_F(PackageCacheTest, RemovesTheLeastRecentlyUsedToMakeRoom) {
  PackageCache cache({.folder = folder_.path(), .quota = (64_KiB + kHead) * 3});
  for (int i = 1; i <= 3; ++i) {
    ASSERT_TRUE(Get(cache, i, 64_KiB).ok());
    Age(PathOf(i), hours(10 - i));
  }
  ASSERT_TRUE(Get(cache, 1, 64_KiB).ok());  // Used again, so that 2 is the oldest.
  ASSERT_TRUE(Get(cache, 4, 64_KiB).ok());
  EXPECT_TRUE(Has(1));
  EXPECT_FALSE(Has(2));
  EXPECT_TRUE(Has(3));
  EXPECT_TRUE(Has(4));
  EXPECT_LE(cache.usage().used, *cache.options().quota);
}

TEST_F(PackageCacheTest, RefusesWhatDoesNotFitBesideWhatIsInUse) {
  PackageCache cache({.folder = folder_.path(), .quota = 200_KiB});
  const auto used = Get(cache, 1, 100_KiB);
  ASSERT_TRUE(used.ok());
  ASSERT_TRUE(Get(cache, 2, 64_KiB).ok());
  const absl::Status refused = Get(cache, 3, 120_KiB).status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kResourceExhausted);
  for (const char* text : {"124 KiB", "cache_quota 200 KiB", "104 KiB by models"}) {
    EXPECT_THAT(std::string(refused.message()), HasSubstr(text));
  }
  EXPECT_TRUE(Has(1));
  EXPECT_TRUE(Has(2)) << "nothing is removed in vain";
  EXPECT_FALSE(Has(3));
  EXPECT_EQ(folder_.files(), 2u) << "no partial file";
  const absl::Status never = Get(cache, 4, 1_MiB).status();
  EXPECT_EQ(never.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(never.message()), HasSubstr("cache_quota, 200 KiB"));
}

TEST_F(PackageCacheTest, CountsWhatABuildHasBooked) {
  PackageCache cache({.folder = folder_.path(), .quota = 200_KiB});
  const auto inside = [&] {
    EXPECT_EQ(cache.usage().used, 100_KiB + kHead);
    EXPECT_EQ(cache.usage().in_use, 100_KiB + kHead);
    EXPECT_EQ(Get(cache, 2, 100_KiB).status().code(), absl::StatusCode::kResourceExhausted);
    return absl::OkStatus();
  };
  EXPECT_TRUE(Get(cache, 1, 100_KiB, inside).ok());
}

TEST_F(PackageCacheTest, ServesAPackageThatSomebodyRemoved) {
  PackageCache cache({.folder = folder_.path()});
  const auto package = Get(cache, 7, 8_KiB);
  ASSERT_TRUE(package.ok());
  std::filesystem::remove(PathOf(7));
  const PageMemory page = PageMemory::Map(kPageSize).value();
  ASSERT_EQ(::pread((*package)->fd(), page.span().data(), kPageSize.count(),
                    static_cast<off_t>((*package)->extents()[0].offset.count())),
            static_cast<ssize_t>(kPageSize.count()));
  EXPECT_EQ(page.span()[0], std::byte{7});
}

TEST_F(PackageCacheTest, NeverTouchesForeignFiles) {
  const std::vector<std::string> names = {"notes.txt",
                                          "0123456789abcdef.sluice.bak",
                                          "x.sluice",
                                          "0123456789abcdeF.sluice",
                                          "0123456789abcdef.sluice-build",
                                          "model.sluice-build.1.2"};
  for (const std::string& name : names) {
    std::ofstream(folder_.path() / name) << std::string(100'000, 'x');
    Age(folder_.path() / name, hours(100'000));
  }
  PackageCache cache({.folder = folder_.path(), .quota = 100_KiB});
  cache.RemoveLeftovers();
  ASSERT_TRUE(Get(cache, 1, 90_KiB).ok());
  ASSERT_TRUE(Get(cache, 2, 90_KiB).ok());
  EXPECT_EQ(cache.RemoveStale([](std::string_view) { return false; }, {}), Bytes());
  for (const std::string& name : names) {
    EXPECT_TRUE(std::filesystem::exists(folder_.path() / name)) << name;
  }
}

TEST_F(PackageCacheTest, RemovesWhatIsStaleOnceItsGraceHasPassed) {
  PackageCache cache({.folder = folder_.path()});
  for (int i = 1; i <= 6; ++i) ASSERT_TRUE(Get(cache, i, 8_KiB).ok());
  {  // Another format version.
    std::fstream file(PathOf(5), std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(8);
    file.put('\x63');
  }
  const auto held = Get(cache, 6, 8_KiB);
  Age(PathOf(1), hours(25));       // Sources gone for long enough,
  Age(PathOf(2), hours(23));       // or not.
  Age(PathOf(3), hours(24 * 31));  // Sources there, but nobody asks for it.
  Age(PathOf(4), hours(24 * 29));
  Age(PathOf(5), hours(25));
  Age(PathOf(6), hours(24 * 365));  // In use.
  const auto can_be_used = [](std::string_view identity) {
    return identity != "model 1\n" && identity != "model 2\n" && identity != "model 6\n";
  };
  EXPECT_EQ(cache.RemoveStale(can_be_used, {}), (8_KiB + kHead) * 3);
  EXPECT_FALSE(Has(1));
  EXPECT_TRUE(Has(2));
  EXPECT_FALSE(Has(3));
  EXPECT_TRUE(Has(4));
  EXPECT_FALSE(Has(5));
  EXPECT_TRUE(Has(6));
}

TEST_F(PackageCacheTest, OneBuildsAndTheOtherWaitsAndOpens) {
  PackageCache mine({.folder = folder_.path()}), other({.folder = folder_.path()});
  std::atomic<bool> inside = false, waiting = false;
  std::thread first([&] {
    const auto package = Get(mine, 1, 64_KiB, [&] {
      inside = true;
      while (!waiting) std::this_thread::yield();
      return absl::OkStatus();
    });
    EXPECT_TRUE(package.ok()) << package.status();
  });
  while (!inside) std::this_thread::yield();
  const auto package = Get(other, 1, 64_KiB, nullptr, [&] {
    waiting = true;
    return absl::OkStatus();
  });
  first.join();
  EXPECT_TRUE(package.ok()) << package.status();
  EXPECT_EQ(folder_.files(), 1u);
}

TEST_F(PackageCacheTest, StopsWaitingWhenItIsTold) {
  PackageCache cache({.folder = folder_.path()});
  const auto inside = [&] {
    const absl::Status stopped = Get(cache, 1, 8_KiB, nullptr, [] {
                                   return absl::UnavailableError("shutting down");
                                 }).status();
    EXPECT_EQ(stopped.message(), "shutting down");
    return absl::OkStatus();
  };
  EXPECT_TRUE(Get(cache, 1, 8_KiB, inside).ok());
}

TEST_F(PackageCacheTest, StopsWaitingForABuildThatDoesNotMove) {
  PackageCache cache({.folder = folder_.path()});
  PackageCache hasty({.folder = folder_.path(), .patience = Duration::zero()});
  const auto inside = [&] {
    const absl::Status stopped = Get(hasty, 1, 8_KiB).status();
    EXPECT_EQ(stopped.code(), absl::StatusCode::kUnavailable) << stopped;
    EXPECT_THAT(std::string(stopped.message()), HasSubstr("another process"));
    return absl::OkStatus();
  };
  EXPECT_TRUE(Get(cache, 1, 8_KiB, inside).ok());
}

TEST_F(PackageCacheTest, ReplacesADamagedPackageThatSomebodyServes) {
  PackageCache cache({.folder = folder_.path()});
  const auto before = Get(cache, 1, 8_KiB);
  ASSERT_TRUE(before.ok());
  {
    std::fstream file(PathOf(1), std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(66);
    file.put('x');
  }
  const auto after = Get(cache, 1, 8_KiB);
  ASSERT_TRUE(after.ok()) << after.status();
  EXPECT_EQ(builds_, 2);
  struct stat old_file {
  }, new_file{};
  ASSERT_EQ(::fstat((*before)->fd(), &old_file), 0);
  ASSERT_EQ(::fstat((*after)->fd(), &new_file), 0);
  EXPECT_NE(old_file.st_ino, new_file.st_ino);
}

// A listing of a folder that others change may see a file that has gone and the one that came in
// its place; what is really too much is seen again and again.
bool StaysAbove(PackageCache& cache, Bytes quota) {
  for (int look = 0; look < 100; ++look) {
    if (cache.usage().used <= quota) return false;
  }
  return true;
}

// Opens, builds, removes and counts at once in several processes; whatever is opened is whole.
TEST_F(PackageCacheTest, ManyProcessesAgree) {
  std::vector<pid_t> children;
  for (int child = 0; child < 4; ++child) {
    children.push_back(::fork());
    ASSERT_GE(children.back(), 0);
    if (children.back() != 0) continue;
    PackageCache cache({.folder = folder_.path(), .quota = 150_KiB});
    for (int round = 0; round < 50; ++round) {
      const int i = (round * 7 + child) % 5;
      const auto package = Get(cache, i, 40_KiB);
      // Two of five fit beside two in use: at times there is no room.
      if (!package.ok() && !absl::IsResourceExhausted(package.status())) ::_exit(1);
      if (StaysAbove(cache, 150_KiB)) ::_exit(2);
      cache.RemoveLeftovers();
    }
    ::_exit(0);
  }
  for (const pid_t child : children) {
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
  }
  for (const auto& entry : std::filesystem::directory_iterator(folder_.path())) {
    EXPECT_EQ(entry.path().extension(), ".sluice") << entry.path();
  }
}

// A small disk of its own.
class SmallDiskTest : public PackageCacheTest {
 protected:
  void SetUp() override {
    disk_ = folder_.path() / "disk";
    std::filesystem::create_directory(disk_);
    if (::mount("tmpfs", disk_.c_str(), "tmpfs", 0, "size=1m") != 0) {
      GTEST_SKIP() << "SKIPPED: no file system may be mounted here (not root?)";
    }
    mounted_ = true;
  }
  void TearDown() override {
    if (mounted_) ::umount2(disk_.c_str(), MNT_DETACH);
  }
  std::size_t FilesOnDisk() const {
    return static_cast<std::size_t>(std::distance(std::filesystem::directory_iterator(disk_), {}));
  }
  std::filesystem::path disk_;
  bool mounted_ = false;
};

TEST_F(SmallDiskTest, RefusesWhatTheDiskHasNoRoomFor) {
  PackageCache cache({.folder = disk_});
  const auto held = Get(cache, 1, 400_KiB);
  ASSERT_TRUE(held.ok()) << held.status();
  ASSERT_TRUE(Get(cache, 2, 400_KiB).ok());
  ASSERT_TRUE(Get(cache, 3, 400_KiB).ok()) << "the second gives way";
  const absl::Status refused = Get(cache, 4, 800_KiB).status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(refused.message()), HasSubstr("the disk"));
  EXPECT_EQ(FilesOnDisk(), 2u);
}

TEST_F(SmallDiskTest, RefusesADiskThatIsReadOnly) {
  PackageCache cache({.folder = disk_});
  ASSERT_TRUE(Get(cache, 1, 64_KiB).ok());
  ASSERT_EQ(::mount("", disk_.c_str(), "", MS_REMOUNT | MS_RDONLY, ""), 0);
  EXPECT_TRUE(Get(cache, 1, 64_KiB).ok()) << "what is there can be read";
  const absl::Status refused = Get(cache, 2, 64_KiB).status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(refused.message()), HasSubstr("Read-only file system"));
  EXPECT_EQ(FilesOnDisk(), 1u);
}

}  // namespace
}  // namespace sluice
