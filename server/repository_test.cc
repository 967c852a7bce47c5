#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "server/config.h"

namespace sluice {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

class RepositoryTest : public testing::Test {
 protected:
  RepositoryTest() : base_(testing::TempDir() + "sluice_repository_test") {
    fs::remove_all(base_);
    fs::create_directories(root());
  }
  ~RepositoryTest() override { fs::remove_all(base_); }

  fs::path root() const { return base_ / "models"; }
  void Write(const fs::path& file, std::string_view text) {
    fs::create_directories(file.parent_path());
    std::ofstream(file) << text;
  }

  const fs::path base_;
};

TEST_F(RepositoryTest, TakesTheHighestVersionOfEachModel) {
  Write(root() / "a/2/model.onnx", "x");
  Write(root() / "a/10/model.onnx", "x");
  Write(root() / "b/1/model.onnx", "x");
  Write(root() / "b/model.yaml", "priority: 5\ndims: {n: 3}\n");
  Write(root() / "README.md", "x");
  const RepositoryScan scan = ScanRepository(root());
  EXPECT_TRUE(scan.errors.empty());
  ASSERT_EQ(scan.models.size(), 2u);
  EXPECT_EQ(scan.models[0].name, "a");
  EXPECT_EQ(scan.models[0].version, "10");
  EXPECT_EQ(scan.models[1].priority, 5);
  EXPECT_EQ(scan.models[1].dims.at("n"), 3);
  EXPECT_THAT(scan.models[1].where, HasSubstr("b/model.yaml:1"));
}

TEST_F(RepositoryTest, TakesTheVersionThatTheDescriptionAsksFor) {
  Write(root() / "a/1/model.onnx", "x");
  Write(root() / "a/2/model.onnx", "x");
  Write(root() / "a/model.yaml", "version: 1");
  ASSERT_EQ(ScanRepository(root()).models.size(), 1u);
  EXPECT_EQ(ScanRepository(root()).models[0].version, "1");
}

TEST_F(RepositoryTest, KeepsTheGoodModelsBesideTheBad) {
  Write(root() / "good/1/model.onnx", "x");
  Write(root() / "empty/notes.txt", "x");
  Write(root() / "missing/1/other.onnx", "x");
  Write(root() / "named/1/model.onnx", "x");
  Write(root() / "named/model.yaml", "name: other\npriorty: 1\n");
  Write(root() / "odd name/1/model.onnx", "x");
  const RepositoryScan scan = ScanRepository(root());
  ASSERT_EQ(scan.models.size(), 1u);
  EXPECT_EQ(scan.models[0].name, "good");
  std::string errors;
  for (const absl::Status& error : scan.errors) errors += std::string(error.message()) + "\n";
  EXPECT_EQ(scan.errors.size(), 4u) << errors;
  EXPECT_THAT(errors, HasSubstr("empty: got no folder that is a version, want VERSION/model.onnx"));
  EXPECT_THAT(errors, HasSubstr("missing/1/model.onnx"));
  EXPECT_THAT(errors, HasSubstr("name: got \"other\", want the folder's name \"named\""));
  EXPECT_THAT(errors, HasSubstr("did you mean \"priority\"?"));
  EXPECT_THAT(errors, HasSubstr("odd name: got this folder's name"));
}

TEST_F(RepositoryTest, RefusesLinksThatLeadOut) {
  Write(base_ / "secret.onnx", "x");
  Write(root() / "blobs_unused/1/model.onnx", "x");
  fs::create_directories(root() / "out/1");
  fs::create_symlink(base_ / "secret.onnx", root() / "out/1/model.onnx");
  fs::create_directories(root() / "in/1");
  fs::create_symlink(root() / "blobs_unused/1/model.onnx", root() / "in/1/model.onnx");
  Write(base_ / "secret.yaml", "priority: 1");
  Write(root() / "description/1/model.onnx", "x");
  fs::create_symlink("../../secret.yaml", root() / "description/model.yaml");
  fs::create_directories(base_ / "elsewhere/1");
  Write(base_ / "elsewhere/1/model.onnx", "x");
  fs::create_symlink(base_ / "elsewhere", root() / "folder");
  fs::create_directories(root() / "version");
  fs::create_symlink("../../elsewhere/1", root() / "version/1");
  const RepositoryScan scan = ScanRepository(root());
  ASSERT_EQ(scan.models.size(), 2u);
  ASSERT_EQ(scan.errors.size(), 4u);
  for (const absl::Status& error : scan.errors) {
    EXPECT_THAT(error.message(), HasSubstr("outside the folder"));
  }
}

TEST_F(RepositoryTest, RefusesWhatIsNoFile) {
  fs::create_directories(root() / "pipe/1");
  ASSERT_EQ(mkfifo((root() / "pipe/1/model.onnx").c_str(), 0600), 0);
  Write(root() / "described/1/model.onnx", "x");
  ASSERT_EQ(mkfifo((root() / "described/model.yaml").c_str(), 0600), 0);
  fs::create_directories(root() / "folder/1/model.onnx");
  const RepositoryScan scan = ScanRepository(root());
  EXPECT_TRUE(scan.models.empty());
  ASSERT_EQ(scan.errors.size(), 3u);
  EXPECT_THAT(scan.errors[0].message(), HasSubstr("but a named pipe"));
  EXPECT_THAT(scan.errors[1].message(), HasSubstr("but a folder"));
  EXPECT_THAT(scan.errors[2].message(), HasSubstr("but a named pipe"));
}

TEST_F(RepositoryTest, SaysWhenThereIsNoRepository) {
  const RepositoryScan scan = ScanRepository(base_ / "none");
  ASSERT_EQ(scan.errors.size(), 1u);
  EXPECT_EQ(scan.errors[0].code(), absl::StatusCode::kNotFound);
}

}  // namespace
}  // namespace sluice
