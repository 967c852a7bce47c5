#include "model/model_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <utility>
#include <vector>

#include "absl/strings/str_format.h"
#include "base/check.h"
#include "base/regular_file.h"
#include "base/status_macros.h"

namespace sluice {
namespace {

std::int64_t ChangedAt(const struct stat& info) {
  return std::int64_t{info.st_mtim.tv_sec} * 1'000'000'000 + info.st_mtim.tv_nsec;
}

class Window final : public Constant {
 public:
  Window(std::shared_ptr<const ModelFile> file, Bytes offset, Bytes size)
      : file_(std::move(file)), offset_(offset), size_(size) {}
  Bytes size() const override { return size_; }
  absl::Status Read(Bytes offset, std::span<std::byte> into) const override {
    SLUICE_CHECK(offset + Bytes::Of(into.size()) <= size_);
    return file_->Read(offset_ + offset, into);
  }

 private:
  std::shared_ptr<const ModelFile> file_;
  Bytes offset_, size_;
};

// Decodes varints from a range of a file through a small buffer.
class VarintStream {
 public:
  VarintStream(const ModelFile& file, Bytes begin, Bytes end)
      : file_(file), next_(begin), end_(end) {}

  Bytes position() const { return next_ - Bytes::Of(filled_ - used_); }
  bool at_end() const { return used_ == filled_ && next_ >= end_; }

  absl::StatusOr<std::uint64_t> Next() {
    std::uint64_t value = 0;
    for (unsigned shift = 0; shift < 70; shift += 7) {
      if (used_ == filled_) SLUICE_RETURN_IF_ERROR(Fill());
      const auto byte = static_cast<std::uint64_t>(buffer_[used_++]);
      if (shift < 64) value |= (byte & 0x7f) << shift;
      if (byte < 0x80) return value;
    }
    return absl::InvalidArgumentError("a varint is longer than ten bytes");
  }

 private:
  absl::Status Fill() {
    const Bytes left = end_ - next_;
    if (left == Bytes()) return absl::InvalidArgumentError("the last varint is cut short");
    used_ = 0;
    filled_ = static_cast<std::size_t>(std::min<std::uint64_t>(left.count(), buffer_.size()));
    SLUICE_RETURN_IF_ERROR(file_.Read(next_, std::span(buffer_).first(filled_)));
    next_ += Bytes::Of(filled_);
    return absl::OkStatus();
  }

  const ModelFile& file_;
  Bytes next_, end_;
  std::array<std::byte, 16384> buffer_{};
  std::size_t used_ = 0, filled_ = 0;
};

constexpr std::uint64_t kElementsPerMark = 4096;

class Varints final : public Constant {
 public:
  Varints(std::shared_ptr<const ModelFile> file, Bytes end, std::vector<Bytes> marks,
          std::size_t width, Bytes size)
      : file_(std::move(file)), end_(end), marks_(std::move(marks)), width_(width), size_(size) {}

  Bytes size() const override { return size_; }

  absl::Status Read(Bytes offset, std::span<std::byte> into) const override {
    SLUICE_CHECK(offset + Bytes::Of(into.size()) <= size_);
    if (into.empty()) return absl::OkStatus();
    const std::uint64_t element = offset.count() / width_;
    VarintStream stream(*file_, marks_[element / kElementsPerMark], end_);
    for (std::uint64_t skip = element % kElementsPerMark; skip > 0; --skip) {
      SLUICE_RETURN_IF_ERROR(Checked(stream.Next()).status());
    }
    std::size_t phase = static_cast<std::size_t>(offset.count() % width_);
    for (std::size_t done = 0; done < into.size(); phase = 0) {
      SLUICE_ASSIGN_OR_RETURN(const std::uint64_t value, Checked(stream.Next()));
      std::array<std::byte, 8> bytes;
      std::memcpy(bytes.data(), &value, bytes.size());
      const std::size_t run = std::min(width_ - phase, into.size() - done);
      std::memcpy(into.data() + done, bytes.data() + phase, run);
      done += run;
    }
    return absl::OkStatus();
  }

 private:
  // What was well formed when it was opened has changed if it no longer is.
  static absl::StatusOr<std::uint64_t> Checked(absl::StatusOr<std::uint64_t> value) {
    if (value.ok()) return value;
    return absl::DataLossError(value.status().message());
  }

