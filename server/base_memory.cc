#include "server/base_memory.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_format.h"
#include "base/status_macros.h"
#include "server/warm_up.h"

namespace sluice {
namespace {

// What gRPC and the metrics page add until they listen: their threads, and pages of their
// libraries.
constexpr Bytes kWire = 6_MiB;
// Measured: 4.4 to 4.6 MiB.
constexpr Bytes kWireSettled = 5_MiB;
// The least headroom, and what of it stays free when nothing is asked of the daemon: eight clients
// at once make gRPC grow by 2 MiB.
constexpr Bytes kLeastHeadroom = 5_MiB;
constexpr Bytes kFreeHeadroom = 3_MiB;
// The headroom grows in steps, and does not shrink for less than several of them.
constexpr Bytes kStep = 256_KiB;
constexpr Bytes kShrinkFrom = 1_MiB;
// Less than this is no change.
constexpr Bytes kNotice = 64_KiB;

Bytes Held(const ProcessMemory& process) { return process.resident + process.swapped; }
// Anonymous memory stays anonymous in swap.
Bytes Anonymous(const ProcessMemory& process) { return Held(process) - process.files; }

std::int64_t Signed(Bytes bytes) { return static_cast<std::int64_t>(bytes.count()); }

}  // namespace

std::int64_t Unaccounted(const ProcessMemory& process, std::span<const MemoryLedger::Line> lines) {
  Bytes used;
  for (const MemoryLedger::Line& line : lines) used += line.used;
  return Signed(Held(process)) - Signed(used);
}

Bytes BaseMemory::LeastNow() { return Held(ReadProcessMemory()) + kWire + kLeastHeadroom; }

Bytes BaseMemory::SettledNow() { return Held(ReadProcessMemory()) + kWireSettled; }

Bytes BaseMemory::HeadroomFor(Bytes growth) {
  return std::max(kLeastHeadroom, AlignUp(growth + kFreeHeadroom, kStep));
}

absl::Status BaseMemory::Reserve() {
  least_ = LeastNow();
  SLUICE_ASSIGN_OR_RETURN(base_, ledger_.Reserve("base", "", least_ - kLeastHeadroom));
  SLUICE_ASSIGN_OR_RETURN(headroom_, ledger_.Reserve("headroom", "", kLeastHeadroom));
  return absl::OkStatus();
}

absl::Status BaseMemory::Measure() {
  ReturnFreedMemory();
  const ProcessMemory process = ReadProcessMemory();
  anonymous_ = Anonymous(process).count();
  files_ = process.files.count();
  return base_.Resize(Held(process));
}

std::vector<MemoryLedger::Line> BaseMemory::UsedLines(const ProcessMemory& process) const {
  const Bytes files = Bytes::Of(files_.load());
  std::vector<MemoryLedger::Line> lines = ledger_.lines();
  for (MemoryLedger::Line& line : lines) {
    if (line.line == "base") {
      // The kernel may drop pages of files when it needs them for others.
      line.used = Bytes::Of(anonymous_.load()) + std::min(files, process.files);
    } else if (line.line == "headroom") {
      line.used = process.files - files;
    } else if (line.line == "receive") {
      line.used = Bytes();
    }
  }
  return lines;
}

absl::StatusOr<bool> BaseMemory::Correct(const std::function<absl::Status(Bytes)>& make_room) {
  // An idle daemon costs nothing but a look.
  ProcessMemory process = ReadProcessMemory();
  if (Held(process) < settled_ + kNotice && settled_ < Held(process) + kNotice) return false;
  ReturnFreedMemory();
  process = ReadProcessMemory();
  settled_ = Held(process);
  Bytes used, receive, requests;
  for (const MemoryLedger::Line& line : UsedLines(process)) {
    if (line.line != "headroom") used += line.used;
    if (line.line == "receive") receive += line.reserved;
    if (line.line == "requests") requests += line.reserved;
  }
  // Messages that are being received are not the headroom's affair.
  const Bytes growth = Held(process) - used - (requests > Bytes() ? receive : Bytes());
  const Bytes wanted = HeadroomFor(growth);
  const Bytes has = headroom_.bytes();
  if (wanted <= has && has < wanted + kShrinkFrom) return false;
  if (headroom_.Resize(wanted).ok()) return true;
  if (make_room(wanted - has).ok() && headroom_.Resize(wanted).ok()) return true;
  // What is free is for requests: only real growth takes it, not what should stay free for more.
  const Bytes least = AlignUp(growth, kStep);
  const Bytes more = std::min(least - has, ledger_.free());
  if (more > Bytes()) (void)headroom_.Resize(has + more);
  if (growth <= headroom_.bytes()) return more > Bytes();
  return absl::ResourceExhaustedError(absl::StrFormat(
      "the process holds %s, of which lines other than headroom explain %s and headroom may take "
      "%s, and models cannot give way: raise memory.budget (%s)",
      FormatBytes(Held(process)), FormatBytes(used), FormatBytes(headroom_.bytes()),
      FormatBytes(ledger_.budget())));
}

std::optional<std::int64_t> BaseMemory::MeasureUnaccounted() const {
  ReturnFreedMemory();
  const ProcessMemory process = ReadProcessMemory();
  const std::vector<MemoryLedger::Line> lines = UsedLines(process);
  for (const MemoryLedger::Line& line : lines) {
    if (line.line == "requests" && line.reserved > Bytes()) return std::nullopt;
  }
  return Unaccounted(process, lines);
}

}  // namespace sluice
