#include "server/self_test_record.h"

#include <elf.h>
#include <fcntl.h>
#include <link.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <optional>
#include <span>
#include <string_view>
#include <system_error>

#include "absl/strings/str_format.h"
#include "base/status_macros.h"
#include "streamer/cache_folder.h"
#include "streamer/checksum.h"

namespace sluice {
namespace {

constexpr std::string_view kFirstLine = "sluice self-test 1\n";
// A record is a few lines; nothing longer is read.
constexpr std::size_t kMaxRecord = 4096;

struct Record {
  std::uint64_t builds = 0;
  std::uint64_t answer = 0;
  std::string cpu;
};

std::uint64_t ChecksumOf(std::string_view text) { return Checksum(std::as_bytes(std::span(text))); }

std::string Encode(const Record& record) {
  std::string text = absl::StrFormat("%sbuilds %016x\ncpu %s\noutputs %016x\n", kFirstLine,
                                     record.builds, record.cpu, record.answer);
  text += absl::StrFormat("checksum %016x\n", ChecksumOf(text));
  return text;
}

// Takes "KEY VALUE\n" off the front.
std::optional<std::string_view> TakeValue(std::string_view& text, std::string_view key) {
  const std::size_t end = text.find('\n');
  if (end == std::string_view::npos || !text.starts_with(key)) return std::nullopt;
  const std::string_view value = text.substr(key.size(), end - key.size());
  text.remove_prefix(end + 1);
  return value;
}

std::optional<std::uint64_t> Hexadecimal(std::optional<std::string_view> text) {
  std::uint64_t value = 0;
  if (!text || text->size() != 16) return std::nullopt;
  for (const char c : *text) {
    const bool digit = c >= '0' && c <= '9';
    if (!digit && (c < 'a' || c > 'f')) return std::nullopt;
    value = value << 4 | static_cast<std::uint64_t>(digit ? c - '0' : c - 'a' + 10);
  }
  return value;
}

// Nullopt for anything but what Encode makes.
std::optional<Record> Decode(std::string_view text) {
  if (!text.starts_with(kFirstLine)) return std::nullopt;
  std::string_view rest = text.substr(kFirstLine.size());
  const auto builds = Hexadecimal(TakeValue(rest, "builds "));
  const auto cpu = TakeValue(rest, "cpu ");
  const auto answer = Hexadecimal(TakeValue(rest, "outputs "));
  const std::uint64_t found = ChecksumOf(text.substr(0, text.size() - rest.size()));
  const auto checksum = Hexadecimal(TakeValue(rest, "checksum "));
  if (!builds || !cpu || !answer || checksum != found || !rest.empty()) return std::nullopt;
  return Record{.builds = *builds, .answer = *answer, .cpu = std::string(*cpu)};
}

// Empty when there is none that can be read.
std::string ReadRecord(const std::filesystem::path& path) {
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
  if (fd < 0) return {};
  std::array<char, kMaxRecord> text;
  const ssize_t size = read(fd, text.data(), text.size());
  close(fd);
  return size <= 0 ? std::string() : std::string(text.data(), static_cast<std::size_t>(size));
}

// Under another name first, one that is removed like an unfinished package when we die meanwhile.
absl::Status WriteRecord(const std::filesystem::path& package, const std::string& text) {
  const std::filesystem::path path = SelfTestRecordPath(package);
  const std::filesystem::path partial =
      absl::StrFormat("%s.sluice-build.%d", package.string(), getpid());
  const int fd = open(partial.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0644);
  const bool written = fd >= 0 &&
                       write(fd, text.data(), text.size()) == static_cast<ssize_t>(text.size()) &&
                       fsync(fd) == 0;
  const int error = errno;
  if (fd >= 0) close(fd);
  if (written && std::rename(partial.c_str(), path.c_str()) == 0) return absl::OkStatus();
  const int reason = written ? errno : error;
  unlink(partial.c_str());
  return absl::UnavailableError(
      absl::StrFormat("cannot write \"%s\": %s", path.string(), std::strerror(reason)));
}

bool Computes(std::string_view library) {
  if (library.empty()) return true;  // The program itself.
  library.remove_prefix(library.rfind('/') + 1);
  constexpr std::array<std::string_view, 5> kComputing = {"libdnnl.", "libgomp.", "libm.", "libc.",
                                                          "libstdc++."};
  for (const std::string_view name : kComputing) {
    if (library.starts_with(name)) return true;
  }
  return false;
}

// The build id among the notes of a loaded object; empty without one.
std::span<const std::byte> BuildIdOf(const dl_phdr_info& object) {
  const auto align = [](std::size_t size) { return (size + 3) & ~std::size_t{3}; };
  for (const ElfW(Phdr) & header : std::span(object.dlpi_phdr, object.dlpi_phnum)) {
    if (header.p_type != PT_NOTE) continue;
    // NOLINTNEXTLINE(performance-no-int-to-ptr): where the loader says that the notes are.
    const auto* begin = reinterpret_cast<const std::byte*>(object.dlpi_addr + header.p_vaddr);
    std::span<const std::byte> notes(begin, header.p_memsz);
    while (notes.size() >= sizeof(ElfW(Nhdr))) {
      ElfW(Nhdr) note;
      std::memcpy(&note, notes.data(), sizeof note);
      const std::size_t at = sizeof note + align(note.n_namesz);
      const std::size_t next = at + align(note.n_descsz);
      if (next > notes.size()) break;
      const bool gnu = note.n_namesz == 4 && std::memcmp(notes.data() + sizeof note, "GNU", 4) == 0;
      if (gnu && note.n_type == NT_GNU_BUILD_ID) return notes.subspan(at, note.n_descsz);
      notes = notes.subspan(next);
    }
  }
  return {};
}

int AddBuildId(dl_phdr_info* object, std::size_t, void* checksum) {
  if (Computes(object->dlpi_name)) {
    static_cast<RunningChecksum*>(checksum)->Add(BuildIdOf(*object));
  }
  return 0;
}

std::string ProcessorName() {
  std::ifstream file("/proc/cpuinfo");
  std::string line;
  while (std::getline(file, line)) {
    if (!line.starts_with("model name")) continue;
    const std::size_t begin = line.find(": ");
    if (begin != std::string::npos) return line.substr(begin + 2);
  }
  return "unknown";
}

ComputingCode FindComputingCode() {
  RunningChecksum builds;
  dl_iterate_phdr(AddBuildId, &builds);
  return {.builds = builds.value(), .cpu = ProcessorName()};
}

}  // namespace

const ComputingCode& ThisComputingCode() {
  static const ComputingCode code = FindComputingCode();
  return code;
}

absl::Status CheckSelfTest(const std::filesystem::path& package, std::uint64_t answer,
                           const ComputingCode& code) {
  const std::filesystem::path path = SelfTestRecordPath(package);
  const std::string text = ReadRecord(path);
  const std::optional<Record> record = Decode(text);
  if (record && record->builds == code.builds) {
    if (record->answer == answer) return absl::OkStatus();
    return absl::InternalError(absl::StrFormat(
        "self-test: got outputs with checksum %016x on this processor (%s), want %016x, which the "
        "same program and libraries gave on %s; the processor, the memory or a library is not what "
        "it was. Remove \"%s\" to accept the answers of today",
        answer, code.cpu, record->answer, record->cpu, path.string()));
  }
  if (record && record->answer != answer) {
    spdlog::info("{}: another build of the program or its libraries gives other bits; kept anew",
                 path.string());
  } else if (!record && !text.empty()) {
    spdlog::warn("{}: damaged; the answer of the self-test is kept anew", path.string());
  }
  const Record now{.builds = code.builds, .answer = answer, .cpu = code.cpu};
  if (const absl::Status written = WriteRecord(package, Encode(now)); !written.ok()) {
    spdlog::warn("the answer of the self-test is not kept: {}", std::string(written.message()));
  }
  return absl::OkStatus();
}

}  // namespace sluice
