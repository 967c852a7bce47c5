#include "server/process_usage.h"

#include <sys/resource.h>
#include <unistd.h>

#include <charconv>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

namespace sluice {
namespace {

std::string ReadText(const char* path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

double TimeOf(const timeval& time) {
  return static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec);
}

// Seconds since 1970 at which the machine started: the line "btime N" of /proc/stat.
double BootSeconds() {
  const std::string text = ReadText("/proc/stat");
  const std::size_t at = text.find("\nbtime ");
  if (at == std::string::npos) return 0;
  std::uint64_t seconds = 0;
  std::from_chars(text.data() + at + 7, text.data() + text.size(), seconds);
  return static_cast<double>(seconds);
}

std::uint64_t CountOpenFds() {
  std::error_code error;
  std::uint64_t count = 0;
  for (auto entry = std::filesystem::directory_iterator("/proc/self/fd", error);
       !error && entry != std::filesystem::directory_iterator(); entry.increment(error)) {
    ++count;
  }
  return count > 0 ? count - 1 : 0;  // One is the listing itself.
}

}  // namespace

std::optional<std::uint64_t> StatField(std::string_view stat, int field) {
  const std::size_t name_end = stat.rfind(')');
  if (name_end == std::string_view::npos || field < 3) return std::nullopt;
  std::string_view rest = stat.substr(name_end + 1);
  for (int i = 3;; ++i) {
    const std::size_t start = rest.find_first_not_of(' ');
    if (start == std::string_view::npos) return std::nullopt;
    rest.remove_prefix(start);
    const std::string_view word = rest.substr(0, rest.find(' '));
    if (i == field) {
      std::uint64_t value = 0;
      const auto parsed = std::from_chars(word.data(), word.data() + word.size(), value);
      if (parsed.ec != std::errc()) return std::nullopt;
      return value;
    }
    rest.remove_prefix(word.size());
  }
}

ProcessUsage ReadProcessUsage() {
  constexpr int kThreads = 20, kStartTicks = 22, kVirtualBytes = 23, kResidentPages = 24;
  const std::string stat = ReadText("/proc/self/stat");
  ProcessUsage usage;
  usage.threads = StatField(stat, kThreads).value_or(0);
  usage.virtual_size = Bytes::Of(StatField(stat, kVirtualBytes).value_or(0));
  usage.resident = Bytes::Of(StatField(stat, kResidentPages).value_or(0)) *
                   static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE));
  usage.start_seconds =
      BootSeconds() + static_cast<double>(StatField(stat, kStartTicks).value_or(0)) /
                          static_cast<double>(sysconf(_SC_CLK_TCK));
  rusage spent{};
  if (getrusage(RUSAGE_SELF, &spent) == 0) {
    usage.cpu_seconds = TimeOf(spent.ru_utime) + TimeOf(spent.ru_stime);
  }
  rlimit files{};
  if (getrlimit(RLIMIT_NOFILE, &files) == 0) usage.max_fds = files.rlim_cur;
  usage.open_fds = CountOpenFds();
  return usage;
}

}  // namespace sluice
