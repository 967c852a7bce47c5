#include "server/private_folder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>
#include <string>

namespace sluice {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

class PrivateFolderTest : public testing::Test {
 protected:
  PrivateFolderTest() {
    std::string name = testing::TempDir() + "sluice_private_" + std::string(6, 'X');
    base_ = mkdtemp(name.data());
  }
  ~PrivateFolderTest() override { fs::remove_all(base_); }
  fs::path base_;
};

TEST_F(PrivateFolderTest, IsMadeForThisUserAlone) {
  const mode_t old = umask(0);
  EXPECT_TRUE(MakePrivateFolder(base_ / "a/b").ok());
  umask(old);
  struct stat info {};
  ASSERT_EQ(stat((base_ / "a/b").c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 07777u, 0700u);
  EXPECT_TRUE(MakePrivateFolder(base_ / "a/b").ok());
}

TEST_F(PrivateFolderTest, IsRefusedWhenOthersCanWriteIt) {
  chmod(base_.c_str(), 0755);
  EXPECT_TRUE(CheckPrivateFolder(base_).ok());
  for (const mode_t mode : {0777u, 01777u, 0702u}) {
    chmod(base_.c_str(), mode);
    const absl::Status status = MakePrivateFolder(base_);
    EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
    EXPECT_THAT(std::string(status.message()), HasSubstr("want a folder that other users cannot"));
  }
}

TEST_F(PrivateFolderTest, IsRefusedWhenItBelongsToOthers) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can give a folder away";
  ASSERT_EQ(chown(base_.c_str(), 12345, static_cast<gid_t>(-1)), 0);
  EXPECT_THAT(std::string(CheckPrivateFolder(base_).message()),
              HasSubstr("belongs to user 12345, want a folder of user 0 or root"));
  ASSERT_EQ(chown(base_.c_str(), 0, 12345), 0);
  chmod(base_.c_str(), 0775);
  EXPECT_THAT(std::string(CheckPrivateFolder(base_).message()), HasSubstr("with mode 0775"));
}

TEST_F(PrivateFolderTest, IsAFolder) {
  std::ofstream(base_ / "file") << "x";
  EXPECT_EQ(CheckPrivateFolder(base_ / "file").code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(CheckPrivateFolder(base_ / "none").code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(MakePrivateFolder(base_ / "file/below").code(), absl::StatusCode::kUnavailable);
}

}  // namespace
}  // namespace sluice
