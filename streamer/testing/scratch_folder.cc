#include "streamer/testing/scratch_folder.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>
#include <iterator>
#include <string>
#include <system_error>

#include "base/bytes.h"
#include "base/check.h"

namespace sluice {

ScratchFolder::ScratchFolder(const std::filesystem::path& parent) {
  // mkdtemp fills in the last six letters.
  std::string name = (parent / "scratch-").native() + std::string(6, 'X');
  SLUICE_CHECK(::mkdtemp(name.data()) != nullptr);
  path_ = name;
}

ScratchFolder::~ScratchFolder() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

void ScratchFolder::Write(std::string_view name, std::span<const std::byte> contents) const {
  std::ofstream file(path_ / name, std::ios::binary | std::ios::trunc);
  file.write(reinterpret_cast<const char*>(contents.data()),
             static_cast<std::streamsize>(contents.size()));
  SLUICE_CHECK(file.flush().good());
}

std::vector<std::byte> ScratchFolder::ReadFile(std::string_view name) const {
  std::ifstream file(path_ / name, std::ios::binary);
  const std::string text((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  const auto* const begin = reinterpret_cast<const std::byte*>(text.data());
  return {begin, begin + text.size()};
}

std::size_t ScratchFolder::files() const {
  return static_cast<std::size_t>(std::distance(std::filesystem::directory_iterator(path_), {}));
}

std::size_t CachedBytes(const std::filesystem::path& path) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  SLUICE_CHECK(fd >= 0);
  struct stat info {};
  SLUICE_CHECK(::fstat(fd, &info) == 0);
  const auto size = static_cast<std::size_t>(info.st_size);
  void* const mapped = ::mmap(nullptr, size, PROT_NONE, MAP_SHARED, fd, 0);
  SLUICE_CHECK(mapped != MAP_FAILED);
  std::vector<unsigned char> pages((size + kPageSize.count() - 1) / kPageSize.count());
  SLUICE_CHECK(::mincore(mapped, size, pages.data()) == 0);
  ::munmap(mapped, size);
  ::close(fd);
  std::size_t cached = 0;
  for (const unsigned char page : pages) cached += (page & 1) * kPageSize.count();
  return cached;
}

}  // namespace sluice