  std::shared_ptr<const ModelFile> file_;
  Bytes end_;
  std::vector<Bytes> marks_;  // Where every kElementsPerMark-th element begins.
  std::size_t width_;
  Bytes size_;
};

}  // namespace

absl::StatusOr<std::shared_ptr<const ModelFile>> ModelFile::Open(
    const std::filesystem::path& path, const std::optional<std::filesystem::path>& folder) {
  SLUICE_ASSIGN_OR_RETURN(RegularFile file, OpenRegularFile(path, folder));
  struct stat info = {};
  if (::fstat(file.fd, &info) != 0) {
    const int error = errno;
    ::close(file.fd);
    return absl::InvalidArgumentError(
        absl::StrFormat("cannot open \"%s\": %s", path.string(), std::strerror(error)));
  }
  // Windows are asked for exactly; read-ahead would leave pages that nobody drops.
  ::posix_fadvise(file.fd, 0, 0, POSIX_FADV_RANDOM);
  return std::shared_ptr<const ModelFile>(
      new ModelFile(std::move(file.path), file.fd,
                    Bytes::Of(static_cast<std::uint64_t>(info.st_size)), ChangedAt(info)));
}

ModelFile::ModelFile(std::filesystem::path path, int descriptor, Bytes size,
                     std::int64_t changed_ns)
    : path_(std::move(path)), descriptor_(descriptor), size_(size), changed_ns_(changed_ns) {}

ModelFile::~ModelFile() { ::close(descriptor_); }

absl::Status ModelFile::Read(Bytes offset, std::span<std::byte> into) const {
  SLUICE_CHECK(offset + Bytes::Of(into.size()) <= size_);
  struct stat info = {};
  if (::fstat(descriptor_, &info) != 0 || ChangedAt(info) != changed_ns_ ||
      static_cast<std::uint64_t>(info.st_size) != size_.count()) {
    return absl::DataLossError(
        absl::StrFormat("\"%s\" was changed after it was opened: it has %d bytes and had %d",
                        path_.string(), info.st_size, size_.count()));
  }
  std::size_t done = 0;
  while (done < into.size()) {
    const ssize_t got = ::pread(descriptor_, into.data() + done, into.size() - done,
                                static_cast<off_t>(offset.count() + done));
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) {
      return absl::DataLossError(absl::StrFormat(
          "cannot read \"%s\" at byte %d: %s", path_.string(), offset.count() + done,
          got < 0 ? std::strerror(errno) : "it has become shorter"));
    }
    done += static_cast<std::size_t>(got);
  }
  const std::uint64_t first = offset.count() / kPageSize.count() * kPageSize.count();
  const std::uint64_t end = AlignUp(offset + Bytes::Of(into.size()), kPageSize).count();
  ::posix_fadvise(descriptor_, static_cast<off_t>(first), static_cast<off_t>(end - first),
                  POSIX_FADV_DONTNEED);
  return absl::OkStatus();
}

std::shared_ptr<const Constant> FileConstant(std::shared_ptr<const ModelFile> file, Bytes offset,
                                             Bytes size) {
  SLUICE_CHECK(offset + size <= file->size());
  return std::make_shared<Window>(std::move(file), offset, size);
}

absl::StatusOr<std::shared_ptr<const Constant>> VarintConstant(
    std::shared_ptr<const ModelFile> file, Bytes offset, Bytes length, DataType type,
    std::uint64_t count) {
  SLUICE_CHECK(offset + length <= file->size());
  // Each takes a byte at least, so a lie about the count is found before anything is reserved.
  if (count > length.count()) {
    return absl::InvalidArgumentError(
        absl::StrFormat("%d bytes cannot hold %d varints", length.count(), count));
  }
  std::vector<Bytes> marks;
  VarintStream stream(*file, offset, offset + length);
  std::uint64_t found = 0;
  for (; !stream.at_end(); ++found) {
    if (found == count) break;
    if (found % kElementsPerMark == 0) marks.push_back(stream.position());
    SLUICE_RETURN_IF_ERROR(stream.Next().status());
  }
  if (found != count || !stream.at_end()) {
    return absl::InvalidArgumentError(absl::StrFormat("%d bytes hold %s than %d varints",
                                                      length.count(),
                                                      found < count ? "fewer" : "more", count));
  }
  const auto width = static_cast<std::size_t>(SizeOf(type).count());
  return std::make_shared<Varints>(std::move(file), offset + length, std::move(marks), width,
                                   SizeOf(type) * count);
}

}  // namespace sluice
