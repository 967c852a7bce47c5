// streamer/testing/scratch_folder.h
//
// A folder for one test, removed with it.

#ifndef SLUICE_STREAMER_TESTING_SCRATCH_FOLDER_H_
#define SLUICE_STREAMER_TESTING_SCRATCH_FOLDER_H_

#include <cstddef>
#include <filesystem>
#include <span>
#include <string_view>
#include <vector>

namespace sluice {

class ScratchFolder {
 public:
  // In the current folder, which lies on a disk, or in `parent`.
  explicit ScratchFolder(const std::filesystem::path& parent = ".");
  ~ScratchFolder();
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;

  const std::filesystem::path& path() const { return path_; }
  void Write(std::string_view name, std::span<const std::byte> contents) const;
  std::vector<std::byte> ReadFile(std::string_view name) const;
  std::size_t files() const;

 private:
  std::filesystem::path path_;
};

// Bytes of the file that lie in the page cache.
std::size_t CachedBytes(const std::filesystem::path& path);

}  // namespace sluice

#endif  // SLUICE_STREAMER_TESTING_SCRATCH_FOLDER_H_
