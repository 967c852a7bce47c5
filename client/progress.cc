#include "client/progress.h"

#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <utility>

#include "absl/strings/str_format.h"

namespace sluice {

Progress::Progress(std::string what, std::uint64_t total)
    : what_(std::move(what)), total_(total), begin_(SteadyClock().Now()) {
  if (isatty(STDERR_FILENO) != 0) writer_ = std::thread([this] { Run(); });
}

Progress::~Progress() { Clear(); }

void Progress::Clear() {
  if (!writer_.joinable()) return;
  {
    MutexLock lock(mutex_);
    stop_ = true;
  }
  changed_.NotifyAll();
  writer_.join();
}

void Progress::Run() {
  MutexLock lock(mutex_);
  Instant next = begin_ + std::chrono::seconds(1);
  bool written = false;
  while (!stop_) {
    if (changed_.WaitUntil(mutex_, next)) continue;
    if (stop_ || SteadyClock().Now() < next) continue;
    next += std::chrono::milliseconds(500);
    std::string line = "\r" + what_ + ": ";
    if (total_ > 0) absl::StrAppendFormat(&line, "%d of %d, ", done_.load(), total_);
    absl::StrAppendFormat(&line, "%.0f s", Seconds(SteadyClock().Now() - begin_));
    std::fprintf(stderr, "%s\033[K", line.c_str());
    written = true;
  }
  if (written) std::fprintf(stderr, "\r\033[K");
}

}  // namespace sluice
