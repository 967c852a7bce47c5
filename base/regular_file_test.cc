#include "base/regular_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <fstream>

namespace sluice {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

class RegularFileTest : public testing::Test {
 protected:
  RegularFileTest() {
    std::string name = testing::TempDir() + "sluice_regular_file_" + std::string(6, 'X');
    base_ = fs::canonical(mkdtemp(name.data()));
    fs::create_directories(base_ / "in/deep");
    std::ofstream(base_ / "in/deep/file") << "text";
    std::ofstream(base_ / "secret") << "secret";
  }
  ~RegularFileTest() override { fs::remove_all(base_); }

  // OK when it can be opened inside base_/in.
  absl::Status Open(const fs::path& name) const {
    const absl::StatusOr<RegularFile> file = OpenRegularFile(base_ / name, base_ / "in");
    if (!file.ok()) return file.status();
    ::close(file->fd);
    return absl::OkStatus();
  }

  fs::path base_;
};

TEST_F(RegularFileTest, OpensWhatLiesInTheFolder) {
  EXPECT_TRUE(Open("in/deep/file").ok());
  EXPECT_TRUE(Open("in/deep/../deep/file").ok());
  fs::create_symlink(base_ / "in/deep/file", base_ / "in/absolute");
  fs::create_symlink("deep/file", base_ / "in/relative");
  EXPECT_TRUE(Open("in/absolute").ok());
  const auto file = OpenRegularFile(base_ / "in/relative", base_ / "in");
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_EQ(file->path, base_ / "in/deep/file");
  ::close(file->fd);
}

TEST_F(RegularFileTest, RefusesWhatLeadsOut) {
  fs::create_symlink(base_ / "secret", base_ / "in/absolute");
  fs::create_symlink("../secret", base_ / "in/relative");
  fs::create_symlink("..", base_ / "in/up");
  fs::create_directories(base_ / "inside_by_name_only");
  std::ofstream(base_ / "inside_by_name_only/file") << "x";
  for (const char* const name :
       {"in/absolute", "in/relative", "in/up/secret", "in/../secret", "inside_by_name_only/file"}) {
    const absl::Status status = Open(name);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << name;
    EXPECT_THAT(std::string(status.message()), HasSubstr("outside the folder")) << name;
  }
}

TEST_F(RegularFileTest, RefusesWhatIsNoFileWithoutOpeningIt) {
  ASSERT_EQ(::mkfifo((base_ / "in/pipe").c_str(), 0600), 0);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  (base_ / "in/socket").native().copy(address.sun_path, sizeof(address.sun_path) - 1);
  const int socket = ::socket(AF_UNIX, SOCK_STREAM, 0);
  ASSERT_EQ(::bind(socket, reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
  EXPECT_THAT(std::string(Open("in/pipe").message()), HasSubstr("but a named pipe"));
  EXPECT_THAT(std::string(Open("in/socket").message()), HasSubstr("but a socket"));
  EXPECT_THAT(std::string(Open("in/deep").message()), HasSubstr("but a folder"));
  EXPECT_THAT(std::string(OpenRegularFile("/dev/null").status().message()),
              HasSubstr("but a device"));
  EXPECT_EQ(Open("in/none").code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(Open("in/deep/file/more").code(), absl::StatusCode::kNotFound);
  ::close(socket);
}

TEST_F(RegularFileTest, RefusesLinksThatGoInCircles) {
  fs::create_symlink("b", base_ / "in/a");
  fs::create_symlink("a", base_ / "in/b");
  EXPECT_EQ(Open("in/a").code(), absl::StatusCode::kInvalidArgument);
}

TEST_F(RegularFileTest, ReadsSmallFilesWhole) {
  EXPECT_EQ(*ReadSmallFile(base_ / "secret", Bytes::Of(6)), "secret");
  EXPECT_THAT(std::string(ReadSmallFile(base_ / "secret", Bytes::Of(5)).status().message()),
              HasSubstr("want at most 5 bytes"));
}

}  // namespace
}  // namespace sluice
