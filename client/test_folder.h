// client/test_folder.h
//
// For tests: a folder of its own, gone with the object.

#ifndef SLUICE_CLIENT_TEST_FOLDER_H_
#define SLUICE_CLIENT_TEST_FOLDER_H_

#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <string>
#include <string_view>
#include <system_error>

#include "base/check.h"
#include "client/file.h"

namespace sluice {

class TestFolder {
 public:
  TestFolder() {
    std::string name = testing::TempDir() + "sluice-client-" + std::string(6, 'X');
    SLUICE_CHECK(mkdtemp(name.data()) != nullptr);
    path_ = name;
  }
  ~TestFolder() {
    std::error_code error;
    std::filesystem::remove_all(path_, error);
  }
  TestFolder(const TestFolder&) = delete;
  TestFolder& operator=(const TestFolder&) = delete;

  const std::filesystem::path& path() const { return path_; }
  // The whole path of a file that now has these contents.
  std::string Write(std::string_view name, std::string_view contents) const {
    const std::filesystem::path file = path_ / name;
    SLUICE_CHECK(WriteFile(file, contents).ok());
    return file.string();
  }

 private:
  std::filesystem::path path_;
};

}  // namespace sluice

#endif  // SLUICE_CLIENT_TEST_FOLDER_H_
