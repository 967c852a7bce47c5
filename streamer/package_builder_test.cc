// Builds that meet other builds, a killed process, and the page cache.

#include <fcntl.h>
#include <gtest/gtest.h>
#include <linux/magic.h>
#include <sys/vfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <vector>

#include "streamer/package.h"
#include "streamer/package_cache.h"
#include "streamer/page_memory.h"
#include "streamer/testing/scratch_folder.h"
#include "streamer/testing/sum_program.h"
#include "streamer/testing/test_package.h"

namespace sluice {
namespace {

const PackageIdentity kIdentity{"builder test\n"};
const std::vector<Bytes> kSizes = {300_KiB, Bytes::Of(5000), 1_MiB};

bool OnMemoryFileSystem(const std::filesystem::path& path) {
  struct statfs info {};
  return ::statfs(path.c_str(), &info) == 0 && info.f_type == TMPFS_MAGIC;
}

// Builds a package whose `pack` calls `inside` before each extent.
absl::Status BuildWith(const std::filesystem::path& path,
                       const std::function<void(ExtentIndex)>& inside) {
  const std::unique_ptr<Program> program = MakeSumProgram({.extents = kSizes, .during_step = {}});
  const PageMemory staging = PageMemory::Map(1_MiB).value();
  return BuildPlainPackage(path, kIdentity, kSizes,
                           [&](ExtentIndex extent, std::span<std::byte> into) {
                             inside(extent);
                             return program->Pack(extent, into);
                           },
                           {.progress = nullptr, .staging = staging.span()});
}

TEST(PackageBuilderTest, OneBuildOfAPackageRunsAtATime) {
  const ScratchFolder folder;
  const std::filesystem::path path = folder.path() / kIdentity.FileName();
  const absl::Status status = BuildWith(path, [&](ExtentIndex) {
    EXPECT_TRUE(absl::IsAborted(BuildWith(path, [](ExtentIndex) { FAIL(); })));
    EXPECT_EQ(folder.files(), 1u);
  });
  EXPECT_TRUE(status.ok()) << status;
  EXPECT_EQ(folder.files(), 1u);
  EXPECT_TRUE(Package::Open(path, kIdentity, kSizes).ok());
}

TEST(PackageBuilderTest, RemovingLeftoversLeavesLivingBuildsAndPackagesAlone) {
  const ScratchFolder folder;
  PackageCache cache({.folder = folder.path()});
  const std::filesystem::path path = folder.path() / kIdentity.FileName();
  ASSERT_TRUE(BuildWith(path, [](ExtentIndex) {}).ok());
  const absl::Status status = BuildWith(path, [&](ExtentIndex) {
    cache.RemoveLeftovers();
    EXPECT_EQ(folder.files(), 2u);
  });
  EXPECT_TRUE(status.ok()) << status;
  cache.RemoveLeftovers();
  EXPECT_EQ(folder.files(), 1u);
  EXPECT_TRUE(Package::Open(path, kIdentity, kSizes).ok());
}

TEST(PackageBuilderTest, RemovingLeftoversInAFolderThatIsNotThereDoesNothing) {
  const ScratchFolder folder;
  PackageCache({.folder = folder.path() / "none"}).RemoveLeftovers();
  EXPECT_EQ(folder.files(), 0u);
}

TEST(PackageBuilderTest, ABuildThatWasKilledLeavesNothingOnceLeftoversAreRemoved) {
  const ScratchFolder folder;
  PackageCache cache({.folder = folder.path()});
  const std::filesystem::path path = folder.path() / kIdentity.FileName();
  int channel[2];
  ASSERT_EQ(::pipe(channel), 0);
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    static_cast<void>(BuildWith(path, [&](ExtentIndex extent) {
      if (Index(extent) != 2) return;
      const char here = 'x';
      static_cast<void>(!::write(channel[1], &here, 1));
      for (;;) ::pause();
    }));
    ::_exit(1);
  }
  char here = 0;
  ASSERT_EQ(::read(channel[0], &here, 1), 1);
  EXPECT_EQ(folder.files(), 1u);
  cache.RemoveLeftovers();
  EXPECT_EQ(folder.files(), 1u) << "the builder lives";
  ASSERT_EQ(::kill(child, SIGKILL), 0);
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFSIGNALED(status));
  EXPECT_FALSE(std::filesystem::exists(path));
  cache.RemoveLeftovers();
  EXPECT_EQ(folder.files(), 0u);
  ::close(channel[0]);
  ::close(channel[1]);
}

TEST(PackageBuilderTest, LeavesNothingInThePageCache) {
  const ScratchFolder folder;
  if (OnMemoryFileSystem(folder.path()))
    GTEST_SKIP() << "this folder lies in memory, not on a disk";
  const std::filesystem::path path = folder.path() / "p.sluice";
  const std::unique_ptr<Program> program =
      MakeSumProgram({.extents = std::vector<Bytes>(8, 1_MiB), .during_step = {}});
  ASSERT_TRUE(BuildProgramPackage(path, kIdentity, *program).ok());
  EXPECT_LT(CachedBytes(path), (1_MiB).count());
  ASSERT_TRUE(Package::Open(path, kIdentity, ExtentSizes(*program)).ok());
  EXPECT_LT(CachedBytes(path), (1_MiB).count());
}

TEST(PackageBuilderTest, BuildsOnAFileSystemInMemory) {
  const std::filesystem::path memory = "/dev/shm";
  if (!OnMemoryFileSystem(memory)) GTEST_SKIP() << "no tmpfs at " << memory;
  const ScratchFolder folder(memory);
  const std::filesystem::path path = folder.path() / "p.sluice";
  const absl::Status status = BuildWith(path, [](ExtentIndex) {});
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_TRUE(Package::Open(path, kIdentity, kSizes).ok());
}

}  // namespace
}  // namespace sluice
